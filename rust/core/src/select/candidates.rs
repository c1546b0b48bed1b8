//! Pairs of one query that may be among its `k` nearest.
//!
//! A candidate is known by bounds on its key until it is refined. The buffer holds more than `k` of them and, when
//! full, does the cheapest thing that makes room:
//!
//! 1. the k-th smallest *upper* bound is a threshold, since k pairs are no farther; what lies above it goes;
//! 2. the k smallest estimates are refined, which tightens their upper bounds, and 1 is repeated;
//! 3. the buffer grows, up to a limit: pairs that bounds cannot tell apart are cheaper to hold than to refine, for
//!    most of them fall when the threshold does;
//! 4. everything is refined, and the k first by (value, index) stay.
//!
//! Thresholds are inclusive and widened to every key that rounds to the same returned value: a tie with a smaller
//! index must not be lost. With the float32 filter step 1 nearly always suffices, so almost nothing is refined
//! before the end; there the k smallest estimates are refined, and then what their threshold leaves.

use std::cmp::Ordering;

use super::Score;

/// Candidates looked ahead when refining.
const AHEAD: usize = 4;

/// A pair by its bounds; they are equal once the key is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// What the key is at least.
    pub lower: f64,
    /// What the key is at most.
    pub upper: f64,
    /// Row of the reference.
    pub row: u64,
}

impl Candidate {
    /// A candidate whose key is known.
    #[must_use]
    pub fn exact(key: f64, row: u64) -> Self {
        Self {
            lower: key,
            upper: key,
            row,
        }
    }

    /// Half way between the bounds, times two; a lower bound alone favours those whose bounds are wide.
    fn estimate(&self) -> f64 {
        self.lower + self.upper
    }

    #[expect(clippy::float_cmp, reason = "equal bounds are how a known key is marked")]
    fn is_exact(&self) -> bool {
        self.lower == self.upper
    }
}

/// A value in the order of the result: by rank, then by row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Returned value, negated where larger is nearer.
    pub rank: f64,
    /// Row of the reference.
    pub row: u64,
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        // Ranks are no NaN and −0 was added to +0, so the total order is the numbers' own.
        self.rank.total_cmp(&other.rank).then(self.row.cmp(&other.row))
    }
}

/// The two steps in which the end of a search refines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The `k` smallest estimates, which give the last threshold.
    Nearest,
    /// Everything that is not above it.
    Rest,
}

/// The candidates of one query.
#[derive(Debug, Clone)]
pub struct Candidates {
    k: usize,
    /// Room at first.
    room: usize,
    /// Room at most.
    most: usize,
    /// Room now.
    limit: usize,
    /// Whether bounds alone did not make room, and values will be needed again.
    loose: bool,
    list: Vec<Candidate>,
    threshold: f64,
    refined: u64,
}

impl Candidates {
    /// An empty buffer for `k` neighbours that shrinks when `room` candidates are in it, or grows to `most` where
    /// shrinking costs too much.
    #[must_use]
    pub fn new(k: usize, room: usize, most: usize) -> Self {
        assert!(room > k && most >= room, "a buffer has room for more than k candidates");
        Self {
            k,
            room,
            most,
            limit: room,
            loose: false,
            list: Vec::new(),
            threshold: f64::INFINITY,
            refined: 0,
        }
    }

    /// Pairs whose key is above this are not among the nearest.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// How many keys were computed.
    #[must_use]
    pub fn refined(&self) -> u64 {
        self.refined
    }

    /// What is in the buffer, in no order.
    #[must_use]
    pub fn list(&self) -> &[Candidate] {
        &self.list
    }

    /// Starts over with what another buffer of the same `k` held.
    pub fn restart(&mut self, list: &[Candidate], threshold: f64) {
        self.list.clear();
        self.list.extend_from_slice(list);
        self.threshold = threshold;
        self.refined = 0;
        self.limit = self.room.max((2 * list.len()).min(self.most));
    }

    /// Adds what another buffer for the same query held.
    pub fn join(&mut self, list: &[Candidate], threshold: f64) {
        self.list.extend_from_slice(list);
        self.threshold = self.threshold.min(threshold);
    }

    /// Adds a candidate unless it lies above the threshold. Returns whether the buffer is full; then
    /// [`Candidates::make_room`] must follow.
    #[inline]
    #[must_use]
    pub fn push(&mut self, candidate: Candidate) -> bool {
        // NaN lies above every threshold: it never comes before a number.
        if candidate.lower.is_nan() || candidate.lower > self.threshold {
            return false;
        }
        self.list.push(candidate);
        self.list.len() >= self.limit
    }

    /// Makes room in a full buffer for a quarter of it. The threshold may fall.
    #[inline(never)]
    pub fn make_room(&mut self, score: &mut impl Score) {
        let k = self.k;
        let target = |limit: usize| limit - (limit - k) / 4;
        let now = target(self.limit);
        if !self.loose {
            self.drop_by_upper(score);
            // Bounds so tight that little more than the nearest is left are as good as values.
            if self.list.len() <= now && self.list.len() <= 2 * self.k {
                return;
            }
        }
        self.loose = true;
        self.refine_nearest(score);
        self.drop_by_upper(score);
        if self.list.len() <= now {
            return;
        }
        let grown = (2 * self.list.len()).min(self.most);
        if self.list.len() <= target(grown) {
            self.limit = self.limit.max(grown);
            return;
        }
        self.refine_all(score);
        self.keep_nearest(score);
    }

    /// Leaves at most `target` candidates, which must be at least `k`.
    #[inline(never)]
    pub fn shrink_to(&mut self, target: usize, score: &mut impl Score) {
        self.drop_by_upper(score);
        if self.list.len() <= target {
            return;
        }
        if self.list.iter().any(|c| !c.is_exact()) {
            self.refine_nearest(score);
            self.drop_by_upper(score);
            if self.list.len() <= target {
                return;
            }
        }
        self.refine_all(score);
        self.keep_nearest(score);
    }

    /// Refines everything that can still win and leaves the first `k`.
    pub fn settle(&mut self, score: &mut impl Score) {
        self.drop_by_upper(score);
        self.refine_nearest(score);
        self.drop_by_upper(score);
        self.refine_all(score);
        self.keep_nearest(score);
    }

    fn drop_by_upper(&mut self, score: &impl Score) {
        if self.list.len() < self.k {
            return;
        }
        let upper = nth(self.list.iter().map(|c| c.upper), self.k - 1);
        if upper < f64::INFINITY {
            self.threshold = self.threshold.min(score.widest(score.rank(upper)));
            let threshold = self.threshold;
            self.list.retain(|c| c.lower <= threshold);
        }
    }

    fn refine_nearest(&mut self, score: &mut impl Score) {
        let nearest = self.bring_nearest();
        self.refine(nearest, score);
    }

    /// Brings the `k` smallest estimates to the front; returns how many there are.
    fn bring_nearest(&mut self) -> usize {
        if self.list.len() <= self.k {
            return self.list.len();
        }
        let last = nth(self.list.iter().map(Candidate::estimate), self.k - 1);
        // Without branches, which nothing could predict.
        let front = self.bring(0, |c| c.estimate().total_cmp(&last).is_lt());
        let front = self.bring(front, |c| c.estimate().total_cmp(&last).is_le());
        front.min(self.k)
    }

    /// Brings those from place `front` on that are `wanted` to the front; returns where the others begin.
    fn bring(&mut self, front: usize, wanted: impl Fn(&Candidate) -> bool) -> usize {
        let others = &mut self.list[front..];
        let mut found = 0;
        for at in 0..others.len() {
            let is_wanted = wanted(&others[at]);
            others.swap(found, at);
            found += usize::from(is_wanted);
        }
        front + found
    }

    fn refine_all(&mut self, score: &mut impl Score) {
        self.refine(self.list.len(), score);
    }

    /// Refines the first `n` candidates; those without a number go.
    fn refine(&mut self, n: usize, score: &mut impl Score) {
        let mut any_nan = false;
        for i in 0..n {
            if let Some(next) = self.list.get(i + AHEAD).filter(|c| !c.is_exact()) {
                score.prefetch(next.row);
            }
            let candidate = &mut self.list[i];
            if !candidate.is_exact() {
                let key = score.key(candidate.row);
                self.refined += 1;
                *candidate = Candidate::exact(key, candidate.row);
                any_nan |= key.is_nan();
            }
        }
        if any_nan {
            self.list.retain(|c| !c.lower.is_nan());
        }
    }

    /// Of candidates that are all exact, keeps the first `k`.
    fn keep_nearest(&mut self, score: &impl Score) {
        if self.list.len() < self.k {
            return;
        }
        let order = |a: &Candidate, b: &Candidate| ranked(score, a).cmp(&ranked(score, b));
        self.list.select_nth_unstable_by(self.k - 1, order);
        self.list.truncate(self.k);
        self.threshold = self
            .threshold
            .min(score.widest(score.rank(self.list[self.k - 1].lower)));
    }

    /// What is to be refined first, or, once that is done, all that is left to refine: `unknown` gets places in the
    /// buffer and rows.
    pub fn next_unknown(&mut self, stage: Stage, score: &impl Score, unknown: &mut impl FnMut(usize, u64)) {
        self.list.retain(|candidate| !candidate.lower.is_nan());
        self.drop_by_upper(score);
        let n = match stage {
            Stage::Nearest => self.bring_nearest(),
            Stage::Rest => self.list.len(),
        };
        for (i, candidate) in self.list[..n].iter().enumerate().filter(|(_, c)| !c.is_exact()) {
            unknown(i, candidate.row);
        }
    }

    /// The key of the candidate at place `at`, which may be NaN.
    pub fn set_key(&mut self, at: usize, key: f64) {
        self.refined += 1;
        self.list[at] = Candidate::exact(key, self.list[at].row);
    }

    /// Of candidates whose keys are all known, the first `k` by (value, index), fewer if fewer have a number. Empties
    /// the buffer.
    pub fn take(&mut self, score: &impl Score) -> Vec<Ranked> {
        let mut nearest: Vec<Ranked> = self.list.drain(..).map(|candidate| ranked(score, &candidate)).collect();
        nearest.retain(|found| !found.rank.is_nan());
        if nearest.len() > self.k {
            nearest.select_nth_unstable(self.k - 1);
            nearest.truncate(self.k);
        }
        nearest.sort_unstable();
        nearest
    }
}

/// The number at place `n`, from 0, of `numbers` in ascending order.
fn nth(numbers: impl Iterator<Item = f64>, n: usize) -> f64 {
    // Bits in the order of the numbers: whole numbers are selected several times faster than candidates are.
    let flip = |bits: i64| bits ^ (bits >> 63 & i64::MAX);
    let mut bits: Vec<i64> = numbers.map(|x| flip(x.to_bits().cast_signed())).collect();
    let (_, nth, _) = bits.select_nth_unstable(n);
    f64::from_bits(flip(*nth).cast_unsigned())
}

fn ranked(score: &impl Score, candidate: &Candidate) -> Ranked {
    Ranked {
        rank: score.rank(candidate.lower),
        row: candidate.row,
    }
}
