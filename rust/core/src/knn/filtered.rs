//! The search with a filter.
//!
//! ```text
//! for each chunk of references:               packed, about 32 MB
//!     for each block of queries:              a job; packed, stays in the second-level cache
//!         for each panel of the chunk:        stays in the first-level cache
//!             tiles → hits → candidates       thresholds fall
//! refine and rank what is left
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use super::bench::Bench;
use super::check::Refused;
use super::plan::{most_room, room};
use super::run::{Refusals, Search, keep};
use super::task::{Output, Task, share};
use super::warm::first_uppers;
use crate::error::Result;
use crate::filter::f32::Tiled;
use crate::filter::{Filter, Hit};
use crate::matrix::{Format, Rows};
use crate::parallel::{Watch, for_each};
use crate::select::{Candidate, Candidates, Score};

/// Panels that one worker packs at a time.
const PACKED_TOGETHER: usize = 16;

/// Searches with `filter` and writes the result.
pub(super) fn run<S: Tiled, F: Format, L: Filter>(
    search: &Search<'_, S, F>,
    watch: &Watch<'_>,
    filter: &L,
    output: &mut Output,
) -> Result<()> {
    let plan = &search.plan;
    let n = search.reference.len();
    let rows = plan.chunk.next_multiple_of(filter.panel_rows()).min(n);
    let mut chunk = filter.chunk(rows);
    let mut tasks: Vec<Task<L::Block>> = search.new_tasks();
    let shared = shared_thresholds(search);
    for start in (0..n).step_by(rows) {
        let len = rows.min(n - start);
        let refused = pack(
            filter,
            plan.threads,
            watch,
            &mut chunk,
            search.reference.slice(start, start + len),
        )?;
        search.refuse("reference", refused, start)?;
        scan(search, watch, filter, &chunk, (start, len), &mut tasks, &shared)?;
    }
    drop(chunk);
    search.finish(watch, tasks, output)
}

/// Searches all references in `chunk`, where they are packed, and writes the result.
pub(super) fn run_prepared<S: Tiled, F: Format, L: Filter>(
    search: &Search<'_, S, F>,
    watch: &Watch<'_>,
    filter: &L,
    chunk: &L::Chunk,
    output: &mut Output,
) -> Result<()> {
    let mut tasks: Vec<Task<L::Block>> = search.new_tasks();
    let shared = shared_thresholds(search);
    let all = (0, search.reference.len());
    scan(search, watch, filter, chunk, all, &mut tasks, &shared)?;
    search.finish(watch, tasks, output)
}

/// Thresholds of all parts of a query, as bits: no part need look farther than another found.
fn shared_thresholds<S: Tiled, F: Format>(search: &Search<'_, S, F>) -> Vec<AtomicU64> {
    let shared = if search.plan.parts > 1 { search.query.len() } else { 0 };
    (0..shared).map(|_| AtomicU64::new(f64::INFINITY.to_bits())).collect()
}

fn scan<S: Tiled, F: Format, L: Filter>(
    search: &Search<'_, S, F>,
    watch: &Watch<'_>,
    filter: &L,
    chunk: &L::Chunk,
    (start, len): (usize, usize),
    tasks: &mut [Task<L::Block>],
    shared: &[AtomicU64],
) -> Result<()> {
    let items: Vec<_> = tasks.iter_mut().collect();
    for_each(
        search.plan.threads,
        items,
        watch,
        || Worker::new(search, filter),
        |worker, task| worker.scan(task, chunk, start, len, shared),
    )
}

/// Packs `reference` into a chunk; returns what a call may refuse of it.
pub(super) fn pack<L: Filter>(
    filter: &L,
    threads: usize,
    watch: &Watch<'_>,
    chunk: &mut L::Chunk,
    reference: Rows<'_>,
) -> Result<Refused> {
    let len = reference.len();
    let refusals = Refusals::default();
    let rows_together = PACKED_TOGETHER * filter.panel_rows();
    let pieces: Vec<_> = filter
        .pieces(chunk, len, PACKED_TOGETHER)
        .into_iter()
        .enumerate()
        .collect();
    let threads = if len * reference.features() < 1 << 18 {
        1
    } else {
        threads
    };
    for_each(
        threads,
        pieces,
        watch,
        || (),
        |(), (i, mut piece)| {
            let from = i * rows_together;
            let to = (from + rows_together).min(len);
            let refused = filter.pack(&mut piece, reference.slice(from, to));
            if refused.nan.is_some() || refused.large.is_some() {
                refusals.note(refused, from);
            }
        },
    )?;
    Ok(refusals.found())
}

/// What a thread needs to scan blocks.
struct Worker<'a, 's, 'f, S, F: Format, L: Filter> {
    search: &'s Search<'a, S, F>,
    filter: &'f L,
    bench: Bench<'a, 's, S, F>,
    /// For queries that are packed anew each time.
    packed: Option<L::Block>,
    candidates: Vec<Candidates>,
    hits: Vec<Hit>,
}

impl<'a, 's, 'f, S: Tiled, F: Format, L: Filter> Worker<'a, 's, 'f, S, F, L> {
    fn new(search: &'s Search<'a, S, F>, filter: &'f L) -> Self {
        Self {
            search,
            filter,
            bench: Bench::new(search),
            packed: None,
            candidates: Vec::new(),
            hits: Vec::new(),
        }
    }

    /// Takes the block of `task` over its part of a chunk.
    fn scan(&mut self, task: &mut Task<L::Block>, chunk: &L::Chunk, start: usize, len: usize, shared: &[AtomicU64]) {
        let (search, filter) = (self.search, self.filter);
        self.bench.restart(task.first, task.len);
        let fresh = Candidates::new(search.k, room(search.k), most_room(search.k));
        self.candidates.resize(task.len.max(self.candidates.len()), fresh);
        let block = block_of(search, filter, &mut task.packed, &mut self.packed, task.first, task.len);
        let unit = filter.panel_rows();
        let rows = share(len, task.part, search.plan.parts, unit);
        let panels = rows.start / unit..rows.end.div_ceil(unit);
        let wanted = search.k + usize::from(search.exclude_self);
        let uppers = if start == 0 {
            first_uppers(filter, block, chunk, task.len, panels.clone(), search.plan.warm, wanted)
        } else {
            Vec::new()
        };
        for (query, (candidates, kept)) in self.candidates.iter_mut().zip(&task.kept).enumerate() {
            let mut threshold = kept.threshold;
            if let Some(shared) = shared.get(task.first + query) {
                threshold = threshold.min(f64::from_bits(shared.load(Ordering::Relaxed)));
            }
            if let Some(&upper) = uppers.get(query).filter(|upper| **upper < threshold) {
                let scorer = self.bench.scorer(query);
                threshold = threshold.min(scorer.widest(scorer.rank(upper)));
            }
            candidates.restart(&kept.list, threshold);
            filter.set_threshold(block, query, threshold);
        }
        for panel in panels {
            if search.progress.stopped() {
                return;
            }
            self.hits.clear();
            filter.scan(block, chunk, panel, &mut self.hits);
            for hit in &self.hits {
                let query = hit.query as usize;
                let row = (start + hit.row as usize) as u64;
                if search.own(task.first + query) == Some(row) {
                    continue;
                }
                let candidates = &mut self.candidates[query];
                if candidates.push(Candidate {
                    lower: hit.lower,
                    upper: hit.upper,
                    row,
                }) {
                    candidates.make_room(&mut self.bench.scorer(query));
                    filter.set_threshold(block, query, candidates.threshold());
                }
            }
        }
        for query in (0..task.len).filter(|&query| !filter.usable(block, query)) {
            let own = search.own(task.first + query);
            let mut scorer = self.bench.scorer(query);
            for row in rows
                .clone()
                .map(|row| (start + row) as u64)
                .filter(|&row| own != Some(row))
            {
                let candidate = Candidate::exact(scorer.key(row), row);
                if self.candidates[query].push(candidate) {
                    self.candidates[query].make_room(&mut scorer);
                }
            }
        }
        keep(
            search,
            &mut self.bench,
            &mut self.candidates[..task.len],
            &mut task.kept,
        );
        for (query, kept) in task.kept.iter().enumerate() {
            if let Some(shared) = shared.get(task.first + query) {
                // Bits of non-negative numbers are ordered as they are; of others, this only tightens less.
                let better = |old| (kept.threshold < f64::from_bits(old)).then(|| kept.threshold.to_bits());
                let _ = shared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, better);
            }
        }
        search.progress.add(task.len as u64 * rows.len() as u64);
    }
}

/// The packed queries of a block: those that the task keeps, or those of the worker, packed now.
fn block_of<'b, S: Tiled, F: Format, L: Filter>(
    search: &Search<'_, S, F>,
    filter: &L,
    kept: &'b mut Option<L::Block>,
    own: &'b mut Option<L::Block>,
    first: usize,
    len: usize,
) -> &'b mut L::Block {
    let rows = search.query.slice(first, first + len);
    if search.plan.keep_packed {
        return kept.get_or_insert_with(|| {
            let mut block = filter.block(len);
            filter.load(&mut block, rows);
            block
        });
    }
    let block = own.get_or_insert_with(|| filter.block(search.plan.block));
    filter.load(block, rows);
    block
}
