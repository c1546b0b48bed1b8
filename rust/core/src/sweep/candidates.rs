//! Every candidate of a sweep, for metrics that only the caller knows and for curves.

use super::buckets::Bucketed;
use super::check_labels;
use super::merge::Merge;
use super::metric::Point;
use super::order::{Order, Score, threshold};
use super::workers::Workers;
use crate::error::Result;

/// Sorted keys of both classes. Thresholds and counts of candidates are derived from them when asked for.
#[derive(Debug)]
pub(crate) struct Sorted<S: Score> {
    positives: Vec<S::Key>,
    negatives: Vec<S::Key>,
    order: Order,
    candidates: usize,
}

/// One entry per candidate, strictest first; whole numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// Positives that match.
    pub true_positives: Vec<f64>,
    /// Negatives that match.
    pub false_positives: Vec<f64>,
    /// Negatives that do not match.
    pub true_negatives: Vec<f64>,
    /// Positives that do not match.
    pub false_negatives: Vec<f64>,
}

impl<S: Score> Sorted<S> {
    pub(crate) fn new(scores: &[S], labels: &[u8], order: Order, workers: Workers<'_>) -> Result<Self> {
        let buckets = Bucketed::new(scores, labels, order);
        let counts = buckets.count(workers)?;
        let total = counts.iter().fold(Point::default(), |sum, count| Point {
            tp: sum.tp + count.tp,
            fp: sum.fp + count.fp,
        });
        check_labels(total)?;
        let mut gathered = buckets.gather(&counts, |_| true, workers)?;
        gathered.sort(workers)?;
        let (positives, negatives) = (gathered.positives, gathered.negatives);
        let candidates = 1 + Merge::new(&positives, &negatives).count();
        Ok(Self {
            positives,
            negatives,
            order,
            candidates,
        })
    }

    /// Distinct scores and one for rejecting all.
    pub(crate) fn len(&self) -> usize {
        self.candidates
    }

    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    pub(crate) fn counts(&self) -> Counts {
        let empty = || Vec::with_capacity(self.candidates);
        let mut counts = Counts {
            true_positives: empty(),
            false_positives: empty(),
            true_negatives: empty(),
            false_negatives: empty(),
        };
        let (p, n) = (self.positives.len(), self.negatives.len());
        let mut push = |tp: usize, fp: usize| {
            counts.true_positives.push(tp as f64);
            counts.false_positives.push(fp as f64);
            counts.true_negatives.push((n - fp) as f64);
            counts.false_negatives.push((p - tp) as f64);
        };
        push(0, 0);
        for step in Merge::new(&self.positives, &self.negatives) {
            push(step.positives, step.negatives);
        }
        counts
    }

    /// The threshold of candidate `index`, which must exist.
    pub(crate) fn threshold(&self, index: usize) -> f64 {
        let mut steps = Merge::new(&self.positives, &self.negatives).map(|step| step.key);
        let weakest = index.checked_sub(1).and_then(|skipped| steps.nth(skipped));
        threshold::<S>(weakest, steps.next(), self.order)
    }

    /// The thresholds of all candidates.
    pub(crate) fn thresholds(&self) -> Vec<f64> {
        let mut all = Vec::with_capacity(self.candidates);
        all.push(self.order.reject_all());
        let mut weakest = None;
        for step in Merge::new(&self.positives, &self.negatives) {
            if weakest.is_some() {
                all.push(threshold::<S>(weakest, Some(step.key), self.order));
            }
            weakest = Some(step.key);
        }
        all.push(threshold::<S>(weakest, None, self.order));
        all
    }
}
