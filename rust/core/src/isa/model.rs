//! The operations in plain Rust: the portable level, and the models that stand in for instructions a CPU may lack.

use half::{bf16, f16};

use super::{Level, Simd};
use crate::matrix::f16_to_f32;
use crate::reference::max_with_nan;

/// Registers of `W` float32 numbers as arrays. `FUSED` says whether `mul_add_f32` rounds once, as hardware with such
/// an instruction does, or twice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Model<const W: usize, const FUSED: bool>;

/// What every CPU of the target runs; the compiler finds its vectors.
pub type Portable = Model<4, false>;

#[inline(always)]
fn each<const N: usize, T: Copy>(a: [T; N], b: [T; N], op: impl Fn(T, T) -> T) -> [T; N] {
    std::array::from_fn(|i| op(a[i], b[i]))
}

#[inline(always)]
fn fold(mut lanes: [f64; 16], op: impl Fn(f64, f64) -> f64) -> f64 {
    for half in [8, 4, 2, 1] {
        for j in 0..half {
            lanes[j] = op(lanes[j], lanes[j + half]);
        }
    }
    lanes[0]
}

#[inline(always)]
fn mask<const W: usize>(a: [f32; W], b: [f32; W], test: impl Fn(f32, f32) -> bool) -> u32 {
    (0..W).fold(0, |bits, i| bits | u32::from(test(a[i], b[i])) << i)
}

impl<const W: usize, const FUSED: bool> Simd for Model<W, FUSED> {
    type Lanes = [f64; 16];
    type F32 = [f32; W];
    const F32_LANES: usize = W;
    const LEVEL: Level = Level::Portable;

    #[inline(always)]
    fn vectorize<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }
    #[inline(always)]
    fn splat(self, value: f64) -> [f64; 16] {
        [value; 16]
    }
    #[inline(always)]
    fn load(self, from: &[f64; 16]) -> [f64; 16] {
        *from
    }
    #[inline(always)]
    fn store(self, value: [f64; 16], to: &mut [f64; 16]) {
        *to = value;
    }
    #[inline(always)]
    fn widen_f32(self, from: &[f32; 16]) -> [f64; 16] {
        from.map(f64::from)
    }
    #[inline(always)]
    fn widen_f16(self, from: &[f16; 16]) -> [f64; 16] {
        from.map(|half| f64::from(f16_to_f32(half)))
    }
    #[inline(always)]
    fn widen_bf16(self, from: &[u16; 16]) -> [f64; 16] {
        from.map(|bits| f64::from(bf16::from_bits(bits).to_f32()))
    }
    #[inline(always)]
    fn add(self, a: [f64; 16], b: [f64; 16]) -> [f64; 16] {
        each(a, b, |x, y| x + y)
    }
    #[inline(always)]
    fn sub(self, a: [f64; 16], b: [f64; 16]) -> [f64; 16] {
        each(a, b, |x, y| x - y)
    }
    #[inline(always)]
    fn mul(self, a: [f64; 16], b: [f64; 16]) -> [f64; 16] {
        each(a, b, |x, y| x * y)
    }
    #[inline(always)]
    fn div(self, a: [f64; 16], b: [f64; 16]) -> [f64; 16] {
        each(a, b, |x, y| x / y)
    }
    #[inline(always)]
    fn abs(self, a: [f64; 16]) -> [f64; 16] {
        a.map(f64::abs)
    }
    #[inline(always)]
    fn sqrt(self, a: [f64; 16]) -> [f64; 16] {
        a.map(f64::sqrt)
    }
    #[inline(always)]
    fn max(self, a: [f64; 16], b: [f64; 16]) -> [f64; 16] {
        each(a, b, max_with_nan)
    }
    #[inline(always)]
    fn fold_sum(self, a: [f64; 16]) -> f64 {
        fold(a, |x, y| x + y)
    }
    #[inline(always)]
    fn fold_max(self, a: [f64; 16]) -> f64 {
        fold(a, max_with_nan)
    }

    #[inline(always)]
    fn splat_f32(self, value: f32) -> [f32; W] {
        [value; W]
    }
    #[inline(always)]
    fn load_f32(self, from: &[f32]) -> [f32; W] {
        std::array::from_fn(|i| from[i])
    }
    #[inline(always)]
    fn store_f32(self, value: [f32; W], to: &mut [f32]) {
        to[..W].copy_from_slice(&value);
    }
    #[inline(always)]
    fn mul_add_f32(self, a: [f32; W], b: [f32; W], c: [f32; W]) -> [f32; W] {
        if FUSED {
            std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
        } else {
            std::array::from_fn(|i| a[i] * b[i] + c[i])
        }
    }
    #[inline(always)]
    fn add_f32(self, a: [f32; W], b: [f32; W]) -> [f32; W] {
        each(a, b, |x, y| x + y)
    }
    #[inline(always)]
    fn sub_f32(self, a: [f32; W], b: [f32; W]) -> [f32; W] {
        each(a, b, |x, y| x - y)
    }
    #[inline(always)]
    fn mul_f32(self, a: [f32; W], b: [f32; W]) -> [f32; W] {
        each(a, b, |x, y| x * y)
    }
    #[inline(always)]
    fn abs_f32(self, a: [f32; W]) -> [f32; W] {
        a.map(f32::abs)
    }
    #[inline(always)]
    fn max_f32(self, a: [f32; W], b: [f32; W]) -> [f32; W] {
        each(a, b, |x, y| if x > y { x } else { y })
    }
    #[inline(always)]
    fn ge_f32(self, a: [f32; W], b: [f32; W]) -> u32 {
        mask(a, b, |x, y| x >= y)
    }
    #[inline(always)]
    fn not_gt_f32(self, a: [f32; W], b: [f32; W]) -> u32 {
        mask(a, b, |x, y| x <= y || x.is_nan() || y.is_nan())
    }
}
