//! x86-64 with AVX2, FMA and F16C: registers of 4 float64 and 8 float32 numbers.
#![expect(unsafe_code, reason = "calls intrinsics; the token proves that the CPU has them")]

use std::arch::x86_64::{
    __m128i, __m256, __m256d, _CMP_GE_OQ, _CMP_NGT_UQ, _CMP_UNORD_Q, _mm_add_pd, _mm_add_sd, _mm_cvtsd_f64,
    _mm_loadu_si128, _mm_unpackhi_pd, _mm256_add_pd, _mm256_add_ps, _mm256_andnot_pd, _mm256_andnot_ps,
    _mm256_blendv_pd, _mm256_castpd256_pd128, _mm256_castps256_ps128, _mm256_castsi256_ps, _mm256_cmp_pd,
    _mm256_cmp_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_cvtps_pd, _mm256_div_pd, _mm256_extractf128_pd,
    _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_pd, _mm256_loadu_ps, _mm256_max_pd, _mm256_max_ps,
    _mm256_movemask_ps, _mm256_mul_pd, _mm256_mul_ps, _mm256_set1_pd, _mm256_set1_ps, _mm256_slli_epi32,
    _mm256_sqrt_pd, _mm256_storeu_pd, _mm256_storeu_ps, _mm256_sub_pd, _mm256_sub_ps,
};

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::{Level, Simd, operations};
use crate::reference::max_with_nan;

/// The proof that the CPU has AVX2, FMA and F16C.
#[derive(Debug, Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// The token, if the CPU has the features.
    #[must_use]
    #[inline]
    pub fn detect() -> Option<Self> {
        let found =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        found.then_some(Self(()))
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_ps(from: &[f32; 8]) -> __m256 {
    // SAFETY: the reference is to as many bytes as are read.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_pd(from: &[f64; 4]) -> __m256d {
    // SAFETY: the reference is to as many bytes as are read.
    unsafe { _mm256_loadu_pd(from.as_ptr()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn store_pd(value: __m256d, to: &mut [f64; 4]) {
    // SAFETY: the reference is to as many bytes as are written.
    unsafe { _mm256_storeu_pd(to.as_mut_ptr(), value) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_u16(from: &[u16; 8]) -> __m128i {
    // SAFETY: the reference is to as many bytes as are read.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn widened(low: __m256, high: __m256) -> [__m256d; 4] {
    [
        _mm256_cvtps_pd(_mm256_castps256_ps128(low)),
        _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(low)),
        _mm256_cvtps_pd(_mm256_castps256_ps128(high)),
        _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(high)),
    ]
}

#[target_feature(enable = "avx2")]
#[inline]
fn bf16_as_ps(from: &[u16; 8]) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load_u16(from))))
}

/// The larger of the two; `maxpd` gives `b` where either is NaN, which is right unless `a` alone is.
#[target_feature(enable = "avx2")]
#[inline]
fn max_with_nan_pd(a: __m256d, b: __m256d) -> __m256d {
    _mm256_blendv_pd(_mm256_max_pd(a, b), a, _mm256_cmp_pd::<_CMP_UNORD_Q>(a, a))
}

impl Simd for Avx2 {
    type Lanes = [__m256d; 4];
    type F32 = __m256;
    const F32_LANES: usize = 8;
    const LEVEL: Level = Level::Avx2;

    #[inline(always)]
    fn vectorize<R>(self, f: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,fma,f16c")]
        #[inline]
        fn with_features<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: `self` exists only where detection found these features.
        unsafe { with_features(f) }
    }

    operations! { "avx2,fma,f16c":
        fn splat(value: f64) -> [__m256d; 4] {
            [_mm256_set1_pd(value); 4]
        }
        fn load(from: &[f64; 16]) -> [__m256d; 4] {
            let (parts, _) = from.as_chunks();
            [load_pd(&parts[0]), load_pd(&parts[1]), load_pd(&parts[2]), load_pd(&parts[3])]
        }
        fn store(value: [__m256d; 4], to: &mut [f64; 16]) {
            let (parts, _) = to.as_chunks_mut();
            for (part, value) in parts.iter_mut().zip(value) {
                store_pd(value, part);
            }
        }
        fn widen_f32(from: &[f32; 16]) -> [__m256d; 4] {
            let (parts, _) = from.as_chunks();
            widened(load_ps(&parts[0]), load_ps(&parts[1]))
        }
        fn widen_f16(from: &[f16; 16]) -> [__m256d; 4] {
            let (parts, _) = from.reinterpret_cast().as_chunks();
            widened(_mm256_cvtph_ps(load_u16(&parts[0])), _mm256_cvtph_ps(load_u16(&parts[1])))
        }
        fn widen_bf16(from: &[u16; 16]) -> [__m256d; 4] {
            let (parts, _) = from.as_chunks();
            widened(bf16_as_ps(&parts[0]), bf16_as_ps(&parts[1]))
        }
        fn add(a: [__m256d; 4], b: [__m256d; 4]) -> [__m256d; 4] {
            [_mm256_add_pd(a[0], b[0]), _mm256_add_pd(a[1], b[1]), _mm256_add_pd(a[2], b[2]), _mm256_add_pd(a[3], b[3])]
        }
        fn sub(a: [__m256d; 4], b: [__m256d; 4]) -> [__m256d; 4] {
            [_mm256_sub_pd(a[0], b[0]), _mm256_sub_pd(a[1], b[1]), _mm256_sub_pd(a[2], b[2]), _mm256_sub_pd(a[3], b[3])]
        }
        fn mul(a: [__m256d; 4], b: [__m256d; 4]) -> [__m256d; 4] {
            [_mm256_mul_pd(a[0], b[0]), _mm256_mul_pd(a[1], b[1]), _mm256_mul_pd(a[2], b[2]), _mm256_mul_pd(a[3], b[3])]
        }
        fn div(a: [__m256d; 4], b: [__m256d; 4]) -> [__m256d; 4] {
            [_mm256_div_pd(a[0], b[0]), _mm256_div_pd(a[1], b[1]), _mm256_div_pd(a[2], b[2]), _mm256_div_pd(a[3], b[3])]
        }
        fn abs(a: [__m256d; 4]) -> [__m256d; 4] {
            let sign = _mm256_set1_pd(-0.0);
            [_mm256_andnot_pd(sign, a[0]), _mm256_andnot_pd(sign, a[1]), _mm256_andnot_pd(sign, a[2]), _mm256_andnot_pd(sign, a[3])]
        }
        fn sqrt(a: [__m256d; 4]) -> [__m256d; 4] {
            [_mm256_sqrt_pd(a[0]), _mm256_sqrt_pd(a[1]), _mm256_sqrt_pd(a[2]), _mm256_sqrt_pd(a[3])]
        }
        fn max(a: [__m256d; 4], b: [__m256d; 4]) -> [__m256d; 4] {
            [max_with_nan_pd(a[0], b[0]), max_with_nan_pd(a[1], b[1]), max_with_nan_pd(a[2], b[2]), max_with_nan_pd(a[3], b[3])]
        }
        fn fold_sum(a: [__m256d; 4]) -> f64 {
            let four = _mm256_add_pd(_mm256_add_pd(a[0], a[2]), _mm256_add_pd(a[1], a[3]));
            let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        }
        fn fold_max(a: [__m256d; 4]) -> f64 {
            let four = max_with_nan_pd(max_with_nan_pd(a[0], a[2]), max_with_nan_pd(a[1], a[3]));
            let mut last = [0.0; 4];
            store_pd(four, &mut last);
            max_with_nan(max_with_nan(last[0], last[2]), max_with_nan(last[1], last[3]))
        }

        fn splat_f32(value: f32) -> __m256 {
            _mm256_set1_ps(value)
        }
        fn load_f32(from: &[f32]) -> __m256 {
            load_ps(from.first_chunk().expect("a slice of at least one register"))
        }
        fn store_f32(value: __m256, to: &mut [f32]) {
            let to: &mut [f32; 8] = to.first_chunk_mut().expect("a slice of at least one register");
            // SAFETY: the reference is to as many bytes as are written.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), value) }
        }
        fn mul_add_f32(a: __m256, b: __m256, c: __m256) -> __m256 {
            _mm256_fmadd_ps(a, b, c)
        }
        fn add_f32(a: __m256, b: __m256) -> __m256 {
            _mm256_add_ps(a, b)
        }
        fn sub_f32(a: __m256, b: __m256) -> __m256 {
            _mm256_sub_ps(a, b)
        }
        fn mul_f32(a: __m256, b: __m256) -> __m256 {
            _mm256_mul_ps(a, b)
        }
        fn abs_f32(a: __m256) -> __m256 {
            _mm256_andnot_ps(_mm256_set1_ps(-0.0), a)
        }
        fn max_f32(a: __m256, b: __m256) -> __m256 {
            _mm256_max_ps(a, b)
        }
        fn ge_f32(a: __m256, b: __m256) -> u32 {
            _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(a, b)).cast_unsigned()
        }
        fn not_gt_f32(a: __m256, b: __m256) -> u32 {
            _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(a, b)).cast_unsigned()
        }
    }
}
