//! The estimate of every pair, for those who count instead of searching.
//!
//! Nothing is dropped: a panel leaves its estimates, and what an estimate says about a key is asked afterwards, for a
//! whole chunk at once ([`Dense::reach`]) or for one pair ([`Dense::between`]).

use super::bound::{U, rounded_down, rounded_up};
use super::{Block, Chunk, F32, Filter, Shape, Simd};
use crate::filter::terms::{Term, amount};

/// The largest scalars of a chunk's references.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extremes {
    slack: f64,
    beta: f64,
    /// Whether some references have no estimate: theirs read −∞.
    pub unknown: bool,
}

/// A filter that can leave all its estimates.
pub trait Dense: Filter {
    /// The extremes of a packed chunk.
    fn extremes(&self, chunk: &Self::Chunk) -> Extremes;

    /// The estimates of every pair of the panel, row-major (queries of the block × [`Filter::panel_rows`]).
    fn estimates<'b>(&self, block: &'b mut Self::Block, chunk: &Self::Chunk, panel: usize) -> &'b [f32];

    /// Estimates (a, b) such that, for every reference of the chunk that has one, an estimate below a means a key
    /// below `low` and an estimate above b a key above `high`. The query must be usable.
    fn reach(&self, block: &Self::Block, query: usize, extremes: &Extremes, low: f64, high: f64) -> (f32, f32);

    /// What the key of one pair is at least and at most, given its estimate.
    fn between(&self, block: &Self::Block, query: usize, chunk: &Self::Chunk, row: usize, estimate: f32) -> (f64, f64);
}

impl<S: Simd, const R: usize, const V: usize, const P: usize> Dense for F32<'_, S, R, V, P> {
    fn extremes(&self, chunk: &Chunk) -> Extremes {
        let mut extremes = Extremes::default();
        for (&beta, &slack) in chunk.beta.iter().zip(&chunk.slack).take(chunk.rows) {
            if beta.is_finite() {
                extremes.slack = extremes.slack.max(f64::from(slack));
                extremes.beta = extremes.beta.max(f64::from(beta).abs());
            } else {
                extremes.unknown = true;
            }
        }
        extremes
    }

    fn estimates<'b>(&self, block: &'b mut Block, chunk: &Chunk, panel: usize) -> &'b [f32] {
        self.panel(block, chunk, panel, None);
        &block.sums[..block.scalars.len() * P]
    }

    fn reach(&self, block: &Block, query: usize, extremes: &Extremes, low: f64, high: f64) -> (f32, f32) {
        let Some(scalars) = &block.scalars[query] else {
            return (f32::NEG_INFINITY, f32::INFINITY);
        };
        let (low, high) = (low * scalars.scale, high * scalars.scale);
        let (below, above) = match self.form.shape() {
            Shape::Squares | Shape::Products => (
                low - scalars.offset - scalars.slack - 2.0 * extremes.slack,
                high - scalars.offset + scalars.slack,
            ),
            Shape::Absolute | Shape::Largest => {
                let relative = self.relative();
                (
                    low / (1.0 + 2.0 * relative) - extremes.beta - scalars.slack - extremes.slack,
                    (high + scalars.slack) / (1.0 - relative),
                )
            }
        };
        // Twice what `interval` allows for rounding: of the estimate and of beta in float32, of the rest in float64.
        let rounding = |edge: f64, key: f64| {
            let float32 = edge.abs() + extremes.beta + scalars.slack + 2.0 * extremes.slack;
            let float64 = key.abs() + scalars.offset.abs() + float32;
            amount(Term::Comparison, 8.0 * U * float32 + 2.0_f64.powi(-47) * float64)
        };
        let (below, above) = (below - rounding(below, low), above + rounding(above, high));
        (
            if below.is_nan() {
                f32::NEG_INFINITY
            } else {
                rounded_down(below)
            },
            if above.is_nan() {
                f32::INFINITY
            } else {
                rounded_up(above)
            },
        )
    }

    fn between(&self, block: &Block, query: usize, chunk: &Chunk, row: usize, estimate: f32) -> (f64, f64) {
        match &block.scalars[query] {
            Some(scalars) if chunk.beta[row].is_finite() => self.interval(scalars, chunk, row, estimate),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }
}
