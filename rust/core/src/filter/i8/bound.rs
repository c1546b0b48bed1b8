//! The bound of the 8-bit filter, and its form in whole numbers.
//!
//! A query x̃ is stored as s·a + u, a reference ỹ as t·b + v, with whole a, b, and what is lost, u and v. Then
//! |⟨x̃, ỹ⟩ − st·a·b| ≤ ‖sa‖‖v‖ + ‖u‖‖ỹ‖. The integer a·b is exact, so with c = ‖sa‖, h = ‖u‖ of the query, e = ‖v‖,
//! n = ‖ỹ‖ of the reference, σ = st, and offsets and slacks from the form, the scaled key is within `half` of
//! `offset_x + offset_y − σ·a·b`, where
//!
//! ```text
//! half = slack_x + slack_y + c·e + h·n + rounding of float64
//! ```
//!
//! A pair is kept unless its lower bound is above the threshold t. To test that by one comparison of integers, the
//! least c and h of the block, c₀ and h₀, are taken on the reference's side, and what a query has in excess on its own,
//! times the most e and n of the panel, E and N:
//!
//! ```text
//! β = ⌈−(offset_y − slack_y − c₀·e − h₀·n) / σ⌉
//! T = ⌊(offset_x − slack_x − t − (c − c₀)·E − (h − h₀)·N) / σ⌋ − 1        keep unless β + a·b < T
//! ```
//!
//! A pair that passes is tested again with its own c, h, e, n.
//!
//! β + a·b must not wrap around: with |a·b| ≤ 2³¹ − 1 − B, β below −B is raised to −B, and where β is above B the row
//! is not compared but kept. T is clamped to ±(2³¹ − 1).

use super::quantize::{Norms, WHOLE};
use crate::filter::form::Operand;
use crate::filter::terms::{Term, amount};

/// More than the rounding of any sum here, relative to the sum of magnitudes.
const ROUNDING: f64 = f64::from_bits((1023 - 48) << 52);

/// What a reference brings to the bound; float32, rounded outward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    offset: f32,
    slack: f32,
    lost: f32,
    norm: f32,
}

/// What a query brings to the bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Query {
    offset: f64,
    slack: f64,
    /// Scaled keys are keys times this.
    scale: f64,
    /// 1 / scale
    pub(super) inverse: f64,
    /// h
    pub(super) lost: f64,
    /// c
    pub(super) kept: f64,
}

/// c and h, the least or the most of a block.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Extent {
    pub(super) kept: f64,
    pub(super) lost: f64,
}

/// What the rows of a panel have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Panel {
    /// t
    pub(super) scale: f32,
    /// E
    pub(super) lost: f32,
    /// N
    pub(super) norm: f32,
}

impl Panel {
    /// What covers `other` too, if this does not. Floors for it are hardly lower than those for either, and to make
    /// them anew for every panel takes longer than the tiles of short rows.
    pub(super) fn widened(&self, other: &Self) -> Option<Self> {
        if other.scale != self.scale {
            return Some(*other);
        }
        (other.lost > self.lost || other.norm > self.norm).then(|| Self {
            scale: self.scale,
            lost: self.lost.max(other.lost),
            norm: self.norm.max(other.norm),
        })
    }
}

impl Row {
    /// A row that is never reported.
    pub(super) const NEVER: Self = Self {
        offset: f32::INFINITY,
        slack: 0.0,
        lost: 0.0,
        norm: 0.0,
    };
    /// A row of which nothing is known.
    pub(super) const UNKNOWN: Self = Self {
        offset: 0.0,
        slack: f32::INFINITY,
        lost: 0.0,
        norm: 0.0,
    };

    pub(super) fn new(operand: &Operand, norms: &Norms) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "what is lost joins the slack")]
        let offset = operand.offset as f32;
        let slack = operand.slack + amount(Term::Comparison, (operand.offset - f64::from(offset)).abs());
        Self {
            offset,
            slack: up(slack),
            lost: up(norms.lost + operand.drift),
            norm: up(operand.norm),
        }
    }

    pub(super) fn is_never(&self) -> bool {
        self.offset == f32::INFINITY
    }

    pub(super) fn is_known(&self) -> bool {
        self.slack < f32::INFINITY && self.offset.is_finite()
    }

    /// (e, n)
    pub(super) fn extent(&self) -> (f32, f32) {
        (self.lost, self.norm)
    }

    /// The row's share of the most that a key of a block can be, infinite if nothing is known.
    #[inline(always)]
    pub(super) fn upper(&self, most: &Extent) -> f64 {
        let (offset, norm) = (f64::from(self.offset), f64::from(self.norm) + f64::from(self.lost));
        let half = f64::from(self.slack) + half(most.kept, most.lost, self);
        let magnitude = offset.abs() + half + most.kept * norm;
        offset + half + amount(Term::Comparison, ROUNDING * magnitude)
    }

    /// β, or none if the row must be kept.
    #[inline(always)]
    pub(super) fn start(&self, least: &Extent, product: f64, range: f64) -> (i32, bool) {
        let share = f64::from(self.offset) - f64::from(self.slack);
        let error = half(least.kept, least.lost, self);
        let rounding = amount(Term::Comparison, ROUNDING * (share.abs() + error));
        let beta = (error + rounding - share) / product;
        // No branches, so that several rows go together.
        let kept = beta > range || beta.is_nan();
        let beta = if beta > -range { beta } else { -range };
        let whole = if kept { 0.0 } else { beta.ceil() } + WHOLE;
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are the number")]
        let start = whole.to_bits() as i32;
        (start, kept)
    }
}

#[inline(always)]
fn half(kept: f64, lost: f64, row: &Row) -> f64 {
    amount(Term::ReferenceRounding, kept * f64::from(row.lost))
        + amount(Term::QueryRounding, lost * f64::from(row.norm))
}

impl Query {
    pub(super) fn new(operand: &Operand, norms: &Norms) -> Self {
        Self {
            offset: operand.offset,
            slack: operand.slack,
            scale: operand.scale,
            inverse: 1.0 / operand.scale,
            lost: norms.lost + operand.drift,
            kept: norms.kept,
        }
    }

    /// The query's share of the most that a scaled key can be.
    pub(super) fn upper(&self) -> f64 {
        let rounding = amount(Term::Comparison, ROUNDING * (self.offset.abs() + self.slack));
        self.offset + self.slack + rounding
    }

    /// The threshold in scaled keys, not less.
    pub(super) fn threshold(&self, key: f64) -> f64 {
        let scaled = key * self.scale;
        let scaled = scaled + amount(Term::Comparison, ROUNDING * scaled.abs());
        if scaled.is_nan() { f64::INFINITY } else { scaled }
    }

    /// T
    #[inline(always)]
    pub(super) fn floor(&self, threshold: f64, least: &Extent, panel: &Panel, product: f64) -> i32 {
        let excess = amount(
            Term::ReferenceRounding,
            (self.kept - least.kept) * f64::from(panel.lost),
        ) + amount(Term::QueryRounding, (self.lost - least.lost) * f64::from(panel.norm));
        let share = self.offset - self.slack;
        let rounding = amount(Term::Comparison, ROUNDING * (share.abs() + threshold.abs() + excess));
        let floor = (share - threshold - excess - rounding) / product;
        let most = f64::from(i32::MAX);
        // `max` makes NaN the least.
        #[expect(clippy::cast_possible_truncation, reason = "within the range")]
        let floor = (floor.floor() - 1.0).max(-most).min(most) as i32;
        floor
    }

    /// What the scaled key of a pair is at least and at most.
    #[inline(always)]
    pub(super) fn interval(&self, row: &Row, product: f64, dot: i32) -> (f64, f64) {
        let estimate = product * f64::from(dot);
        let centre = self.offset + f64::from(row.offset) - estimate;
        let half = self.slack + f64::from(row.slack) + half(self.kept, self.lost, row);
        let magnitude = self.offset.abs() + f64::from(row.offset).abs() + estimate.abs() + half;
        let half = half + amount(Term::Comparison, ROUNDING * magnitude);
        (centre - half, centre + half)
    }
}

/// The smallest float32 that is not below `x`.
pub(super) fn up(x: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "rounded outward below")]
    let single = x as f32;
    if f64::from(single) < x {
        single.next_up()
    } else {
        single
    }
}
