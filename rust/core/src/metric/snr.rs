//! The signal-to-noise distance: S(x−y)/S(x), S the sum of squared deviations from the mean.
//!
//! S first shifts by the first element, so that a constant row gives exactly 0.

use super::{Group, Prepare, groups, masked, pairs, with_prepare};
use crate::isa::Simd;
use crate::matrix::{F64, Format};

/// S(x−y)/S(x) where S(x) is `x_scatter`; the row `y` is divided by `norm` first if there is one.
pub(crate) fn measure<S: Simd, F: Format>(
    s: S,
    x: &[Group],
    x_scatter: f64,
    y: &[F::Stored],
    norm: Option<f64>,
) -> f64 {
    let noise = with_prepare!(norm, prepare => s.vectorize(
        #[inline(always)]
        || {
            let Some(first) = y.first() else { return 0.0 };
            // The very division of the lanes; a scalar one rounds alike.
            let first = F::widen(*first);
            let first = s.splat(x[0][0] - norm.map_or(first, |norm| first / norm));
            let mut sum = s.splat(0.0);
            pairs::<S, F>(s, x, y, #[inline(always)] |x, y, real| {
                sum = s.add(sum, masked(s, s.sub(s.sub(x, prepare.apply(s, y)), first), real));
            });
            let mean = s.splat(s.fold_sum(sum) / count(y.len()));
            let mut squares = s.splat(0.0);
            pairs::<S, F>(s, x, y, #[inline(always)] |x, y, real| {
                let deviation = s.sub(s.sub(s.sub(x, prepare.apply(s, y)), first), mean);
                squares = s.add(squares, masked(s, s.mul(deviation, deviation), real));
            });
            s.fold_sum(squares)
        },
    ));
    noise / x_scatter
}

/// S of a widened row.
pub(crate) fn scatter<S: Simd>(s: S, row: &[f64]) -> f64 {
    s.vectorize(
        #[inline(always)]
        || {
            let Some(&first) = row.first() else { return 0.0 };
            let first = s.splat(first);
            let mut sum = s.splat(0.0);
            groups::<S, F64>(
                s,
                row,
                #[inline(always)]
                |_, z, real| sum = s.add(sum, masked(s, s.sub(z, first), real)),
            );
            let mean = s.splat(s.fold_sum(sum) / count(row.len()));
            let mut squares = s.splat(0.0);
            groups::<S, F64>(
                s,
                row,
                #[inline(always)]
                |_, z, real| {
                    let deviation = s.sub(s.sub(z, first), mean);
                    squares = s.add(squares, masked(s, s.mul(deviation, deviation), real));
                },
            );
            s.fold_sum(squares)
        },
    )
}

#[expect(clippy::cast_precision_loss, reason = "the number of features is far below 2^53")]
fn count(features: usize) -> f64 {
    features as f64
}
