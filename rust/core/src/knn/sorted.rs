//! All values of a query, computed and sorted: for `k` near the number of references.

use super::check::first_refused;
use super::run::{Bench, Refusals, Search};
use super::task::Output;
use crate::error::Result;
use crate::filter::f32::Tiled;
use crate::matrix::Format;
use crate::parallel::{Watch, for_each};
use crate::select::{Ranked, Score};

/// Computes and sorts every value and writes the first `k`.
pub(super) fn run<S: Tiled, F: Format>(
    search: &Search<'_, S, F>,
    watch: &Watch<'_>,
    output: &mut Output,
) -> Result<()> {
    let refusals = Refusals::default();
    refusals.note(first_refused(search.simd, search.reference, search.refuses_large), 0);
    search.refuse("reference", refusals.found(), 0)?;
    let blocks = search.blocks();
    let firsts = blocks.iter().scan(0, |first, len| {
        *first += len;
        Some((*first - len, *len))
    });
    let items: Vec<_> = firsts.zip(output.blocks(&blocks)).collect();
    let n = search.reference.len() as u64;
    for_each(
        search.plan.threads,
        items,
        watch,
        || (Bench::new(search), Vec::new()),
        |(bench, ranked), ((first, len), mut output)| {
            bench.restart(first, len);
            for query in 0..len {
                let own = search.own(first + query);
                let mut scorer = bench.scorer(query);
                ranked.clear();
                ranked.extend((0..n).filter(|&row| own != Some(row)).filter_map(|row| {
                    let key = scorer.key(row);
                    let rank = scorer.rank(key);
                    (!rank.is_nan()).then_some(Ranked { rank, row })
                }));
                ranked.sort_unstable();
                ranked.truncate(search.k);
                output.write(query, ranked, search.sign, own);
                search.progress.add(n);
            }
        },
    )
}
