//! What is kept of a block of queries between chunks, and how it becomes the result.

use crate::isa::on_huge_pages;
use crate::matrix::Values;
use crate::select::{Candidate, Candidates, Ranked};

/// A block of queries against one part of the references.
#[derive(Debug)]
pub(super) struct Task<B> {
    /// First query.
    pub(super) first: usize,
    /// Number of queries.
    pub(super) len: usize,
    /// Which part of the references.
    pub(super) part: usize,
    /// The queries' candidates.
    pub(super) kept: Vec<Kept>,
    /// The packed queries, where they are kept.
    pub(super) packed: Option<B>,
}

/// The candidates of a query between chunks.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) list: Vec<Candidate>,
    pub(super) threshold: f64,
}

impl Kept {
    pub(super) fn from(&mut self, candidates: &Candidates) {
        self.list.clear();
        // Exactly as much as is needed: there is one of these for each query.
        self.list.reserve_exact(candidates.list().len());
        self.list.extend_from_slice(candidates.list());
        self.threshold = candidates.threshold();
    }
}

/// Tasks for blocks of the lengths `blocks`, each block `parts` times in a row.
pub(super) fn tasks<B>(blocks: &[usize], parts: usize) -> Vec<Task<B>> {
    let mut tasks = Vec::new();
    let mut first = 0;
    for &len in blocks {
        for part in 0..parts {
            let kept = vec![
                Kept {
                    list: Vec::new(),
                    threshold: f64::INFINITY
                };
                len
            ];
            tasks.push(Task {
                first,
                len,
                part,
                kept,
                packed: None,
            });
        }
        first += len;
    }
    tasks
}

/// The slice `part` of `parts` of `n` things, in whole `unit`s.
pub(super) fn share(n: usize, part: usize, parts: usize, unit: usize) -> std::ops::Range<usize> {
    let units = n.div_ceil(unit);
    let at = |part: usize| (units / parts * part + (units % parts).min(part)) * unit;
    at(part).min(n)..at(part + 1).min(n)
}

/// The result while it is written.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) distances: Values,
    pub(super) indices: Vec<i64>,
    k: usize,
}

/// The part of a result that belongs to some queries.
#[derive(Debug)]
pub(super) struct OutputRows<'a> {
    distances: ValuesMut<'a>,
    indices: &'a mut [i64],
    k: usize,
}

#[derive(Debug)]
enum ValuesMut<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
}

impl Output {
    pub(super) fn new(queries: usize, k: usize, to_f64: bool) -> Self {
        let distances = if to_f64 {
            Values::F64(on_huge_pages(vec![0.0; queries * k]))
        } else {
            Values::F32(on_huge_pages(vec![0.0; queries * k]))
        };
        Self {
            distances,
            indices: on_huge_pages(vec![0; queries * k]),
            k,
        }
    }

    /// The result cut into blocks of the lengths `blocks`.
    pub(super) fn blocks(&mut self, blocks: &[usize]) -> Vec<OutputRows<'_>> {
        let k = self.k;
        let mut distances = match &mut self.distances {
            Values::F32(values) => ValuesMut::F32(values),
            Values::F64(values) => ValuesMut::F64(values),
        };
        let mut indices = &mut self.indices[..];
        let mut rows = Vec::new();
        for &len in blocks {
            let (head, rest) = distances.split_at(len * k);
            let (own, others) = indices.split_at_mut(len * k);
            rows.push(OutputRows {
                distances: head,
                indices: own,
                k,
            });
            (distances, indices) = (rest, others);
        }
        rows
    }
}

impl<'a> ValuesMut<'a> {
    fn split_at(self, mid: usize) -> (Self, Self) {
        match self {
            Self::F32(values) => {
                let (head, rest): (&'a mut [f32], _) = values.split_at_mut(mid);
                (Self::F32(head), Self::F32(rest))
            }
            Self::F64(values) => {
                let (head, rest): (&'a mut [f64], _) = values.split_at_mut(mid);
                (Self::F64(head), Self::F64(rest))
            }
        }
    }
}

impl OutputRows<'_> {
    /// Writes the neighbours of query `query` of this run. Where they are fewer than `k`, the values of all other
    /// rows are NaN and follow by index; `own` is the row that is left out.
    pub(super) fn write(&mut self, query: usize, nearest: &[Ranked], sign: f64, own: Option<u64>) {
        for (slot, found) in nearest.iter().enumerate() {
            self.set(query, slot, sign * found.rank + 0.0, found.row);
        }
        if nearest.len() < self.k {
            self.fill(query, nearest.iter().map(|found| found.row), own);
        }
    }

    /// Follows the rows `written` by all others but `own`, whose values are NaN.
    pub(super) fn fill(&mut self, query: usize, written: impl ExactSizeIterator<Item = u64>, own: Option<u64>) {
        let slots = written.len()..self.k;
        let mut taken: Vec<u64> = written.chain(own).collect();
        taken.sort_unstable();
        let free = (0_u64..).filter(|row| taken.binary_search(row).is_err());
        for (slot, row) in slots.zip(free) {
            self.set(query, slot, f64::NAN, row);
        }
    }

    /// Writes the neighbours of query `query`, as far as they go; the output type must be float32.
    pub(super) fn write_singles(&mut self, query: usize, nearest: impl Iterator<Item = (f32, i64)>) {
        let slots = query * self.k..(query + 1) * self.k;
        let ValuesMut::F32(values) = &mut self.distances else {
            unreachable!("float32 values for a result of float64");
        };
        let places = values[slots.clone()].iter_mut().zip(&mut self.indices[slots]);
        for ((value, index), found) in places.zip(nearest) {
            (*value, *index) = found;
        }
    }

    /// Writes one neighbour.
    #[inline]
    pub(super) fn set(&mut self, query: usize, slot: usize, value: f64, row: u64) {
        let at = query * self.k + slot;
        match &mut self.distances {
            #[expect(clippy::cast_possible_truncation, reason = "the value is already rounded to float32")]
            ValuesMut::F32(values) => values[at] = value as f32,
            ValuesMut::F64(values) => values[at] = value,
        }
        self.indices[at] = row.cast_signed();
    }
}
