//! Rank metrics of retrieval, from the ranks of the matches alone.
//!
//! Where the ranks come from is somebody else's business: rows of neighbour indices with labels on either side, a
//! matrix of matches, or a search that counts. Each query is reduced to a few [`Share`]s as soon as its ranks are
//! known, so memory grows with the number of queries, not with that of pairs. All arithmetic is on integers until
//! the one rounding to float64.
//!
//! A new metric is one file with one function, and one line in [`Kind`] and each of its two matches.

mod average_precision;
mod precision;
mod r_precision;
mod recall;
mod reciprocal_rank;
mod scores;
mod share;

pub use average_precision::{average_precision, average_precision_at_r};
pub use precision::precision;
pub use r_precision::r_precision;
pub use recall::recall;
pub use reciprocal_rank::reciprocal_rank;
pub use scores::{Neighborhoods, Scores, score_matches, score_neighbors};
pub use share::Share;

/// What one query retrieved.
#[derive(Debug, Clone, Copy)]
pub struct Ranking<'a> {
    /// Ranks of the matches, counted from 1, ascending.
    pub hits: &'a [u64],
    /// How many references were retrieved, matches or not.
    pub retrieved: u64,
    /// How many references are relevant, retrieved or not (R).
    pub relevant: u64,
}

impl Ranking<'_> {
    /// The first `depth` of it.
    #[must_use]
    pub fn within(&self, depth: u64) -> Self {
        Self {
            hits: &self.hits[..self.hits.partition_point(|&rank| rank <= depth)],
            retrieved: self.retrieved.min(depth),
            relevant: self.relevant,
        }
    }

    /// How many matches there are.
    #[must_use]
    pub fn matches(&self) -> u64 {
        self.hits.len() as u64
    }
}

/// The family of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `precision`
    Precision,
    /// `recall`
    Recall,
    /// `r_precision`
    RPrecision,
    /// `average_precision`
    AveragePrecision,
    /// [`average_precision_at_r`]
    AveragePrecisionAtR,
    /// `reciprocal_rank`
    ReciprocalRank,
}

impl Kind {
    /// The family called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "precision" => Self::Precision,
            "recall" => Self::Recall,
            "r_precision" => Self::RPrecision,
            "average_precision" => Self::AveragePrecision,
            "average_precision_at_r" => Self::AveragePrecisionAtR,
            "reciprocal_rank" => Self::ReciprocalRank,
            _ => return None,
        })
    }
}

/// A metric of one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The family.
    pub kind: Kind,
    /// Only the first so many of a ranking count (`k` of precision and recall); all do without it.
    pub cutoff: Option<u64>,
}

impl Metric {
    /// The value for one query.
    #[must_use]
    pub fn of(&self, ranking: &Ranking<'_>) -> Share {
        let k = self.cutoff.unwrap_or(ranking.retrieved).max(1);
        let ranking = &ranking.within(k);
        match self.kind {
            Kind::Precision => precision(ranking, k),
            Kind::Recall => recall(ranking, k),
            Kind::RPrecision => r_precision(ranking),
            Kind::AveragePrecision => average_precision(ranking),
            Kind::AveragePrecisionAtR => average_precision_at_r(ranking),
            Kind::ReciprocalRank => reciprocal_rank(ranking),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: Kind, cutoff: Option<u64>, hits: &[u64], retrieved: u64, relevant: u64) -> f64 {
        let ranking = Ranking {
            hits,
            retrieved,
            relevant,
        };
        Metric { kind, cutoff }.of(&ranking).to_f64()
    }

    #[test]
    fn worked_values_of_one_query() {
        // Matches at ranks 2 and 3 of 5, and a third one that was not retrieved.
        let of = |kind, cutoff| value(kind, cutoff, &[2, 3], 5, 3);
        assert_eq!(of(Kind::Precision, Some(1)), 0.0, "the first is no match");
        assert_eq!(of(Kind::Precision, Some(2)), 0.5, "one of two");
        assert_eq!(of(Kind::Recall, Some(2)), 1.0, "any match counts");
        assert_eq!(of(Kind::RPrecision, None), 2.0 / 3.0, "two of three");
        assert_eq!(of(Kind::AveragePrecision, None), 7.0 / 18.0, "(1/2 + 2/3) / 3");
        assert_eq!(of(Kind::AveragePrecisionAtR, None), 7.0 / 18.0, "both are within R");
        assert_eq!(of(Kind::ReciprocalRank, None), 0.5, "rank 2");
    }

    #[test]
    fn a_cutoff_below_r_keeps_the_divisor_of_average_precision_only() {
        let of = |kind| value(kind, Some(1), &[1, 2, 3], 5, 3);
        assert_eq!(of(Kind::AveragePrecision), 1.0 / 3.0, "one match over R");
        assert_eq!(of(Kind::AveragePrecisionAtR), 1.0 / 3.0, "one match over R");
        assert_eq!(of(Kind::RPrecision), 1.0, "one match over the one retrieved");
    }

    #[test]
    fn matches_beyond_r_do_not_count_at_r() {
        assert_eq!(
            value(Kind::AveragePrecisionAtR, None, &[1, 4], 5, 2),
            0.5,
            "rank 4 is beyond R = 2"
        );
        assert_eq!(
            value(Kind::AveragePrecision, None, &[1, 4], 5, 2),
            0.75,
            "(1 + 2/4) / 2"
        );
    }

    #[test]
    fn nothing_found_is_zero() {
        for kind in [
            Kind::Recall,
            Kind::RPrecision,
            Kind::AveragePrecision,
            Kind::ReciprocalRank,
        ] {
            assert_eq!(value(kind, None, &[], 5, 2), 0.0, "no match");
        }
    }
}
