//! Scores counted and gathered by bucket: which part of the scores can hold the answer, and only that part sorted.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::metric::Point;
use super::order::{Order, Score};
use super::workers::Workers;
use crate::error::{Error, Result};

/// Buckets of a sweep, a power of two. Their counts (64 KiB a thread) stay in the second-level cache.
pub(crate) const BUCKETS: usize = 4096;
/// Scores between two questions whether to go on.
const STEP: usize = 1 << 18;
/// Scores whose buckets are computed at once, apart from the counting, so that the compiler vectorises it.
const BLOCK: usize = 256;
const SAMPLE: usize = 1024;

/// Scores and labels of equal length, with the bucket of each score, strictest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucketed<'a, S: Score> {
    pub(crate) scores: &'a [S],
    pub(crate) labels: &'a [u8],
    pub(crate) order: Order,
    line: S::Line,
}

/// The keys of some buckets, each class by itself, strictest bucket first; within a bucket sorted only after
/// [`Gathered::sort`].
#[derive(Debug)]
pub(crate) struct Gathered<K> {
    pub(crate) positives: Vec<K>,
    pub(crate) negatives: Vec<K>,
    pub(crate) runs: Vec<Run>,
}

/// One bucket of [`Gathered`].
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Counts of everything stricter, gathered or not.
    pub(crate) before: Point,
    pub(crate) positives: Range<usize>,
    pub(crate) negatives: Range<usize>,
}

impl Run {
    /// Counts with all of the bucket.
    pub(crate) fn after(&self) -> Point {
        Point {
            tp: self.before.tp + self.positives.len() as u64,
            fp: self.before.fp + self.negatives.len() as u64,
        }
    }
}

impl<'a, S: Score> Bucketed<'a, S> {
    pub(crate) fn new(scores: &'a [S], labels: &'a [u8], order: Order) -> Self {
        let stride = (scores.len() / SAMPLE).max(1);
        let sample: Vec<S> = scores.iter().step_by(stride).copied().collect();
        Self {
            scores,
            labels,
            order,
            line: S::line(&sample, BUCKETS),
        }
    }

    /// Calls `each(bucket, position)` for every score of a range, in order; false when told to stop.
    #[inline(always)]
    fn visit(&self, range: Range<usize>, alive: &dyn Fn() -> bool, mut each: impl FnMut(usize, usize)) -> bool {
        let flip = if self.order == Order::Descending {
            BUCKETS - 1
        } else {
            0
        };
        let mut places = [0usize; BLOCK];
        for step in pieces(range, STEP) {
            if !alive() {
                return false;
            }
            for block in pieces(step, BLOCK) {
                for (place, &score) in places.iter_mut().zip(&self.scores[block.clone()]) {
                    *place = (score.place(self.line) & (BUCKETS - 1)) ^ flip;
                }
                for (&place, position) in places.iter().zip(block) {
                    each(place, position);
                }
            }
        }
        true
    }

    /// Counts of every bucket, or what is wrong with the scores.
    pub(crate) fn count(&self, workers: Workers<'_>) -> Result<Vec<Point>> {
        let bad = AtomicUsize::new(usize::MAX);
        let chunk = self.scores.len().div_ceil(workers.threads * 4).max(STEP);
        let tasks = pieces(0..self.scores.len(), chunk).collect();
        let parts = workers.run(tasks, |range: Range<usize>, alive| {
            if let Some(position) = first_not_finite(&self.scores[range.clone()]) {
                bad.fetch_min(range.start + position, Ordering::Relaxed);
                return Some(Vec::new());
            }
            let mut counts = vec![[0u64; 2]; BUCKETS];
            let done = self.visit(range, alive, |bucket, position| {
                counts[bucket][usize::from(self.labels[position] != 0)] += 1;
            });
            done.then_some(counts)
        })?;
        let bad = bad.into_inner();
        if bad != usize::MAX {
            return Err(not_finite(bad, self.scores[bad]));
        }
        let mut total = vec![Point::default(); BUCKETS];
        for part in parts {
            for (sum, [fp, tp]) in total.iter_mut().zip(part) {
                sum.tp += tp;
                sum.fp += fp;
            }
        }
        Ok(total)
    }

    /// The keys of the buckets for which `keep` holds, given everyone's counts.
    ///
    /// Each worker reads all scores and writes the buckets that are its own: no two write to the same place.
    pub(crate) fn gather(
        &self,
        counts: &[Point],
        keep: impl Fn(&Run) -> bool,
        workers: Workers<'_>,
    ) -> Result<Gathered<S::Key>> {
        let mut before = Point::default();
        let (mut runs, mut buckets) = (Vec::new(), Vec::new());
        let (mut positives, mut negatives) = (0, 0);
        for (bucket, count) in counts.iter().enumerate() {
            #[expect(clippy::cast_possible_truncation, reason = "no more than there are scores")]
            let (p, n) = (count.tp as usize, count.fp as usize);
            let run = Run {
                before,
                positives: positives..positives + p,
                negatives: negatives..negatives + n,
            };
            before = run.after();
            if p + n > 0 && keep(&run) {
                (positives, negatives) = (run.positives.end, run.negatives.end);
                buckets.push(bucket);
                runs.push(run);
            }
        }
        let filler = self.scores[0].key(self.order);
        let mut gathered = Gathered {
            positives: vec![filler; positives],
            negatives: vec![filler; negatives],
            runs,
        };
        let tasks = shares(&mut gathered, &buckets, workers.threads);
        workers.run(tasks, |share, alive| self.fill(share, alive))?;
        Ok(gathered)
    }

    fn fill(&self, share: Share<'_, S::Key>, alive: &dyn Fn() -> bool) -> Option<()> {
        let Share {
            mut cursors,
            positives,
            negatives,
        } = share;
        let done = self.visit(0..self.scores.len(), alive, |bucket, position| {
            let positive = self.labels[position] != 0;
            let cursor = &mut cursors[bucket][usize::from(positive)];
            if *cursor != NOT_MINE {
                let keys = if positive { &mut *positives } else { &mut *negatives };
                keys[*cursor] = self.scores[position].key(self.order);
                *cursor += 1;
            }
        });
        done.then_some(())
    }

    /// The strictest key weaker than `key`, if any.
    pub(crate) fn beyond(&self, key: S::Key, workers: Workers<'_>) -> Result<Option<S::Key>> {
        let chunk = self.scores.len().div_ceil(workers.threads * 4).max(STEP);
        let tasks = pieces(0..self.scores.len(), chunk).collect();
        let found = workers.run(tasks, |range: Range<usize>, _| {
            Some(
                self.scores[range]
                    .iter()
                    .map(|s| s.key(self.order))
                    .filter(|&k| k > key)
                    .min(),
            )
        })?;
        Ok(found.into_iter().flatten().min())
    }
}

/// A worker's part of [`Gathered`], and where in it the next key of (bucket, class) goes.
struct Share<'a, K> {
    cursors: Vec<[usize; 2]>,
    positives: &'a mut [K],
    negatives: &'a mut [K],
}

const NOT_MINE: usize = usize::MAX;

fn shares<'a, K>(gathered: &'a mut Gathered<K>, buckets: &[usize], threads: usize) -> Vec<Share<'a, K>> {
    // Every share costs a pass over all scores, so there is no use in many.
    let size = (gathered.positives.len() + gathered.negatives.len()).div_ceil(threads.clamp(1, 8));
    let (mut positives, mut negatives) = (&mut gathered.positives[..], &mut gathered.negatives[..]);
    let mut shares = Vec::new();
    let mut runs = gathered.runs.iter().zip(buckets).peekable();
    while let Some((first, _)) = runs.peek() {
        let start = (first.positives.start, first.negatives.start);
        let mut end = start;
        let mut cursors = vec![[NOT_MINE; 2]; BUCKETS];
        while end.0 - start.0 + end.1 - start.1 < size
            && let Some((run, &bucket)) = runs.next()
        {
            cursors[bucket] = [run.negatives.start - start.1, run.positives.start - start.0];
            end = (run.positives.end, run.negatives.end);
        }
        let (mine, rest) = positives.split_at_mut(end.0 - start.0);
        let (mine_negative, rest_negative) = negatives.split_at_mut(end.1 - start.1);
        (positives, negatives) = (rest, rest_negative);
        shares.push(Share {
            cursors,
            positives: mine,
            negatives: mine_negative,
        });
    }
    shares
}

impl<K: Ord + Copy + Send> Gathered<K> {
    /// Sorts both classes: buckets are in order already.
    pub(crate) fn sort(&mut self, workers: Workers<'_>) -> Result<()> {
        let (mut positives, mut negatives) = (&mut self.positives[..], &mut self.negatives[..]);
        let mut tasks = Vec::new();
        for run in &self.runs {
            let (mine, rest) = positives.split_at_mut(run.positives.len());
            let (mine_negative, rest_negative) = negatives.split_at_mut(run.negatives.len());
            (positives, negatives) = (rest, rest_negative);
            tasks.extend([mine, mine_negative]);
        }
        workers.run(tasks, |keys: &mut [K], _| {
            keys.sort_unstable();
            Some(())
        })?;
        Ok(())
    }
}

/// Position of the first score that is infinite or NaN.
pub(crate) fn first_not_finite<S: Score>(scores: &[S]) -> Option<usize> {
    let block = scores
        .chunks(BLOCK)
        .position(|block| !block.iter().fold(true, |all, s| all & s.is_finite()))?;
    scores[block * BLOCK..]
        .iter()
        .position(|s| !s.is_finite())
        .map(|i| i + block * BLOCK)
}

pub(crate) fn not_finite<S: Score>(position: usize, score: S) -> Error {
    Error::Parameter {
        argument: "scores",
        expected: "finite",
        got: format!("{} at index {position}", score.wide()),
    }
}

fn pieces(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    range
        .clone()
        .step_by(size)
        .map(move |start| start..(start + size).min(range.end))
}
