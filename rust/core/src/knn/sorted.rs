//! All values of a query, computed and sorted: for `k` near the number of references.

use super::bench::Bench;
use super::check::first_refused;
use super::run::Search;
use super::task::{Output, OutputRows};
use crate::error::Result;
use crate::filter::f32::Tiled;
use crate::matrix::{Format, contiguous};
use crate::parallel::{Watch, for_each};
use crate::refine::panel::{Panel, QUERIES, ReadyRows, WORTH};
use crate::select::radix::{NONE, Sorter, at_ordinal, ordinal};
use crate::select::{Ranked, Score};

/// Rows that meet the panels of queries before their values are handed out.
const ROWS: usize = 16;

/// Panels that share the rows: each row is widened once for all of them.
const PANELS: usize = 4;

/// Queries of a block.
pub(super) const BLOCK: usize = PANELS * QUERIES;

/// Computes and sorts every value and writes the first `k`.
pub(super) fn run<S: Tiled, F: Format>(
    search: &Search<'_, S, F>,
    watch: &Watch<'_>,
    output: &mut Output,
) -> Result<()> {
    let refused = first_refused(search.simd, search.reference, search.refuses_large);
    search.refuse("reference", refused, 0)?;
    let blocks = search.blocks();
    let firsts = blocks.iter().scan(0, |first, len| {
        *first += len;
        Some((*first - len, *len))
    });
    let items: Vec<_> = firsts.zip(output.blocks(&blocks)).collect();
    let short = !F::DTYPE.returns_f64() && u32::try_from(search.reference.len()).is_ok();
    for_each(
        search.plan.threads,
        items,
        watch,
        || (Bench::new(search), Scratch::<F>::default()),
        |(bench, scratch), ((first, len), mut output)| {
            bench.restart(first, len);
            for start in (0..len).step_by(BLOCK) {
                let queries = start..(start + BLOCK).min(len);
                if short && queries.len() >= WORTH {
                    by_panel(search, bench, scratch, first, queries, &mut output);
                } else if short {
                    queries.for_each(|query| by_keys(search, bench, scratch, first, query, &mut output));
                } else {
                    queries.for_each(|query| by_ranks(search, bench, scratch, first, query, &mut output));
                }
                if search.progress.stopped() {
                    return;
                }
            }
        },
    )
}

#[derive(Debug)]
struct Scratch<F: Format> {
    panels: [Panel; PANELS],
    rows: ReadyRows,
    gathered: Vec<F::Stored>,
    keys: Vec<Vec<u32>>,
    sorter: Sorter,
    ranked: Vec<Ranked>,
}

impl<F: Format> Default for Scratch<F> {
    fn default() -> Self {
        Self {
            panels: [(); PANELS].map(|()| Panel::default()),
            rows: ReadyRows::default(),
            gathered: Vec::new(),
            keys: vec![Vec::new(); BLOCK],
            sorter: Sorter::default(),
            ranked: Vec::new(),
        }
    }
}

/// The ordinal of a rank, if it is one.
#[inline(always)]
fn key_of(rank: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a value that is already rounded to float32"
    )]
    let key = ordinal(rank as f32 + 0.0);
    if rank.is_nan() { NONE } else { key }
}

/// Values of float32, of several queries at once.
fn by_panel<S: Tiled, F: Format>(
    search: &Search<'_, S, F>,
    bench: &mut Bench<'_, '_, S, F>,
    scratch: &mut Scratch<F>,
    first: usize,
    queries: std::ops::Range<usize>,
    output: &mut OutputRows<'_>,
) {
    let Scratch {
        panels, rows, gathered, ..
    } = scratch;
    let prepared = bench.prepared(queries.clone()).chunks(QUERIES);
    for (panel, queries) in panels.iter_mut().zip(prepared) {
        search.exact.panel_into(queries, panel);
    }
    let n = search.reference.len();
    let keys = &mut scratch.keys[..queries.len()];
    keys.iter_mut().for_each(|keys| keys.resize(n, NONE));
    let mut values = [[0.0; QUERIES]; ROWS];
    for start in (0..n).step_by(ROWS) {
        if start % (64 * ROWS) == 0 {
            if search.progress.stopped() {
                return;
            }
            search.progress.add((queries.len() * (n - start).min(64 * ROWS)) as u64);
        }
        let end = (start + ROWS).min(n);
        rows.clear();
        for row in start..end {
            rows.push::<S, F>(search.simd, &search.exact, contiguous(&search.view, row, gathered));
        }
        for (panel, keys) in panels.iter().zip(keys.chunks_mut(QUERIES)) {
            search.exact.values(search.simd, panel, rows, &mut values);
            let mut tile = [[0; QUERIES]; ROWS];
            search.simd.vectorize(
                #[inline(always)]
                || {
                    for (keys, values) in tile.iter_mut().zip(&values) {
                        for (key, &value) in keys.iter_mut().zip(values) {
                            *key = key_of(search.sign * value);
                        }
                    }
                },
            );
            for (query, keys) in keys.iter_mut().enumerate() {
                for (key, row) in keys[start..end].iter_mut().zip(&tile) {
                    *key = row[query];
                }
            }
        }
    }
    for (place, query) in queries.enumerate() {
        if let Some(own) = own_place(search, first + query) {
            scratch.keys[place][own] = NONE;
        }
        scratch.sorter.sort(&scratch.keys[place]);
        write(search, &scratch.sorter, first, query, output);
    }
}

/// Values of float32, of one query.
fn by_keys<S: Tiled, F: Format>(
    search: &Search<'_, S, F>,
    bench: &mut Bench<'_, '_, S, F>,
    scratch: &mut Scratch<F>,
    first: usize,
    query: usize,
    output: &mut OutputRows<'_>,
) {
    let mut scorer = bench.scorer(query);
    let keys = &mut scratch.keys[0];
    keys.clear();
    keys.extend((0..search.reference.len() as u64).map(|row| {
        let key = scorer.key(row);
        key_of(scorer.rank(key))
    }));
    if let Some(own) = own_place(search, first + query) {
        keys[own] = NONE;
    }
    search.progress.add(search.reference.len() as u64);
    scratch.sorter.sort(keys);
    write(search, &scratch.sorter, first, query, output);
}

fn own_place<S: Tiled, F: Format>(search: &Search<'_, S, F>, query: usize) -> Option<usize> {
    search.own(query).and_then(|row| usize::try_from(row).ok())
}

fn write<S: Tiled, F: Format>(
    search: &Search<'_, S, F>,
    sorter: &Sorter,
    first: usize,
    query: usize,
    output: &mut OutputRows<'_>,
) {
    let sorted = sorter.sorted();
    let found = sorted.len().min(search.k);
    #[expect(clippy::cast_possible_truncation, reason = "1 or -1")]
    let sign = search.sign as f32;
    output.write_singles(
        query,
        sorted
            .take(found)
            .map(|(key, row)| (sign * at_ordinal(key) + 0.0, i64::from(row))),
    );
    if found < search.k {
        let rows = sorter.sorted().map(|(_, row)| u64::from(row));
        output.fill(query, rows, search.own(first + query));
    }
}

/// Values of any kind, sorted as they are.
fn by_ranks<S: Tiled, F: Format>(
    search: &Search<'_, S, F>,
    bench: &mut Bench<'_, '_, S, F>,
    scratch: &mut Scratch<F>,
    first: usize,
    query: usize,
    output: &mut OutputRows<'_>,
) {
    let own = search.own(first + query);
    let mut scorer = bench.scorer(query);
    let ranked = &mut scratch.ranked;
    ranked.clear();
    search.progress.add(search.reference.len() as u64);
    let rows = (0..search.reference.len() as u64).filter(|&row| own != Some(row));
    ranked.extend(rows.filter_map(|row| {
        let key = scorer.key(row);
        let rank = scorer.rank(key);
        (!rank.is_nan()).then_some(Ranked { rank, row })
    }));
    ranked.sort_unstable();
    ranked.truncate(search.k);
    output.write(query, ranked, search.sign, own);
}
