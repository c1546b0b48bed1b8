//! Scores counted and gathered by bucket: which part of the scores can hold the answer, and only that part sorted.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::metric::Point;
use super::order::{Order, Score};
use super::workers::Workers;
use crate::error::{Error, Result};

/// Buckets of a sweep, a power of two. Their counters (32 KiB a thread) stay near the first-level cache.
pub(crate) const BUCKETS: usize = 4096;
/// One for the negatives and one for the positives of each bucket.
const SLOTS: usize = 2 * BUCKETS;
/// Gathering less than one in so many scores is done by parts and joined.
const FEW: usize = 16;
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
    /// Whether the keys of different buckets are mixed until sorted.
    mixed: bool,
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

    /// Calls `each(slot, position)` for every score of a range, in order; false when told to stop.
    ///
    /// A slot is twice the bucket, plus one for a positive.
    #[inline(always)]
    fn visit(&self, range: Range<usize>, alive: &dyn Fn() -> bool, mut each: impl FnMut(usize, usize)) -> bool {
        #[expect(clippy::cast_possible_truncation, reason = "slots are few")]
        let flip = if self.order == Order::Descending { SLOTS - 2 } else { 0 } as u16;
        let mut slots = [0u16; BLOCK];
        for step in pieces(range, STEP) {
            if !alive() {
                return false;
            }
            for block in pieces(step, BLOCK) {
                let (scores, labels) = (&self.scores[block.clone()], &self.labels[block.clone()]);
                for ((slot, &score), &label) in slots.iter_mut().zip(scores).zip(labels) {
                    *slot = (score.place(self.line) << 1) ^ flip | u16::from(label != 0);
                }
                for (&slot, position) in slots.iter().zip(block) {
                    each(usize::from(slot) & (SLOTS - 1), position);
                }
            }
        }
        true
    }

    /// Counts of every bucket, or what is wrong with the scores.
    pub(crate) fn count(&self, workers: Workers<'_>) -> Result<Vec<Point>> {
        let bad = AtomicUsize::new(usize::MAX);
        let parts = workers.run(self.chunks(workers), |range: Range<usize>, alive| {
            let mut slots = [0u32; SLOTS];
            // By steps, so that the check leaves the scores in the cache.
            for step in pieces(range, BLOCK * 64) {
                if let Some(position) = first_not_finite(&self.scores[step.clone()]) {
                    bad.fetch_min(step.start + position, Ordering::Relaxed);
                    return Some(Vec::new());
                }
                if !self.visit(step, alive, |slot, _| slots[slot] += 1) {
                    return None;
                }
            }
            Some(slots.to_vec())
        })?;
        let bad = bad.into_inner();
        if bad != usize::MAX {
            return Err(not_finite(bad, self.scores[bad]));
        }
        let mut total = vec![Point::default(); BUCKETS];
        for part in parts {
            for (sum, slots) in total.iter_mut().zip(part.chunks_exact(2)) {
                sum.fp += u64::from(slots[0]);
                sum.tp += u64::from(slots[1]);
            }
        }
        Ok(total)
    }

    /// Several tasks for each worker, none with more scores than a 32-bit counter counts.
    fn chunks(&self, workers: Workers<'_>) -> Vec<Range<usize>> {
        let chunk = self.scores.len().div_ceil(workers.threads * 4).clamp(STEP, 1 << 30);
        pieces(0..self.scores.len(), chunk).collect()
    }

    /// The keys of the buckets for which `keep` holds, given everyone's counts.
    pub(crate) fn gather(
        &self,
        counts: &[Point],
        mut keep: impl FnMut(&Run) -> bool,
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
        if (positives + negatives) * FEW < self.scores.len() {
            self.collect(&buckets, runs, workers)
        } else {
            self.scatter(&buckets, runs, workers)
        }
    }

    /// [`Self::gather`] for a small part of the scores: each worker reads a part of them.
    fn collect(&self, buckets: &[usize], runs: Vec<Run>, workers: Workers<'_>) -> Result<Gathered<S::Key>> {
        let mut kept = [false; BUCKETS];
        for &bucket in buckets {
            kept[bucket] = true;
        }
        let parts = workers.run(self.chunks(workers), |range: Range<usize>, alive| {
            let mut keys = [Vec::new(), Vec::new()];
            let done = self.visit(range, alive, |slot, position| {
                if kept[slot / 2] {
                    keys[slot % 2].push(self.scores[position].key(self.order));
                }
            });
            done.then_some(keys)
        })?;
        let class = |slot: usize| parts.iter().flat_map(|keys| &keys[slot]).copied().collect();
        Ok(Gathered {
            positives: class(1),
            negatives: class(0),
            runs,
            mixed: true,
        })
    }

    /// [`Self::gather`] without a second copy: each worker reads all scores and writes the buckets that are its own.
    fn scatter(&self, buckets: &[usize], runs: Vec<Run>, workers: Workers<'_>) -> Result<Gathered<S::Key>> {
        let filler = self.scores[0].key(self.order);
        let (positives, negatives) = runs.last().map_or((0, 0), |run| (run.positives.end, run.negatives.end));
        let mut gathered = Gathered {
            positives: vec![filler; positives],
            negatives: vec![filler; negatives],
            runs,
            mixed: false,
        };
        let tasks = shares(&mut gathered, buckets, workers.threads);
        workers.run(tasks, |share, alive| {
            let Share {
                mut cursors,
                positives,
                negatives,
            } = share;
            let done = self.visit(0..self.scores.len(), alive, |slot, position| {
                let cursor = &mut cursors[slot];
                if *cursor != NOT_MINE {
                    let keys = if slot % 2 == 1 {
                        &mut *positives
                    } else {
                        &mut *negatives
                    };
                    keys[*cursor] = self.scores[position].key(self.order);
                    *cursor += 1;
                }
            });
            done.then_some(())
        })?;
        Ok(gathered)
    }
}

/// A worker's part of [`Gathered`], and where in it the next key of a slot goes.
struct Share<'a, K> {
    cursors: Vec<usize>,
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
        let mut cursors = vec![NOT_MINE; SLOTS];
        while end.0 - start.0 + end.1 - start.1 < size
            && let Some((run, &bucket)) = runs.next()
        {
            cursors[2 * bucket] = run.negatives.start - start.1;
            cursors[2 * bucket + 1] = run.positives.start - start.0;
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
    /// Sorts both classes.
    pub(crate) fn sort(&mut self, workers: Workers<'_>) -> Result<()> {
        let (mut positives, mut negatives) = (&mut self.positives[..], &mut self.negatives[..]);
        let mut tasks = Vec::new();
        for run in self.runs.iter().filter(|_| !self.mixed) {
            let (mine, rest) = positives.split_at_mut(run.positives.len());
            let (mine_negative, rest_negative) = negatives.split_at_mut(run.negatives.len());
            (positives, negatives) = (rest, rest_negative);
            tasks.extend([mine, mine_negative]);
        }
        tasks.extend([positives, negatives]);
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
