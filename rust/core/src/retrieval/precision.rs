//! Precision at k: which part of the first k are matches.

use super::{Ranking, Share};

/// Matches among the first `k`, over `k`, however many were retrieved.
#[must_use]
pub fn precision(ranking: &Ranking<'_>, k: u64) -> Share {
    Share::ratio(ranking.within(k).matches(), k)
}
