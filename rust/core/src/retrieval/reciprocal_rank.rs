//! Reciprocal rank: one over the rank of the first match.

use super::{Ranking, Share};

/// Nothing if no match was retrieved.
#[must_use]
pub fn reciprocal_rank(ranking: &Ranking<'_>) -> Share {
    ranking.hits.first().map_or(Share::ZERO, |&rank| Share::ratio(1, rank))
}
