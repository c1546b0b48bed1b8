//! All values of a query, computed and sorted: for `k` near the number of references.

use super::bench::Bench;
use super::check::first_refused;
use super::run::Search;
use super::task::{Output, OutputRows};
use crate::error::Result;
use crate::filter::f32::Tiled;
use crate::matrix::Format;
use crate::parallel::{Watch, for_each};
use crate::select::radix::{packed, sort, unpacked};
use crate::select::{Ranked, Score};

/// Queries that pass over a slice of references together.
const TOGETHER: usize = 4;

/// Bytes of references that stay in the first-level cache while they do.
const SLICE_BYTES: usize = 16 << 10;

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
        || (Bench::new(search), Scratch::default()),
        |(bench, scratch), ((first, len), mut output)| {
            bench.restart(first, len);
            for start in (0..len).step_by(TOGETHER) {
                let queries = start..(start + TOGETHER).min(len);
                if search.progress.stopped() {
                    return;
                }
                search.progress.add((queries.len() * search.reference.len()) as u64);
                if short {
                    by_words(search, bench, scratch, first, queries, &mut output);
                } else {
                    queries.for_each(|query| by_ranks(search, bench, scratch, first, query, &mut output));
                }
            }
        },
    )
}

#[derive(Debug, Default)]
struct Scratch {
    words: [Vec<u64>; TOGETHER],
    sorted: Vec<u64>,
    ranked: Vec<Ranked>,
}

/// Values of float32, sorted as words.
fn by_words<S: Tiled, F: Format>(
    search: &Search<'_, S, F>,
    bench: &mut Bench<'_, '_, S, F>,
    scratch: &mut Scratch,
    first: usize,
    queries: std::ops::Range<usize>,
    output: &mut OutputRows<'_>,
) {
    scratch.words.iter_mut().for_each(Vec::clear);
    let n = search.reference.len();
    let row_bytes = search.reference.features() * size_of::<F::Stored>();
    let slice = (SLICE_BYTES / row_bytes.max(1)).clamp(4, 1024);
    for start in (0..n).step_by(slice) {
        let end = (start + slice).min(n);
        for (query, words) in queries.clone().zip(&mut scratch.words) {
            let own = search.own(first + query);
            let mut scorer = bench.scorer(query);
            for row in start as u64..end as u64 {
                let key = scorer.key(row);
                let rank = scorer.rank(key);
                if rank.is_nan() || own == Some(row) {
                    continue;
                }
                #[expect(clippy::cast_possible_truncation, reason = "a float32 value and a row below 2^32")]
                words.push(packed(rank as f32, row as u32));
            }
        }
    }
    for (query, words) in queries.zip(&mut scratch.words) {
        if search.k < words.len() / 2 {
            words.select_nth_unstable(search.k);
            words.truncate(search.k);
            words.sort_unstable();
        } else {
            sort(words, &mut scratch.sorted);
        }
        let found = words.len().min(search.k);
        for (slot, &word) in words[..found].iter().enumerate() {
            let (rank, row) = unpacked(word);
            output.set(query, slot, search.sign * f64::from(rank) + 0.0, u64::from(row));
        }
        if found < search.k {
            let rows = words.iter().map(|&word| u64::from(unpacked(word).1));
            output.fill(query, rows, search.own(first + query));
        }
    }
}

/// Values of any kind, sorted as they are.
fn by_ranks<S: Tiled, F: Format>(
    search: &Search<'_, S, F>,
    bench: &mut Bench<'_, '_, S, F>,
    scratch: &mut Scratch,
    first: usize,
    query: usize,
    output: &mut OutputRows<'_>,
) {
    let own = search.own(first + query);
    let mut scorer = bench.scorer(query);
    let ranked = &mut scratch.ranked;
    ranked.clear();
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
