//! p-norms of differences: Σ(xᵢ−yᵢ)², Σ|xᵢ−yᵢ|, max|xᵢ−yᵢ|, Σ|xᵢ−yᵢ|ᵖ. Roots are left to the caller.

use super::power::Power;
use super::{Group, Prepare, pairs, with_prepare};
use crate::isa::Simd;
use crate::matrix::Format;

/// Which p.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Order {
    /// p = 1
    One,
    /// p = 2; the sum of squares.
    Two,
    /// p = ∞
    Infinity,
    /// Any other p; the sum of powers.
    Other(Power),
}

impl Order {
    pub(crate) fn new(p: f64) -> Self {
        if p == 1.0 {
            Self::One
        } else if p == 2.0 {
            Self::Two
        } else if p == f64::INFINITY {
            Self::Infinity
        } else {
            Self::Other(Power::new(p))
        }
    }
}

/// The sum (or maximum) for `order` between `x` and the row `y`, divided by `norm` first if there is one.
pub(crate) fn measure<S: Simd, F: Format>(s: S, order: Order, x: &[Group], y: &[F::Stored], norm: Option<f64>) -> f64 {
    with_prepare!(norm, prepare => match order {
        Order::Two => sum_of::<S, F>(s, x, y, prepare, #[inline(always)] |t| s.mul(t, t)),
        Order::One => sum_of::<S, F>(s, x, y, prepare, #[inline(always)] |t| s.abs(t)),
        Order::Infinity => largest::<S, F>(s, x, y, prepare),
        Order::Other(power) => sum_of::<S, F>(s, x, y, prepare, #[inline(always)] |t| power.raise(s, s.abs(t))),
    })
}

#[inline(always)]
fn sum_of<S: Simd, F: Format>(
    s: S,
    x: &[Group],
    y: &[F::Stored],
    prepare: impl Prepare,
    term: impl Fn(S::Lanes) -> S::Lanes,
) -> f64 {
    s.vectorize(
        #[inline(always)]
        || {
            let mut sum = s.splat(0.0);
            pairs::<S, F>(
                s,
                x,
                y,
                #[inline(always)]
                |x, y, _| sum = s.add(sum, term(s.sub(x, prepare.apply(s, y)))),
            );
            s.fold_sum(sum)
        },
    )
}

#[inline(always)]
fn largest<S: Simd, F: Format>(s: S, x: &[Group], y: &[F::Stored], prepare: impl Prepare) -> f64 {
    s.vectorize(
        #[inline(always)]
        || {
            let mut most = s.splat(0.0);
            pairs::<S, F>(
                s,
                x,
                y,
                #[inline(always)]
                |x, y, _| most = s.max(most, s.abs(s.sub(x, prepare.apply(s, y)))),
            );
            s.fold_max(most)
        },
    )
}
