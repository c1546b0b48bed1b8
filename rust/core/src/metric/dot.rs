//! The inner product: Σ xᵢyᵢ.

use super::{Group, Prepare, pairs, with_prepare};
use crate::isa::Simd;
use crate::matrix::Format;

/// The inner product of `x` and the row `y`, divided by `norm` first if there is one.
pub(crate) fn measure<S: Simd, F: Format>(s: S, x: &[Group], y: &[F::Stored], norm: Option<f64>) -> f64 {
    with_prepare!(norm, prepare => sum_of_products::<S, F>(s, x, y, prepare))
}

#[inline(always)]
fn sum_of_products<S: Simd, F: Format>(s: S, x: &[Group], y: &[F::Stored], prepare: impl Prepare) -> f64 {
    s.vectorize(
        #[inline(always)]
        || {
            let mut sum = s.splat(0.0);
            pairs::<S, F>(
                s,
                x,
                y,
                #[inline(always)]
                |x, y, _| sum = s.add(sum, s.mul(x, prepare.apply(s, y))),
            );
            s.fold_sum(sum)
        },
    )
}
