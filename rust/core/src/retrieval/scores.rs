//! From ranks to values per query, and from those to means.

use super::{Metric, Ranking, Share};

/// The values of some metrics for every query.
///
/// A query without relevant references has none and takes no part in any mean.
#[derive(Debug, Clone)]
pub struct Scores {
    metrics: Vec<Metric>,
    /// Query by query, metric by metric.
    shares: Vec<Share>,
    scored: Vec<bool>,
}

impl Scores {
    /// No queries yet.
    #[must_use]
    pub fn new(metrics: &[Metric]) -> Self {
        Self {
            metrics: metrics.to_vec(),
            shares: Vec::new(),
            scored: Vec::new(),
        }
    }

    /// Adds the next query.
    pub fn push(&mut self, ranking: &Ranking<'_>) {
        self.scored.push(ranking.relevant > 0);
        self.shares.extend(self.metrics.iter().map(|metric| metric.of(ranking)));
    }

    /// Adds the queries of `other` after these.
    pub fn append(&mut self, mut other: Self) {
        self.shares.append(&mut other.shares);
        self.scored.append(&mut other.scored);
    }

    /// Number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scored.len()
    }

    /// Whether there are no queries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scored.is_empty()
    }

    /// Number of metrics.
    #[must_use]
    pub fn metrics(&self) -> usize {
        self.metrics.len()
    }

    fn of(&self, metric: usize) -> impl Iterator<Item = Option<Share>> {
        let of_metric = self.shares.iter().skip(metric).step_by(self.metrics.len());
        self.scored
            .iter()
            .zip(of_metric)
            .map(|(&scored, &share)| scored.then_some(share))
    }

    /// Metric number `metric` of every query; NaN where a query has no relevant references.
    #[must_use]
    pub fn values(&self, metric: usize) -> Vec<f64> {
        self.of(metric).map(or_nan).collect()
    }

    /// Mean over the queries; NaN if none has relevant references.
    #[must_use]
    pub fn mean(&self, metric: usize) -> f64 {
        or_nan(Share::mean(self.of(metric).flatten()))
    }

    /// Means over the queries of each class that has one with relevant references, by ascending class number.
    ///
    /// `classes` holds the class number of every query, below `count`.
    #[must_use]
    pub fn class_means(&self, metric: usize, classes: &[usize], count: usize) -> Vec<f64> {
        self.class_shares(metric, classes, count).map(Share::to_f64).collect()
    }

    /// Mean over the classes of the means within each; NaN if there are none.
    #[must_use]
    pub fn mean_of_class_means(&self, metric: usize, classes: &[usize], count: usize) -> f64 {
        or_nan(Share::mean(self.class_shares(metric, classes, count)))
    }

    fn class_shares(&self, metric: usize, classes: &[usize], count: usize) -> impl Iterator<Item = Share> {
        let mut sums = vec![(Share::ZERO, 0_u64); count];
        for (&class, share) in classes.iter().zip(self.of(metric)) {
            if let Some(share) = share {
                sums[class] = (sums[class].0.plus(share), sums[class].1 + 1);
            }
        }
        sums.into_iter()
            .filter(|&(_, queries)| queries > 0)
            .map(|(sum, queries)| sum.over(queries))
    }
}

fn or_nan(share: Option<Share>) -> f64 {
    share.map_or(f64::NAN, Share::to_f64)
}

/// Neighbours of every query with a class number for every row of either side.
#[derive(Debug, Clone, Copy)]
pub struct Neighborhoods<'a> {
    /// Reference rows, nearest first, row-major (queries × k); each addresses a reference.
    pub indices: &'a [i64],
    /// Neighbours of each query.
    pub k: usize,
    /// Class of every query.
    pub query_classes: &'a [i64],
    /// Class of every reference.
    pub reference_classes: &'a [i64],
    /// Relevant references of every query.
    pub relevant: &'a [u64],
}

/// Scores of queries whose neighbours are known.
///
/// # Panics
/// If an index does not address a reference, or the lengths disagree.
#[must_use]
pub fn score_neighbors(neighborhoods: &Neighborhoods<'_>, metrics: &[Metric]) -> Scores {
    let classes = neighborhoods.reference_classes;
    by_row(neighborhoods.k, neighborhoods.relevant, metrics, |row, hits| {
        let start = row * neighborhoods.k;
        let own = neighborhoods.query_classes[row];
        for (rank, &j) in (1..).zip(&neighborhoods.indices[start..start + neighborhoods.k]) {
            let j = usize::try_from(j).expect("an index addresses a reference");
            if classes[j] == own {
                hits.push(rank);
            }
        }
    })
}

/// Scores of queries for which each of the `k` neighbours is known to match (not 0) or not, row-major.
///
/// # Panics
/// If the lengths disagree.
#[must_use]
pub fn score_matches(matches: &[u8], k: usize, relevant: &[u64], metrics: &[Metric]) -> Scores {
    by_row(k, relevant, metrics, |row, hits| {
        let row = &matches[row * k..(row + 1) * k];
        hits.extend(
            (1..)
                .zip(row)
                .filter(|&(_, &matches)| matches != 0)
                .map(|(rank, _)| rank),
        );
    })
}

fn by_row(k: usize, relevant: &[u64], metrics: &[Metric], mut hits_of: impl FnMut(usize, &mut Vec<u64>)) -> Scores {
    let mut scores = Scores::new(metrics);
    let mut hits = Vec::with_capacity(k);
    for (row, &relevant) in relevant.iter().enumerate() {
        hits.clear();
        hits_of(row, &mut hits);
        scores.push(&Ranking {
            hits: &hits,
            retrieved: k as u64,
            relevant,
        });
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Metric};
    use super::*;

    const FIRST: Metric = Metric {
        kind: Kind::Precision,
        cutoff: Some(1),
    };
    const MAP: Metric = Metric {
        kind: Kind::AveragePrecision,
        cutoff: None,
    };

    #[test]
    fn neighbours_and_their_matches_score_alike() {
        let neighborhoods = Neighborhoods {
            indices: &[1, 0, 2, 0, 2, 1],
            k: 3,
            query_classes: &[7, 8],
            reference_classes: &[7, 8, 7],
            relevant: &[2, 1],
        };
        let by_index = score_neighbors(&neighborhoods, &[FIRST, MAP]);
        let by_match = score_matches(&[0, 1, 1, 0, 0, 1], 3, &[2, 1], &[FIRST, MAP]);
        for metric in 0..2 {
            assert_eq!(by_index.values(metric), by_match.values(metric), "metric {metric}");
        }
        assert_eq!(by_index.values(1), [7.0 / 12.0, 1.0 / 3.0], "(1/2 + 2/3) / 2 and 1/3");
    }

    #[test]
    fn a_query_without_relevant_references_takes_no_part() {
        let scores = score_matches(&[1, 0, 0], 1, &[1, 1, 0], &[FIRST]);
        assert_eq!(scores.mean(0), 0.5, "two of three queries count");
        assert!(scores.values(0)[2].is_nan(), "the third has no value");
        assert_eq!(scores.class_means(0, &[2, 0, 1], 3), [0.0, 1.0], "class 1 is left out");
        assert!(score_matches(&[], 0, &[0], &[FIRST]).mean(0).is_nan(), "nobody counts");
    }

    #[test]
    fn classes_weigh_alike_in_the_mean_of_means() {
        let scores = score_matches(&[1, 1, 1, 0], 1, &[1; 4], &[FIRST]);
        assert_eq!(scores.mean(0), 0.75, "over queries");
        assert_eq!(scores.mean_of_class_means(0, &[0, 0, 0, 1], 2), 0.5, "over classes");
    }
}
