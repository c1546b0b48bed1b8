//! Everything again, naive: the formulas and the ranking in the plainest code. The truth for tests and benches.
//!
//! Sums run in sixteen lanes (lane = index mod 16) that start at +0.0, multiply and add separately, and are folded
//! by halves. That order is part of what is promised: every kernel reproduces it, on every instruction set.

use std::cmp::Ordering;

use crate::distance::{Distance, Kind, NORM_FLOOR};
use crate::matrix::{Rows, Values};

/// Number of lanes of every sum.
pub const LANES: usize = 16;

/// Sum of `terms` in the fixed lane order.
pub fn lane_sum(terms: impl Iterator<Item = f64>) -> f64 {
    fold_lanes(terms, |lane, term| lane + term)
}

/// Maximum of non-negative `terms`; NaN if any of them is.
pub fn lane_max(terms: impl Iterator<Item = f64>) -> f64 {
    fold_lanes(terms, max_with_nan)
}

/// The larger of the two, or NaN if either is.
#[must_use]
pub fn max_with_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn fold_lanes(terms: impl Iterator<Item = f64>, op: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    for (i, term) in terms.enumerate() {
        lanes[i % LANES] = op(lanes[i % LANES], term);
    }
    for half in [8, 4, 2, 1] {
        for j in 0..half {
            lanes[j] = op(lanes[j], lanes[j + half]);
        }
    }
    lanes[0]
}

/// `x` to the power `p`, the same on every machine.
///
/// 1, 2 and ½ are exact or correctly rounded; a whole exponent up to 64 is a chain of multiplications over the bits
/// of the exponent from the second highest down (square, then times `x` where the bit is set); the rest is `libm`.
#[must_use]
pub fn fixed_pow(x: f64, p: f64) -> f64 {
    if p == 1.0 {
        x
    } else if p == 2.0 {
        x * x
    } else if p == 0.5 {
        x.sqrt()
    } else if p.fract() == 0.0 && (1.0..=64.0).contains(&p) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be whole and at most 64"
        )]
        let exponent = p as u32;
        let mut value = x;
        for bit in (0..exponent.ilog2()).rev() {
            value *= value;
            if exponent >> bit & 1 == 1 {
                value *= x;
            }
        }
        value
    } else {
        libm::pow(x, p)
    }
}

/// The `p`-norm of a row given its elements.
pub fn p_norm(row: impl Iterator<Item = f64>, p: f64) -> f64 {
    let magnitudes = row.map(f64::abs);
    if p == 1.0 {
        lane_sum(magnitudes)
    } else if p == 2.0 {
        lane_sum(magnitudes.map(|t| t * t)).sqrt()
    } else if p == f64::INFINITY {
        lane_max(magnitudes)
    } else {
        libm::pow(lane_sum(magnitudes.map(|t| fixed_pow(t, p))), 1.0 / p)
    }
}

/// The norm, or the floor where it is smaller.
#[must_use]
pub fn floored(norm: f64) -> f64 {
    // `max` would drop a NaN norm.
    if norm < NORM_FLOOR { NORM_FLOOR } else { norm }
}

/// The row divided by its `p`-norm, or as it is.
#[must_use]
pub fn normalized(row: &[f64], p: Option<f64>) -> Vec<f64> {
    match p {
        None => row.to_vec(),
        Some(p) => {
            let norm = floored(p_norm(row.iter().copied(), p));
            row.iter().map(|x| x / norm).collect()
        }
    }
}

/// Sum of squared deviations from the mean, on values shifted by the first one so that a constant row gives 0.
#[must_use]
pub fn scatter(row: &[f64]) -> f64 {
    let Some(&first) = row.first() else { return 0.0 };
    #[expect(clippy::cast_precision_loss, reason = "the number of features is far below 2^53")]
    let mean = lane_sum(row.iter().map(|z| z - first)) / row.len() as f64;
    lane_sum(row.iter().map(|z| {
        let deviation = (z - first) - mean;
        deviation * deviation
    }))
}

/// The value of `distance` between a query row and a reference row, in float64 before rounding.
#[must_use]
pub fn value(distance: &Distance, query: &[f64], reference: &[f64]) -> f64 {
    let x = normalized(query, distance.normalize);
    let y = normalized(reference, distance.normalize);
    let products = || x.iter().zip(&y).map(|(a, b)| a * b);
    let differences = || x.iter().zip(&y).map(|(a, b)| a - b);
    let squared_norm = |row: &[f64]| lane_sum(row.iter().map(|a| a * a));
    let raw = match distance.kind {
        Kind::Lp(2.0) => {
            let sum = lane_sum(differences().map(|t| t * t));
            if distance.power == 2.0 {
                return canonical(sum);
            }
            sum.sqrt()
        }
        Kind::Lp(p) => p_norm(differences(), p),
        Kind::Dot => lane_sum(products()),
        Kind::Cosine => {
            let norms = floored(squared_norm(&x).sqrt()) * floored(squared_norm(&y).sqrt());
            lane_sum(products()) / norms
        }
        Kind::Snr => scatter(&differences().collect::<Vec<_>>()) / scatter(&x),
    };
    canonical(fixed_pow(raw, distance.power))
}

/// No negative zero, one NaN.
#[must_use]
pub fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

/// `value` rounded once to the output type, as float64.
#[must_use]
pub fn rounded(value: f64, to_f64: bool) -> f64 {
    if to_f64 {
        value
    } else {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "this is the one rounding to the output type"
        )]
        let single = value as f32;
        // A tiny negative number rounds to -0.
        f64::from(single) + 0.0
    }
}

/// The ranking of (value, index): nearest first, NaN after every number, ascending index among equals.
#[must_use]
pub fn rank(inverted: bool, a: (f64, usize), b: (f64, usize)) -> Ordering {
    let by_value = match (a.0.is_nan(), b.0.is_nan()) {
        (false, false) if inverted => b.0.partial_cmp(&a.0),
        (false, false) => a.0.partial_cmp(&b.0),
        (left, right) => Some(left.cmp(&right)),
    };
    by_value.unwrap_or(Ordering::Equal).then(a.1.cmp(&b.1))
}

/// The `k` nearest (value, index) of every query, value rounded to the output type. `k` must be available.
#[must_use]
pub fn neighbors(
    distance: &Distance,
    query: Rows<'_>,
    reference: Rows<'_>,
    k: usize,
    exclude_self: bool,
) -> Vec<Vec<(f64, usize)>> {
    let to_f64 = query.dtype().returns_f64();
    let references: Vec<_> = (0..reference.len()).map(|j| reference.widened(j)).collect();
    (0..query.len())
        .map(|i| {
            let x = query.widened(i);
            let mut row: Vec<_> = references
                .iter()
                .enumerate()
                .filter(|&(j, _)| !(exclude_self && i == j))
                .map(|(j, y)| (rounded(value(distance, &x, y), to_f64), j))
                .collect();
            row.sort_by(|&a, &b| rank(distance.is_inverted(), a, b));
            row.truncate(k);
            row
        })
        .collect()
}

/// Every value, query by query, in the output type.
#[must_use]
pub fn matrix(distance: &Distance, query: Rows<'_>, reference: Rows<'_>) -> Values {
    let references: Vec<_> = (0..reference.len()).map(|j| reference.widened(j)).collect();
    let values = (0..query.len()).flat_map(|i| {
        let x = query.widened(i);
        references
            .iter()
            .map(move |y| value(distance, &x, y))
            .collect::<Vec<_>>()
    });
    into_output(values, query.dtype().returns_f64())
}

/// The value of row i against row i, in the output type.
#[must_use]
pub fn pairwise(distance: &Distance, x: Rows<'_>, y: Rows<'_>) -> Values {
    let values = (0..x.len()).map(|i| value(distance, &x.widened(i), &y.widened(i)));
    into_output(values, x.dtype().returns_f64())
}

fn into_output(values: impl Iterator<Item = f64>, to_f64: bool) -> Values {
    if to_f64 {
        Values::F64(values.collect())
    } else {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "this is the one rounding to the output type"
        )]
        Values::F32(values.map(|v| v as f32 + 0.0).collect())
    }
}
