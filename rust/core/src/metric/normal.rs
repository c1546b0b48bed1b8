//! Norms of rows, and rows divided by them.

use super::lp::Order;
use super::power::Power;
use super::{Group, groups};
use crate::isa::Simd;
use crate::matrix::Format;
use crate::reference::floored;

/// The `p`-norm of a stored row, floored so that it can divide.
pub(crate) fn floored_norm<S: Simd, F: Format>(s: S, row: &[F::Stored], p: f64) -> f64 {
    let norm = match Order::new(p) {
        Order::One => sum_of::<S, F>(
            s,
            row,
            #[inline(always)]
            |t| s.abs(t),
        ),
        Order::Two => sum_of::<S, F>(
            s,
            row,
            #[inline(always)]
            |t| s.mul(t, t),
        )
        .sqrt(),
        Order::Infinity => largest::<S, F>(s, row),
        Order::Other(power) => root(powers::<S, F>(s, row, power), p),
    };
    floored(norm)
}

/// The `p`-th root of a sum of powers, for a `p` other than 1, 2 and ∞.
pub(crate) fn root(sum: f64, p: f64) -> f64 {
    libm::pow(sum, 1.0 / p)
}

/// Writes `row`, divided by `norm` if there is one, to `out`, padded with +0.0 to whole groups.
pub(crate) fn prepare<S: Simd>(s: S, row: &[f64], norm: Option<f64>, out: &mut Vec<Group>) {
    out.clear();
    let (whole, tail) = row.as_chunks::<16>();
    out.extend_from_slice(whole);
    if !tail.is_empty() {
        let mut group = [0.0; 16];
        group[..tail.len()].copy_from_slice(tail);
        out.push(group);
    }
    let Some(norm) = norm else { return };
    s.vectorize(
        #[inline(always)]
        || {
            for group in out.iter_mut() {
                s.store(s.div(s.load(group), s.splat(norm)), group);
            }
        },
    );
    // 0/NaN is NaN, and padding must stay zero.
    if let (false, Some(group)) = (tail.is_empty(), out.last_mut()) {
        group[tail.len()..].fill(0.0);
    }
}

#[inline(always)]
fn sum_of<S: Simd, F: Format>(s: S, row: &[F::Stored], term: impl Fn(S::Lanes) -> S::Lanes) -> f64 {
    s.vectorize(
        #[inline(always)]
        || {
            let mut sum = s.splat(0.0);
            groups::<S, F>(
                s,
                row,
                #[inline(always)]
                |_, y, _| sum = s.add(sum, term(y)),
            );
            s.fold_sum(sum)
        },
    )
}

fn powers<S: Simd, F: Format>(s: S, row: &[F::Stored], power: Power) -> f64 {
    sum_of::<S, F>(
        s,
        row,
        #[inline(always)]
        |t| power.raise(s, s.abs(t)),
    )
}

fn largest<S: Simd, F: Format>(s: S, row: &[F::Stored]) -> f64 {
    s.vectorize(
        #[inline(always)]
        || {
            let mut most = s.splat(0.0);
            groups::<S, F>(
                s,
                row,
                #[inline(always)]
                |_, y, _| most = s.max(most, s.abs(y)),
            );
            s.fold_max(most)
        },
    )
}
