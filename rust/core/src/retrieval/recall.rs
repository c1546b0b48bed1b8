//! Recall at k as the metric-learning papers use the word: whether the first k hold any match.

use super::{Ranking, Share};

/// One if there is a match among the first `k`, else nothing.
#[must_use]
pub fn recall(ranking: &Ranking<'_>, k: u64) -> Share {
    Share::ratio(u64::from(ranking.within(k).matches() > 0), 1)
}
