//! Average precision: the precision at every match, summed and divided by R, the number of relevant references.

use super::{Ranking, Share};

/// Over everything that was retrieved. The divisor stays R when fewer were.
#[must_use]
pub fn average_precision(ranking: &Ranking<'_>) -> Share {
    if ranking.relevant == 0 {
        return Share::ZERO;
    }
    let mut sum = Share::ZERO;
    for (matches, &rank) in (1..).zip(ranking.hits) {
        sum = sum.plus(Share::ratio(matches, rank));
    }
    sum.over(ranking.relevant)
}

/// Over the first R only.
#[must_use]
pub fn average_precision_at_r(ranking: &Ranking<'_>) -> Share {
    average_precision(&ranking.within(ranking.relevant))
}
