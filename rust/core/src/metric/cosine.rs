//! The cosine: Σ xᵢyᵢ over the product of the floored norms.

use super::{Group, dot, pairs};
use crate::isa::Simd;
use crate::matrix::Format;
use crate::reference::floored;

/// The cosine of `x`, whose floored norm is `x_norm`, and the row `y`, whose floored norm is `y_norm` if it is known.
pub(crate) fn measure<S: Simd, F: Format>(s: S, x: &[Group], x_norm: f64, y: &[F::Stored], y_norm: Option<f64>) -> f64 {
    match y_norm {
        Some(y_norm) => dot::measure::<S, F>(s, x, y, None) / (x_norm * y_norm),
        None => s.vectorize(
            #[inline(always)]
            || {
                let (mut products, mut squares) = (s.splat(0.0), s.splat(0.0));
                pairs::<S, F>(
                    s,
                    x,
                    y,
                    #[inline(always)]
                    |x, y, _| {
                        products = s.add(products, s.mul(x, y));
                        squares = s.add(squares, s.mul(y, y));
                    },
                );
                s.fold_sum(products) / (x_norm * floored(s.fold_sum(squares).sqrt()))
            },
        ),
    }
}
