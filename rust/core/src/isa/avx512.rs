//! x86-64 with AVX-512 F, BW, DQ and VL: registers of 8 float64 and 16 float32 numbers.
#![expect(unsafe_code, reason = "calls intrinsics; the token proves that the CPU has them")]

use std::arch::x86_64::{
    __m256i, __m512, __m512d, _CMP_GE_OQ, _CMP_NGT_UQ, _CMP_UNORD_Q, _mm_add_pd, _mm_add_sd, _mm_cvtsd_f64,
    _mm_unpackhi_pd, _mm256_add_pd, _mm256_castpd256_pd128, _mm256_extractf128_pd, _mm256_loadu_si256, _mm512_abs_pd,
    _mm512_abs_ps, _mm512_add_pd, _mm512_add_ps, _mm512_castpd512_pd256, _mm512_castps512_ps256, _mm512_castsi512_ps,
    _mm512_cmp_pd_mask, _mm512_cmp_ps_mask, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_cvtps_pd, _mm512_div_pd,
    _mm512_extractf32x8_ps, _mm512_extractf64x4_pd, _mm512_fmadd_ps, _mm512_loadu_pd, _mm512_loadu_ps,
    _mm512_mask_mov_pd, _mm512_max_pd, _mm512_max_ps, _mm512_mul_pd, _mm512_mul_ps, _mm512_set1_pd, _mm512_set1_ps,
    _mm512_slli_epi32, _mm512_sqrt_pd, _mm512_storeu_pd, _mm512_storeu_ps, _mm512_sub_pd, _mm512_sub_ps,
};

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::{Level, Simd, operations};
use crate::reference::max_with_nan;

/// The proof that the CPU has AVX-512 F, BW, DQ and VL, and what [`Avx2`](super::Avx2) proves.
#[derive(Debug, Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    /// The token, if the CPU has the features.
    #[must_use]
    #[inline]
    pub fn detect() -> Option<Self> {
        let found = super::Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        found.then_some(Self(()))
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load_ps(from: &[f32; 16]) -> __m512 {
    // SAFETY: the reference is to as many bytes as are read.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load_pd(from: &[f64; 8]) -> __m512d {
    // SAFETY: the reference is to as many bytes as are read.
    unsafe { _mm512_loadu_pd(from.as_ptr()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn store_pd(value: __m512d, to: &mut [f64; 8]) {
    // SAFETY: the reference is to as many bytes as are written.
    unsafe { _mm512_storeu_pd(to.as_mut_ptr(), value) }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load_u16(from: &[u16; 16]) -> __m256i {
    // SAFETY: the reference is to as many bytes as are read.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn widened(sixteen: __m512) -> [__m512d; 2] {
    [
        _mm512_cvtps_pd(_mm512_castps512_ps256(sixteen)),
        _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(sixteen)),
    ]
}

/// The larger of the two; `maxpd` gives `b` where either is NaN, which is right unless `a` alone is.
#[target_feature(enable = "avx512f")]
#[inline]
fn max_with_nan_pd(a: __m512d, b: __m512d) -> __m512d {
    _mm512_mask_mov_pd(_mm512_max_pd(a, b), _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(a, a), a)
}

impl Simd for Avx512 {
    type Lanes = [__m512d; 2];
    type F32 = __m512;
    const F32_LANES: usize = 16;
    const LEVEL: Level = Level::Avx512;

    #[inline(always)]
    fn vectorize<R>(self, f: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        #[inline]
        fn with_features<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: `self` exists only where detection found these features.
        unsafe { with_features(f) }
    }

    operations! { "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c":
        fn splat(value: f64) -> [__m512d; 2] {
            [_mm512_set1_pd(value); 2]
        }
        fn load(from: &[f64; 16]) -> [__m512d; 2] {
            let (parts, _) = from.as_chunks();
            [load_pd(&parts[0]), load_pd(&parts[1])]
        }
        fn store(value: [__m512d; 2], to: &mut [f64; 16]) {
            let (parts, _) = to.as_chunks_mut();
            for (part, value) in parts.iter_mut().zip(value) {
                store_pd(value, part);
            }
        }
        fn widen_f32(from: &[f32; 16]) -> [__m512d; 2] {
            widened(load_ps(from))
        }
        fn widen_f16(from: &[f16; 16]) -> [__m512d; 2] {
            let bits = from.reinterpret_cast().first_chunk().expect("sixteen of sixteen");
            widened(_mm512_cvtph_ps(load_u16(bits)))
        }
        fn widen_bf16(from: &[u16; 16]) -> [__m512d; 2] {
            widened(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(load_u16(from)))))
        }
        fn add(a: [__m512d; 2], b: [__m512d; 2]) -> [__m512d; 2] {
            [_mm512_add_pd(a[0], b[0]), _mm512_add_pd(a[1], b[1])]
        }
        fn sub(a: [__m512d; 2], b: [__m512d; 2]) -> [__m512d; 2] {
            [_mm512_sub_pd(a[0], b[0]), _mm512_sub_pd(a[1], b[1])]
        }
        fn mul(a: [__m512d; 2], b: [__m512d; 2]) -> [__m512d; 2] {
            [_mm512_mul_pd(a[0], b[0]), _mm512_mul_pd(a[1], b[1])]
        }
        fn div(a: [__m512d; 2], b: [__m512d; 2]) -> [__m512d; 2] {
            [_mm512_div_pd(a[0], b[0]), _mm512_div_pd(a[1], b[1])]
        }
        fn abs(a: [__m512d; 2]) -> [__m512d; 2] {
            [_mm512_abs_pd(a[0]), _mm512_abs_pd(a[1])]
        }
        fn sqrt(a: [__m512d; 2]) -> [__m512d; 2] {
            [_mm512_sqrt_pd(a[0]), _mm512_sqrt_pd(a[1])]
        }
        fn max(a: [__m512d; 2], b: [__m512d; 2]) -> [__m512d; 2] {
            [max_with_nan_pd(a[0], b[0]), max_with_nan_pd(a[1], b[1])]
        }
        fn fold_sum(a: [__m512d; 2]) -> f64 {
            let eight = _mm512_add_pd(a[0], a[1]);
            let four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd::<1>(eight));
            let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        }
        fn fold_max(a: [__m512d; 2]) -> f64 {
            let mut last = [0.0; 8];
            store_pd(max_with_nan_pd(a[0], a[1]), &mut last);
            last.into_iter().reduce(max_with_nan).unwrap_or(0.0)
        }

        fn splat_f32(value: f32) -> __m512 {
            _mm512_set1_ps(value)
        }
        fn load_f32(from: &[f32]) -> __m512 {
            load_ps(from.first_chunk().expect("a slice of at least one register"))
        }
        fn store_f32(value: __m512, to: &mut [f32]) {
            let to: &mut [f32; 16] = to.first_chunk_mut().expect("a slice of at least one register");
            // SAFETY: the reference is to as many bytes as are written.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), value) }
        }
        fn mul_add_f32(a: __m512, b: __m512, c: __m512) -> __m512 {
            _mm512_fmadd_ps(a, b, c)
        }
        fn add_f32(a: __m512, b: __m512) -> __m512 {
            _mm512_add_ps(a, b)
        }
        fn sub_f32(a: __m512, b: __m512) -> __m512 {
            _mm512_sub_ps(a, b)
        }
        fn mul_f32(a: __m512, b: __m512) -> __m512 {
            _mm512_mul_ps(a, b)
        }
        fn abs_f32(a: __m512) -> __m512 {
            _mm512_abs_ps(a)
        }
        fn max_f32(a: __m512, b: __m512) -> __m512 {
            _mm512_max_ps(a, b)
        }
        fn ge_f32(a: __m512, b: __m512) -> u32 {
            u32::from(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(a, b))
        }
        fn not_gt_f32(a: __m512, b: __m512) -> u32 {
            u32::from(_mm512_cmp_ps_mask::<_CMP_NGT_UQ>(a, b))
        }
    }
}
