//! Instruction sets: what the CPU has, chosen once per call, and the few operations that kernels are written in.
//!
//! A kernel is one generic body over [`Simd`]. [`dispatch!`](crate::dispatch) picks the instruction set around the
//! whole loop, [`Simd::vectorize`] compiles the body with its features, and every operation is then one or a few
//! instructions. A token such as [`Avx2`] exists only where detection found the features, so kernels are safe code
//! and this module is the only home of `unsafe`.
//!
//! Two kinds of values are enough. [`Simd::Lanes`] is always sixteen float64 numbers, the unit in which every exact
//! sum runs, whatever the registers hold; so results cannot depend on a width. [`Simd::F32`] is one register of
//! float32, for estimates only.
//!
//! [`Model`] is every instruction set's double in plain Rust: kernels are tested on it where the CPU lacks the
//! instructions, and the instructions are tested against it, one by one, where the CPU has them. An operation for
//! another element type goes into a trait of its own, implemented for the same tokens.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod float_env;
mod huge_pages;
pub mod int8;
mod level;
mod model;
mod prefetch;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use half::f16;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use float_env::{FloatEnv, float_env};
pub use huge_pages::on_huge_pages;
pub use level::{Level, Token};
pub use model::{Model, Portable};
pub use prefetch::prefetch;

/// The operations of an instruction set. Each does to every lane what its words say, and no more.
pub trait Simd: Copy + Send + Sync + Debug + 'static {
    /// Sixteen float64 numbers.
    type Lanes: Copy + Debug;
    /// One register of float32 numbers.
    type F32: Copy + Debug;
    /// How many numbers [`Simd::F32`] holds; at most 32.
    const F32_LANES: usize;
    /// The level that this instruction set belongs to.
    const LEVEL: Level;

    /// Runs `f` compiled with the features of this instruction set. `f` and all that it calls in its inner loops
    /// must be `#[inline(always)]`.
    fn vectorize<R>(self, f: impl FnOnce() -> R) -> R;

    /// `value` in every lane.
    fn splat(self, value: f64) -> Self::Lanes;
    /// Sixteen float64 from memory.
    fn load(self, from: &[f64; 16]) -> Self::Lanes;
    /// Sixteen float64 to memory.
    fn store(self, value: Self::Lanes, to: &mut [f64; 16]);
    /// Sixteen float32, widened.
    fn widen_f32(self, from: &[f32; 16]) -> Self::Lanes;
    /// Sixteen float16, widened.
    fn widen_f16(self, from: &[f16; 16]) -> Self::Lanes;
    /// Sixteen bfloat16, given as bits, widened.
    fn widen_bf16(self, from: &[u16; 16]) -> Self::Lanes;
    /// `a + b`
    fn add(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;
    /// `a - b`
    fn sub(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;
    /// `a * b`
    fn mul(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;
    /// `a / b`
    fn div(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;
    /// `|a|`
    fn abs(self, a: Self::Lanes) -> Self::Lanes;
    /// `√a`
    fn sqrt(self, a: Self::Lanes) -> Self::Lanes;
    /// The larger of the two, NaN if either is (`maxpd` and `f64::max` do not do that).
    fn max(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;
    /// The sum of the lanes by halves: `s[j] += s[j + 8]`, then 4, 2, 1.
    fn fold_sum(self, a: Self::Lanes) -> f64;
    /// The maximum of the lanes, NaN if any is.
    fn fold_max(self, a: Self::Lanes) -> f64;

    /// `value` in every lane.
    fn splat_f32(self, value: f32) -> Self::F32;
    /// The first [`Simd::F32_LANES`] numbers of `from`, which must hold as many.
    fn load_f32(self, from: &[f32]) -> Self::F32;
    /// Into the first [`Simd::F32_LANES`] numbers of `to`, which must hold as many.
    fn store_f32(self, value: Self::F32, to: &mut [f32]);
    /// `a * b + c`, rounded once or twice: a bound on the result must hold for both.
    fn mul_add_f32(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// `a + b`
    fn add_f32(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a - b`
    fn sub_f32(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a * b`
    fn mul_f32(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `|a|`
    fn abs_f32(self, a: Self::F32) -> Self::F32;
    /// `a` where `a > b`, else `b` (so `b` where either is NaN).
    fn max_f32(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// Bit i is set where `a[i] >= b[i]`; never for NaN.
    fn ge_f32(self, a: Self::F32, b: Self::F32) -> u32;
    /// Bit i is set unless `a[i] > b[i]`; so it is for NaN ("drop only if greater").
    fn not_gt_f32(self, a: Self::F32, b: Self::F32) -> u32;
}

/// Writes the operations of a token as methods whose bodies are compiled with the token's features.
///
/// Inside the bodies the intrinsics of those features are safe to call.
#[cfg(target_arch = "x86_64")]
macro_rules! operations {
    ($features:literal: $(fn $name:ident($($arg:ident: $type:ty),*) $(-> $returns:ty)? $body:block)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $type),*) $(-> $returns)? {
            #[target_feature(enable = $features)]
            #[inline]
            fn operation($($arg: $type),*) $(-> $returns)? $body
            // SAFETY: `self` exists only where detection found these features.
            unsafe { operation($($arg),*) }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
pub(crate) use operations;

/// Runs `$body` with `$simd` as the token of `$level`, compiled for it.
///
/// Meant to stand around a whole loop. A level that the CPU lacks runs as the best one below it.
#[macro_export]
macro_rules! dispatch {
    ($level:expr, $simd:ident => $body:expr) => {
        match $crate::isa::Token::of($level) {
            $crate::isa::Token::Portable($simd) => $crate::isa::Simd::vectorize(
                $simd,
                #[inline(always)]
                || $body,
            ),
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Token::Avx2($simd) => $crate::isa::Simd::vectorize(
                $simd,
                #[inline(always)]
                || $body,
            ),
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Token::Avx512($simd) => $crate::isa::Simd::vectorize(
                $simd,
                #[inline(always)]
                || $body,
            ),
        }
    };
}

/// Runs `$body` for every instruction set that this CPU has and for models of those that it may lack.
#[cfg(test)]
macro_rules! for_every_simd {
    ($simd:ident => $body:expr) => {{
        for level in $crate::isa::Level::available() {
            $crate::dispatch!(level, $simd => $body);
        }
        {
            let $simd = $crate::isa::Model::<8, true>;
            $body
        }
        {
            let $simd = $crate::isa::Model::<16, true>;
            $body
        }
    }};
}
#[cfg(test)]
pub(crate) use for_every_simd;
