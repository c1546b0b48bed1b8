//! What a float32 estimate says about a key.
//!
//! With u = 2⁻²⁴ and γ = (d+1)u/(1−(d+1)u), a float32 sum of d products in any order, fused or not, errs by at most
//! γ‖x̂‖‖ŷ‖ + d·2⁻¹⁴⁹ (Higham, *Accuracy and Stability of Numerical Algorithms*, §3). Storing x̂ and ŷ for the exact
//! operands x̃ and ỹ adds ‖eₓ‖‖ỹ‖ + ‖x̂‖‖e_y‖; ‖e‖ is computed, not estimated, plus the form's drift. To compare
//! without a product of row scalars, products are split:
//!
//! - squares: ab ≤ a²/4 + b² (the query operand has twice the norm of its row), and with ω = u,
//!   ‖eₓ‖‖ỹ‖ ≤ ‖eₓ‖²/4ω + ω‖ỹ‖² and the mirror image;
//! - products: query norms are at most 1 and lose at most u and d·2⁻¹⁴⁹.
//!
//! Sums of absolute differences have a relative error of γ, largest differences of u, and the stored rows' own
//! errors are added.

#![expect(clippy::doc_markdown, reason = "formulas are no code")]

use super::{Block, Chunk, F32, Shape};
use crate::filter::form::Operand;
use crate::filter::terms::{Term, amount};
use crate::filter::{SPREAD, Uppers};
use crate::isa::Simd;

/// Unit roundoff of float32.
pub(super) const U: f64 = f64::from_bits((1023 - 24) << 52);

/// No more than this is the norm of a stored query of a product.
const UNIT: f64 = 1.0 + f64::from_bits((1023 - 20) << 52);

/// No more than this is lost of a stored query of a product.
const QUERY_LOSS: f64 = U * UNIT + 1e-12;

/// A query's part of the bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scalars {
    pub(super) offset: f64,
    pub(super) slack: f64,
    pub(super) scale: f64,
}

impl<S: Simd, const R: usize, const V: usize, const P: usize> F32<'_, S, R, V, P> {
    /// The relative error of a sum or maximum of differences, refinement included.
    pub(super) fn relative(&self) -> f64 {
        self.gamma + self.form.evaluation()
    }

    /// (beta, slack) of a reference that lost `lost` in norm when it was stored.
    pub(super) fn reference_share(&self, operand: &Operand, lost: f64) -> (f32, f32) {
        let norm = operand.norm + lost;
        let (slack, beta) = match self.form.shape() {
            Shape::Squares => {
                let rounding =
                    amount(Term::QueryRounding, U * norm * norm) + amount(Term::ReferenceRounding, lost * lost / U);
                let slack = operand.slack + self.gamma * norm * norm + rounding + self.lost;
                (slack, operand.offset - slack)
            }
            Shape::Products => {
                let rounding =
                    amount(Term::QueryRounding, QUERY_LOSS * norm) + amount(Term::ReferenceRounding, UNIT * lost);
                let slack = operand.slack + self.gamma * UNIT * norm + rounding + self.lost;
                (slack, operand.offset - slack)
            }
            Shape::Absolute | Shape::Largest => {
                let slack = operand.slack + amount(Term::ReferenceRounding, lost);
                (slack, -slack / (1.0 - self.relative()))
            }
        };
        (rounded_down(beta), rounded_up(slack))
    }

    /// The scalars of a query that lost `lost` in norm when it was stored, unless its norm is out of range.
    pub(super) fn query_share(&self, operand: &Operand, lost: f64) -> Option<Scalars> {
        let norm = operand.norm + lost;
        let slack = match self.form.shape() {
            Shape::Squares => {
                let rounding = amount(Term::QueryRounding, lost * lost / (4.0 * U))
                    + amount(Term::ReferenceRounding, U * norm * norm / 4.0);
                operand.slack + self.gamma * norm * norm / 4.0 + rounding + self.lost
            }
            Shape::Products if norm > UNIT || lost > QUERY_LOSS => return None,
            Shape::Products => operand.slack,
            Shape::Absolute | Shape::Largest => operand.slack + amount(Term::QueryRounding, lost),
        };
        Some(Scalars {
            offset: operand.offset,
            slack,
            scale: operand.scale,
        })
    }

    /// What the key of a pair is at least and at most, given its float32 estimate.
    #[inline(always)]
    pub(super) fn interval(&self, query: &Scalars, chunk: &Chunk, row: usize, estimate: f32) -> (f64, f64) {
        let (beta, width) = (f64::from(chunk.beta[row]), f64::from(chunk.slack[row]));
        let estimate = f64::from(estimate);
        // Rounding of the estimate, of beta, and of the sums here.
        let comparison = amount(
            Term::Comparison,
            4.0 * U * (estimate.abs() + beta.abs()) + 2.0_f64.powi(-50) * (query.offset.abs() + query.slack),
        );
        let (lower, upper) = match self.form.shape() {
            Shape::Squares | Shape::Products => {
                let centre = query.offset + estimate;
                (
                    centre - query.slack - comparison,
                    centre + query.slack + 2.0 * width + comparison,
                )
            }
            Shape::Absolute | Shape::Largest => {
                let relative = self.relative();
                (
                    (estimate - comparison) * (1.0 - relative) - query.slack,
                    (estimate - beta + comparison + query.slack + width) * (1.0 + 2.0 * relative),
                )
            }
        };
        outward(lower / query.scale, upper / query.scale)
    }

    /// Lowers the upper bounds of each query by the estimates that a panel left in `block.sums`: what `interval` says, with
    /// the row's part apart from the query's, so that several rows go together.
    #[inline(always)]
    pub(super) fn lower_by_sums(&self, block: &Block, chunk: &Chunk, panel: usize, uppers: &mut [Uppers]) {
        let mut shares = [f64::INFINITY; P];
        for (share, row) in shares.iter_mut().zip(panel * P..chunk.rows) {
            let (beta, width) = (f64::from(chunk.beta[row]), f64::from(chunk.slack[row]));
            let rounding = amount(Term::Comparison, 4.0 * U * beta.abs());
            *share = match self.form.shape() {
                _ if !beta.is_finite() => f64::INFINITY,
                Shape::Squares | Shape::Products => 2.0 * width + rounding,
                Shape::Absolute | Shape::Largest => width - beta + rounding,
            };
        }
        let rounding = amount(Term::Comparison, 4.0 * U);
        let sums = block.sums.chunks_exact(P);
        for ((uppers, scalars), sums) in uppers.iter_mut().zip(&block.scalars).zip(sums) {
            let Some(query) = scalars else { continue };
            let mut least = [f64::INFINITY; SPREAD];
            for (least_of, (&sum, share)) in (0..SPREAD).cycle().zip(sums.iter().zip(&shares)) {
                let estimate = f64::from(sum);
                let upper = estimate + rounding * estimate.abs() + share;
                // NaN lowers nothing.
                least[least_of] = if upper < least[least_of] {
                    upper
                } else {
                    least[least_of]
                };
            }
            let own = amount(Term::Comparison, 2.0_f64.powi(-50) * (query.offset.abs() + query.slack));
            for (upper, least) in uppers.iter_mut().zip(least) {
                let most = match self.form.shape() {
                    Shape::Squares | Shape::Products => query.offset + query.slack + own + least,
                    Shape::Absolute | Shape::Largest => (least + query.slack + own) * (1.0 + 2.0 * self.relative()),
                };
                *upper = upper.min(outward(0.0, most / query.scale).1);
            }
        }
    }

    /// No less than the estimate of any pair of the query whose lower bound is at most `key`.
    pub(super) fn threshold(&self, query: &Scalars, key: f64) -> f32 {
        let scaled = key * query.scale;
        let rounding = amount(
            Term::Comparison,
            2.0_f64.powi(-50) * (scaled.abs() + query.offset.abs() + query.slack),
        );
        let threshold = match self.form.shape() {
            Shape::Squares | Shape::Products => scaled - query.offset + query.slack + rounding,
            Shape::Absolute | Shape::Largest => (scaled + query.slack + rounding) / (1.0 - self.relative()),
        };
        if threshold.is_nan() {
            f32::INFINITY
        } else {
            rounded_up(threshold)
        }
    }
}

/// The interval with the rounding of the last divisions, and NaN as unknown.
#[inline(always)]
fn outward(lower: f64, upper: f64) -> (f64, f64) {
    let lower = lower - lower.abs() * 2.0_f64.powi(-50);
    let upper = upper + upper.abs() * 2.0_f64.powi(-50);
    if lower.is_finite() && upper.is_finite() {
        (lower, upper)
    } else {
        (f64::NEG_INFINITY, f64::INFINITY)
    }
}

pub(super) fn rounded_down(x: f64) -> f32 {
    -rounded_up(-x)
}

/// The smallest float32 that is not below `x`.
pub(super) fn rounded_up(x: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "rounded outward below")]
    let single = x as f32;
    if f64::from(single) < x {
        single.next_up()
    } else {
        single
    }
}
