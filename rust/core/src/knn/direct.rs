//! The search without a filter: the exact value of every pair.
//!
//! For few queries, which read the references once at memory speed, for small work, and for distances that have no
//! filter.

use super::bench::Bench;
use super::check::first_refused;
use super::plan::room;
use super::run::{Refusals, Search, keep};
use super::task::{Output, Task, share};
use crate::error::Result;
use crate::filter::f32::Tiled;
use crate::matrix::Format;
use crate::parallel::{Watch, for_each};
use crate::select::{Candidate, Candidates, Score};

/// Bytes of references that stay in the first-level cache while the queries of a block pass.
const SLICE_BYTES: usize = 16 << 10;

/// Computes every value and writes the result.
pub(super) fn run<S: Tiled, F: Format>(
    search: &Search<'_, S, F>,
    watch: &Watch<'_>,
    output: &mut Output,
) -> Result<()> {
    let mut tasks: Vec<Task<()>> = search.new_tasks();
    let refusals = Refusals::default();
    for_each(
        search.plan.threads,
        tasks.iter_mut().collect(),
        watch,
        || (Bench::new(search), Vec::new()),
        |(bench, candidates), task| scan(search, bench, candidates, task, &refusals),
    )?;
    search.refuse("reference", refusals.found(), 0)?;
    search.finish(watch, tasks, output)
}

fn scan<S: Tiled, F: Format>(
    search: &Search<'_, S, F>,
    bench: &mut Bench<'_, '_, S, F>,
    candidates: &mut Vec<Candidates>,
    task: &mut Task<()>,
    refusals: &Refusals,
) {
    bench.restart(task.first, task.len);
    candidates.resize(
        task.len.max(candidates.len()),
        Candidates::new(search.k, room(search.k), room(search.k)),
    );
    for (candidates, kept) in candidates.iter_mut().zip(&task.kept) {
        candidates.restart(&kept.list, kept.threshold);
    }
    let rows = share(search.reference.len(), task.part, search.plan.parts, 1);
    let row_bytes = search.reference.features() * size_of::<F::Stored>();
    let slice = (SLICE_BYTES / row_bytes.max(1)).clamp(4, 1024);
    for start in rows.clone().step_by(slice) {
        if search.progress.stopped() {
            return;
        }
        let end = (start + slice).min(rows.end);
        if task.first == 0 {
            let refused = first_refused(search.simd, search.reference.slice(start, end), search.refuses_large);
            if refused.nan.is_some() || refused.large.is_some() {
                refusals.note(refused, start);
            }
        }
        for (query, candidates) in candidates[..task.len].iter_mut().enumerate() {
            let own = search.own(task.first + query);
            let mut scorer = bench.scorer(query);
            for row in (start as u64..end as u64).filter(|&row| own != Some(row)) {
                let key = scorer.key(row);
                if candidates.push(Candidate::exact(key, row)) {
                    candidates.make_room(&mut scorer);
                }
            }
        }
    }
    keep(search, bench, &mut candidates[..task.len], &mut task.kept);
    search.progress.add(task.len as u64 * rows.len() as u64);
}
