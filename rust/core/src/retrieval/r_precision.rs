//! R-precision: precision at R, the number of relevant references.

use super::{Ranking, Share};

/// Matches among the first R, over R, or over the number retrieved if that is smaller.
#[must_use]
pub fn r_precision(ranking: &Ranking<'_>) -> Share {
    let depth = ranking.relevant.min(ranking.retrieved);
    if depth == 0 {
        return Share::ZERO;
    }
    Share::ratio(ranking.within(depth).matches(), depth)
}
