//! The relevant references of a query in their order, and how many others come before each.

use crate::refine::Exact;
use crate::retrieval::{Ranking, Scores};
use crate::select::Score;

/// Most entries of a [`Sieve`]'s table; a power of two.
const MOST_BUCKETS: usize = 4096;
const FEWEST_BUCKETS: usize = 64;
/// Table entries for each relevant reference, so that few of the others fall into an entry with one.
const BUCKETS_PER_RUNG: usize = 32;

/// A relevant reference.
#[derive(Debug, Clone, Copy)]
struct Rung {
    /// Orders returned values, smaller is nearer; NaN comes last.
    rank: f64,
    row: u64,
    /// Keys below have a smaller rank than any rung from here on.
    low: f64,
    /// Keys above have a larger rank than any rung up to here.
    high: f64,
}

/// The relevant references of one query, nearest first, and counts of the others between them.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    rungs: Vec<Rung>,
    /// Rungs whose rank is a number.
    numbers: usize,
    /// `counts[i]` others lie before rung `i` and not before the one before it. Two more: beyond the last, and undecided.
    counts: Vec<u64>,
}

/// Whether (rank, row) `a` comes before `b`: ascending, NaN last, then by row.
fn before(a: (f64, u64), b: (f64, u64)) -> bool {
    match (a.0.is_nan(), b.0.is_nan()) {
        (false, false) => a.0 < b.0 || (a.0 == b.0 && a.1 < b.1),
        (true, true) => a.1 < b.1,
        (left_is_nan, _) => !left_is_nan,
    }
}

impl Ladder {
    /// Bytes that a ladder with `rungs` rungs takes.
    pub(super) fn bytes(rungs: usize) -> usize {
        rungs * (size_of::<Rung>() + size_of::<u64>()) + size_of::<Self>() + 2 * size_of::<u64>()
    }

    /// Orders the references `rows` by their exact values.
    pub(super) fn build(
        &mut self,
        exact: &Exact,
        sign: f64,
        wide: bool,
        scorer: &mut impl Score,
        rows: impl Iterator<Item = u64>,
    ) {
        self.rungs.clear();
        self.rungs.extend(rows.map(|row| {
            let key = scorer.key(row);
            let rank = scorer.rank(key);
            let (low, high) = if rank.is_nan() {
                (f64::INFINITY, f64::INFINITY)
            } else {
                neighborhood(exact, sign, wide, scorer, key, rank)
            };
            Rung { rank, row, low, high }
        }));
        self.rungs.sort_unstable_by(|a, b| {
            let (a, b) = ((a.rank, a.row), (b.rank, b.row));
            if before(a, b) {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            }
        });
        self.numbers = self.rungs.partition_point(|rung| !rung.rank.is_nan());
        let numbers = &mut self.rungs[..self.numbers];
        let mut high = f64::NEG_INFINITY;
        for rung in numbers.iter_mut() {
            high = high.max(rung.high);
            rung.high = high;
        }
        let mut low = f64::INFINITY;
        for rung in numbers.iter_mut().rev() {
            low = low.min(rung.low);
            rung.low = low;
        }
        self.counts.clear();
        self.counts.resize(self.rungs.len() + 2, 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rungs.is_empty()
    }

    /// Counts a reference whose value is known.
    #[inline]
    pub(super) fn count(&mut self, rank: f64, row: u64) {
        let at = self
            .rungs
            .partition_point(|rung| before((rung.rank, rung.row), (rank, row)));
        self.counts[at] += 1;
    }

    /// Counts a reference whose key, a number, is between `lower` and `upper`, if that says enough.
    #[inline]
    pub(super) fn count_between(&mut self, lower: f64, upper: f64) -> bool {
        let numbers = &self.rungs[..self.numbers];
        let at = numbers.partition_point(|rung| rung.high < lower);
        // The same number of rungs must lie before `upper`: the next one's neighbourhood begins beyond it.
        let decided = numbers.get(at).is_none_or(|rung| rung.low > upper);
        if decided {
            self.counts[at] += 1;
        }
        decided
    }

    /// Adds the metrics of the query, for which `retrieved` references are ranked.
    pub(super) fn score(&self, retrieved: u64, scores: &mut Scores, hits: &mut Vec<u64>) {
        hits.clear();
        let mut rank = 0;
        for &others in &self.counts[..self.rungs.len()] {
            rank += others + 1;
            hits.push(rank);
        }
        let relevant = self.rungs.len() as u64;
        scores.push(&Ranking {
            hits,
            retrieved,
            relevant,
        });
    }
}

/// Keys (a, b) around `key` such that those below a have smaller ranks and those above b larger ones.
fn neighborhood(exact: &Exact, sign: f64, wide: bool, scorer: &impl Score, key: f64, rank: f64) -> (f64, f64) {
    // A few units in the last place of the output: wide enough for the usual powers, and cheaper than the exact edge.
    let margin = key.abs() * 2.0_f64.powi(if wide { -49 } else { -20 });
    let (low, high) = (key - margin, key + margin);
    if scorer.rank(low) < rank && rank < scorer.rank(high) {
        return (low, high);
    }
    let interval = exact.interval(sign * rank);
    (interval.low, interval.high)
}

/// A table from estimates to places on a ladder.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    table: Vec<u16>,
    start: f32,
    step: f32,
}

/// Estimates that are looked up together.
pub(super) const TOGETHER: usize = 128;

impl Sieve {
    /// The table for `ladder`; `reach` turns a range of keys into one of estimates, as
    /// [`Dense::reach`](crate::filter::f32::dense::Dense::reach) does. With `unknown`, −∞ is undecided.
    pub(super) fn build(&mut self, ladder: &Ladder, unknown: bool, reach: impl Fn(f64, f64) -> (f32, f32)) {
        let rungs = &ladder.rungs[..ladder.numbers];
        let buckets = (rungs.len() * BUCKETS_PER_RUNG)
            .next_power_of_two()
            .clamp(FEWEST_BUCKETS, MOST_BUCKETS);
        let undecided = u16::try_from(ladder.rungs.len() + 1).unwrap_or(u16::MAX);
        self.table.clear();
        self.table.resize(buckets, 0);
        let ends = match (rungs.first(), rungs.last()) {
            // More rungs than the table has numbers for: all is undecided.
            _ if undecided == u16::MAX => None,
            (Some(first), Some(last)) => Some((reach(first.low, first.high).0, reach(last.low, last.high).1)),
            _ => Some((0.0, 0.0)),
        };
        let Some((first, last)) = ends.filter(|(first, last)| first.is_finite() && last.is_finite()) else {
            (self.start, self.step) = (0.0, 0.0);
            self.table.fill(undecided);
            return;
        };
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let steps = (buckets - 3) as f32;
        // One bucket before the first rung, one after the last.
        self.step = (steps / (last - first)).clamp(0.0, 1e30);
        self.start = first - 1.0 / self.step.max(1e-30);
        let mut from = 0;
        for (i, rung) in (0_u16..).zip(rungs) {
            let (below, above) = reach(rung.low, rung.high);
            let (low, high) = ((self.bucket(below) as usize).max(from), self.bucket(above) as usize + 1);
            self.table[from..low].fill(i);
            if high > low {
                self.table[low..high].fill(undecided);
            }
            from = high.max(from);
        }
        let beyond = u16::try_from(rungs.len()).unwrap_or(u16::MAX);
        self.table[from..].fill(beyond);
        if unknown {
            self.table[0] = undecided;
        }
    }

    /// Rounding keeps the order, so estimates in a later bucket are larger.
    #[inline(always)]
    fn bucket(&self, estimate: f32) -> u32 {
        /// Numbers from here on, up to twice as many, have their whole part in the low bits.
        const WHOLE: f32 = (1_u32 << 23) as f32;
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let most = (self.table.len() - 1) as f32;
        let place = ((estimate - self.start) * self.step).max(0.0).min(most);
        (place + WHOLE).to_bits() & ((1 << 23) - 1)
    }

    /// Counts the references with these estimates, no more than [`TOGETHER`], where the table knows their places, and
    /// writes the positions of the rest; returns how many those are.
    #[inline(always)]
    pub(super) fn sift(&self, estimates: &[f32], ladder: &mut Ladder, undecided: &mut [u8; TOGETHER]) -> usize {
        let mut buckets = [0_u32; TOGETHER];
        for (bucket, &estimate) in buckets.iter_mut().zip(estimates) {
            *bucket = self.bucket(estimate);
        }
        let unknown = ladder.counts.len() - 1;
        let mut left = 0;
        for (position, &bucket) in (0_u8..).zip(&buckets[..estimates.len()]) {
            let slot = usize::from(self.table[bucket as usize]).min(unknown);
            ladder.counts[slot] += 1;
            undecided[left] = position;
            left += usize::from(slot == unknown);
        }
        left
    }

    /// Takes back what [`Sieve::sift`] counted for one estimate, if it did.
    pub(super) fn retract(&self, estimate: f32, ladder: &mut Ladder) {
        let unknown = ladder.counts.len() - 1;
        let slot = usize::from(self.table[self.bucket(estimate) as usize]).min(unknown);
        ladder.counts[slot] -= 1;
    }
}
