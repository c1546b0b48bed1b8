//! What a worker refines with.

use std::ops::Range;

use super::run::Search;
use super::score::Scorer;
use crate::filter::f32::Tiled;
use crate::filter::form::widen_into;
use crate::matrix::Format;
use crate::refine::ExactQuery;
use crate::select::{Candidates, Score, Stage};

/// What a worker needs for exact values of a block of queries.
#[derive(Debug)]
pub(super) struct Bench<'a, 's, S, F: Format> {
    search: &'s Search<'a, S, F>,
    queries: Vec<ExactQuery>,
    ready: Vec<bool>,
    first: usize,
    widened: Vec<f64>,
    gathered: Vec<F::Stored>,
    pairs: Vec<Pair>,
    sorted: Vec<Pair>,
}

/// A pair that waits for its key: a row, a query of the block, a place in its buffer.
type Pair = (u64, u32, u32);

impl<'a, 's, S: Tiled, F: Format> Bench<'a, 's, S, F> {
    pub(super) fn new(search: &'s Search<'a, S, F>) -> Self {
        Self {
            search,
            queries: Vec::new(),
            ready: Vec::new(),
            first: 0,
            widened: vec![0.0; search.query.features()],
            gathered: Vec::new(),
            pairs: Vec::new(),
            sorted: Vec::new(),
        }
    }

    /// Refines candidates of a block's queries about in the order of the reference's rows, so that memory is read in
    /// order and a row that several queries want is read once.
    pub(super) fn refine(&mut self, all: &mut [Candidates], stage: Stage) {
        /// Pairs looked ahead.
        const AHEAD: usize = 4;
        let (mut pairs, mut sorted) = (std::mem::take(&mut self.pairs), std::mem::take(&mut self.sorted));
        pairs.clear();
        #[expect(clippy::cast_possible_truncation, reason = "blocks and buffers have far fewer rows")]
        for (query, candidates) in all.iter_mut().enumerate() {
            let scorer = self.scorer(query);
            candidates.next_unknown(stage, &scorer, &mut |at, row| {
                pairs.push((row, query as u32, at as u32));
            });
        }
        by_row(&pairs, self.search.reference.len(), &mut sorted);
        for (i, &(row, query, at)) in sorted.iter().enumerate() {
            let query = query as usize;
            let mut scorer = self.scorer(query);
            if let Some(&(next, ..)) = sorted.get(i + AHEAD).filter(|next| next.0 != sorted[i + AHEAD - 1].0) {
                scorer.prefetch(next);
            }
            all[query].set_key(at as usize, scorer.key(row));
        }
        (self.pairs, self.sorted) = (pairs, sorted);
    }

    /// Turns to the `len` queries from `first` on.
    pub(super) fn restart(&mut self, first: usize, len: usize) {
        self.first = first;
        self.ready.clear();
        self.ready.resize(len, false);
        if self.queries.len() < len {
            self.queries.resize(len, ExactQuery::default());
        }
    }

    /// The queries `queries` of the block, made ready.
    pub(super) fn prepared(&mut self, queries: Range<usize>) -> &[ExactQuery] {
        queries.clone().for_each(|query| self.prepare(query));
        &self.queries[queries]
    }

    #[inline]
    fn prepare(&mut self, query: usize) {
        let search = self.search;
        if !self.ready[query] {
            widen_into(search.query, self.first + query, &mut self.widened);
            search
                .exact
                .prepare_query_into(search.simd, &self.widened, &mut self.queries[query]);
            self.ready[query] = true;
        }
    }

    /// Exact values of query `query` of the block.
    #[inline]
    pub(super) fn scorer(&mut self, query: usize) -> Scorer<'_, S, F> {
        self.prepare(query);
        let search = self.search;
        Scorer {
            simd: search.simd,
            exact: &search.exact,
            query: &self.queries[query],
            view: search.view,
            sign: search.sign,
            gathered: &mut self.gathered,
        }
    }
}

/// Writes `pairs` to `sorted`, in the order of runs of rows: a few thousand of them.
fn by_row(pairs: &[Pair], rows: usize, sorted: &mut Vec<Pair>) {
    /// Counting them costs less than refining a few pairs.
    const RUNS: u64 = 1 << 12;
    let shift = (rows as u64 / RUNS).checked_ilog2().map_or(0, |log| log + 1);
    #[expect(clippy::cast_possible_truncation, reason = "at most as many as there are runs")]
    let run = |pair: &Pair| (pair.0 >> shift) as usize;
    sorted.clear();
    sorted.extend_from_slice(pairs);
    if pairs.len() < 64 {
        sorted.sort_unstable();
        return;
    }
    let mut at = vec![0_usize; (rows >> shift) + 2];
    pairs.iter().for_each(|pair| at[run(pair) + 1] += 1);
    for i in 1..at.len() {
        at[i] += at[i - 1];
    }
    for pair in pairs {
        let at = &mut at[run(pair)];
        sorted[*at] = *pair;
        *at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_put_in_the_order_of_runs_of_rows() {
        let mut random = crate::random::Random(1);
        for (n, rows) in [
            (0, 1),
            (3, 9),
            (63, 1000),
            (500, 1),
            (500, 4096),
            (5000, 100_000),
            (5000, 1 << 40),
        ] {
            let pairs: Vec<Pair> = (0..n).map(|i| (random.next() % rows, i, n - i)).collect();
            let mut sorted = Vec::new();
            by_row(&pairs, usize::try_from(rows).expect("64 bits"), &mut sorted);
            let run = rows.div_ceil(1 << 11);
            assert!(sorted.windows(2).all(|w| w[0].0 < w[1].0 + run), "about in order");
            let (mut all, mut same) = (pairs.clone(), sorted.clone());
            all.sort_unstable();
            same.sort_unstable();
            assert_eq!(all, same, "none is lost");
        }
    }
}
