//! Choosing the best of many values: the nearest so far, by bounds or exact, and the top of a given matrix.

pub mod candidates;
pub mod radix;
pub mod topk;

pub use candidates::{Candidate, Candidates, Ranked, Stage};

/// Exact values of one query.
pub trait Score {
    /// The key that refinement computes for reference row `row`.
    fn key(&mut self, row: u64) -> f64;

    /// The returned value of a key, rounded, negated where larger is nearer; ascending in the key, NaN for NaN.
    fn rank(&self, key: f64) -> f64;

    /// The largest key whose rank is not above `rank`.
    fn widest(&self, rank: f64) -> f64;

    /// Says that the key of `row` will be wanted soon.
    fn prefetch(&self, row: u64) {
        let _ = row;
    }
}
