//! The best candidate of a built-in metric, without sorting what cannot hold it.
//!
//! The naive loop sorts all scores and evaluates the metric at every boundary between distinct ones. But the metrics
//! grow with true positives and fall with false ones, so inside a bucket of scores none exceeds the metric of *all* of
//! the bucket's positives with *none* of its negatives. After one counting pass over coarse buckets, whose own ends
//! are candidates with known counts, only the few buckets whose bound reaches the best end need to be gathered,
//! sorted and swept. Ties go to the candidate with the fewest matches, so a bucket whose bound merely equals the best
//! is swept too.

use super::buckets::{Bucketed, Gathered, Run, first_not_finite, not_finite};
use super::merge::Merge;
use super::metric::{Metric, Point};
use super::order::{Order, Score, threshold};
use super::workers::Workers;
use super::{Selection, check_labels};
use crate::error::Result;

/// Below this many scores sorting all of them costs less than counting buckets.
const SMALL: usize = 1 << 15;

/// Leader of a sweep: its counts, its weakest match, and the next score if the sweep has seen it.
struct Leader<K> {
    at: Point,
    weakest: Option<K>,
    beyond: Option<K>,
}

pub(crate) fn best<S: Score>(
    scores: &[S],
    labels: &[u8],
    order: Order,
    metric: Metric,
    workers: Workers<'_>,
) -> Result<Selection> {
    let (leader, total) = if scores.len() < SMALL {
        sorted(scores, labels, order, metric)?
    } else {
        bucketed(scores, labels, order, metric, workers)?
    };
    Ok(Selection {
        threshold: threshold::<S>(leader.weakest, leader.beyond, order),
        value: metric.value(leader.at, total),
        at: leader.at,
        total,
    })
}

fn sorted<S: Score>(scores: &[S], labels: &[u8], order: Order, metric: Metric) -> Result<(Leader<S::Key>, Point)> {
    if let Some(bad) = first_not_finite(scores) {
        return Err(not_finite(bad, scores[bad]));
    }
    let class = |positive: bool| {
        let keys = scores
            .iter()
            .zip(labels)
            .filter(|&(_, &label)| (label != 0) == positive);
        let mut keys: Vec<_> = keys.map(|(score, _)| score.key(order)).collect();
        keys.sort_unstable();
        keys
    };
    let (positives, negatives) = (class(true), class(false));
    let total = Point {
        tp: positives.len() as u64,
        fp: negatives.len() as u64,
    };
    check_labels(total)?;
    metric.check(total)?;
    let mut leader = Leader::reject_all();
    leader.sweep((&positives, &negatives), Point::default(), metric, total);
    Ok((leader, total))
}

fn bucketed<S: Score>(
    scores: &[S],
    labels: &[u8],
    order: Order,
    metric: Metric,
    workers: Workers<'_>,
) -> Result<(Leader<S::Key>, Point)> {
    let buckets = Bucketed::new(scores, labels, order);
    let counts = buckets.count(workers)?;
    let ends = counts.iter().scan(Point::default(), |sum, count| {
        *sum = Point {
            tp: sum.tp + count.tp,
            fp: sum.fp + count.fp,
        };
        Some(*sum)
    });
    let ends: Vec<Point> = ends.collect();
    let total = ends[ends.len() - 1];
    check_labels(total)?;
    metric.check(total)?;
    let lower = ends.into_iter().fold(Point::default(), |best, end| {
        if metric.better(end, best, total) { end } else { best }
    });
    let mut gathered = buckets.gather(&counts, |run| !metric.better(lower, bound(run), total), workers)?;
    gathered.sort(workers)?;
    let keys = |run: &Run| {
        let Gathered {
            positives, negatives, ..
        } = &gathered;
        (&positives[run.positives.clone()], &negatives[run.negatives.clone()])
    };
    let mut leader = Leader::reject_all();
    let mut next = 0;
    for (index, run) in gathered.runs.iter().enumerate() {
        if metric.better(bound(run), leader.at, total) && leader.sweep(keys(run), run.before, metric, total) {
            next = index + 1;
        }
    }
    // The bucket after a leading end was gathered too, for its bound is no less than that end.
    if let (None, Some(run)) = (leader.beyond, gathered.runs.get(next))
        && leader.weakest.is_some()
    {
        leader.beyond = first(keys(run));
    }
    Ok((leader, total))
}

/// No candidate inside the bucket has a larger value than this point.
fn bound(run: &Run) -> Point {
    Point {
        tp: run.after().tp,
        fp: run.before.fp,
    }
}

/// The strictest key of two sorted classes.
fn first<K: Ord + Copy>((positives, negatives): (&[K], &[K])) -> Option<K> {
    match (positives.first(), negatives.first()) {
        (Some(&p), Some(&n)) => Some(p.min(n)),
        (p, n) => p.or(n).copied(),
    }
}

impl<K: Ord + Copy> Leader<K> {
    fn reject_all() -> Self {
        Self {
            at: Point::default(),
            weakest: None,
            beyond: None,
        }
    }

    /// Takes the lead of every candidate that ends at one of these sorted keys; whether there was one.
    fn sweep(&mut self, keys: (&[K], &[K]), before: Point, metric: Metric, total: Point) -> bool {
        let (positives, negatives) = keys;
        let (mut last, mut led) = (0, false);
        for step in Merge::new(positives, negatives) {
            // Without a new true positive the value has not grown.
            if step.positives == last {
                continue;
            }
            last = step.positives;
            let at = Point {
                tp: before.tp + step.positives as u64,
                fp: before.fp + step.negatives as u64,
            };
            if metric.better(at, self.at, total) {
                let beyond = first((&positives[step.positives..], &negatives[step.negatives..]));
                (led, *self) = (
                    true,
                    Self {
                        at,
                        weakest: Some(step.key),
                        beyond,
                    },
                );
            }
        }
        led
    }
}
