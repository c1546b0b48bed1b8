//! The references placed on the ladders of every query.

use std::sync::{Mutex, PoisonError};

use super::Counting;
use super::ladder::{Ladder, Sieve, TOGETHER};
use crate::error::Result;
use crate::filter::Filter;
use crate::filter::f32::Tiled;
use crate::filter::f32::dense::{Dense, Extremes};
use crate::filter::form::widen_into;
use crate::knn::Options;
use crate::knn::score::Scorer;
use crate::matrix::Format;
use crate::parallel::{Watch, for_each};
use crate::refine::ExactQuery;
use crate::retrieval::Scores;
use crate::select::Score;

/// Bytes of a packed chunk of references.
const CHUNK_BYTES: usize = 32 << 20;

/// Bytes of the ladders that stay between chunks.
const LADDER_BYTES: usize = 96 << 20;

/// Queries of a block: their tables share the second-level cache.
const BLOCK: usize = 48;

/// Panels that one worker packs at a time.
const PACKED_TOGETHER: usize = 16;

/// Bytes of references that stay in the first-level cache while the queries of a block pass.
const SLICE_BYTES: usize = 16 << 10;

/// Scores of blocks, by their first query.
pub(super) type Parts = Mutex<Vec<(usize, Scores)>>;

/// A block of queries with its ladders.
#[derive(Debug, Default)]
struct Task {
    first: usize,
    len: usize,
    ladders: Vec<Ladder>,
}

fn tasks(queries: usize, block: usize) -> Vec<Task> {
    (0..queries)
        .step_by(block)
        .map(|first| Task {
            first,
            len: block.min(queries - first),
            ladders: Vec::new(),
        })
        .collect()
}

/// Places every reference by its exact value.
pub(super) fn direct<S: Tiled, F: Format>(
    counting: &Counting<'_, S, F>,
    watch: &Watch<'_>,
    parts: &Parts,
) -> Result<()> {
    let block = counting.query.len().div_ceil(counting.threads).clamp(1, BLOCK);
    for_each(
        counting.threads,
        tasks(counting.query.len(), block),
        watch,
        || Bench::new(counting),
        |bench, mut task| {
            bench.start(&mut task);
            let rows = counting.reference.len();
            let row_bytes = counting.reference.features() * size_of::<F::Stored>();
            let slice = (SLICE_BYTES / row_bytes.max(1)).clamp(4, 1024);
            for start in (0..rows).step_by(slice) {
                if counting.progress.stopped() {
                    return;
                }
                let end = (start + slice).min(rows);
                for (query, ladder) in task
                    .ladders
                    .iter_mut()
                    .enumerate()
                    .filter(|(_, ladder)| !ladder.is_empty())
                {
                    bench.place(
                        &mut Place {
                            query,
                            first: task.first,
                            ladder,
                        },
                        start..end,
                    );
                }
                counting.progress.add((task.len * (end - start)) as u64);
            }
            finish(counting, &task, parts);
        },
    )
}

/// Places references by their estimates where these decide.
pub(super) fn filtered<S: Tiled, F: Format, L: Dense>(
    counting: &Counting<'_, S, F>,
    filter: &L,
    watch: &Watch<'_>,
    options: &Options<'_>,
    parts: &Parts,
) -> Result<()> {
    let n = counting.reference.len();
    let most = if options.chunk > 0 {
        options.chunk
    } else {
        (CHUNK_BYTES / filter.row_bytes()).max(256)
    };
    let rows = most.next_multiple_of(filter.panel_rows()).min(n);
    let mut chunk = filter.chunk(rows);
    let size = block_of(counting, options, filter.tile_rows());
    let mut left = tasks(counting.query.len(), size);
    let single = rows >= n;
    if single {
        pack(counting, watch, filter, &mut chunk, 0, n)?;
    }
    while !left.is_empty() {
        let mut turn: Vec<_> = if single {
            std::mem::take(&mut left)
        } else {
            next_turn(counting, &mut left)
        };
        for start in (0..n).step_by(rows) {
            let len = rows.min(n - start);
            if !single {
                pack(counting, watch, filter, &mut chunk, start, len)?;
            }
            let packed = Packed {
                chunk: &chunk,
                extremes: filter.extremes(&chunk),
                start,
                len,
            };
            for_each(
                counting.threads,
                turn.iter_mut().collect(),
                watch,
                || (Bench::new(counting), filter.block(size), Scratch::default()),
                |(bench, block, scratch), task: &mut Task| {
                    bench.start(task);
                    if scan(bench, filter, block, scratch, task, &packed) && start + len == n {
                        finish(counting, task, parts);
                        task.ladders = Vec::new();
                    }
                },
            )?;
        }
    }
    Ok(())
}

fn block_of<S, F: Format>(counting: &Counting<'_, S, F>, options: &Options<'_>, tile: usize) -> usize {
    if options.batch > 0 {
        return options.batch;
    }
    let share = counting.query.len().div_ceil(counting.threads);
    share.next_multiple_of(tile).clamp(tile, BLOCK)
}

/// Takes as many tasks off the front of `left` as have ladders that fit together.
fn next_turn<S, F: Format>(counting: &Counting<'_, S, F>, left: &mut Vec<Task>) -> Vec<Task> {
    let mut bytes = 0;
    let fitting = left
        .iter()
        .take_while(|task| {
            bytes += (task.first..task.first + task.len)
                .map(|query| Ladder::bytes(counting.members.of(counting.classes.query[query]).len()))
                .sum::<usize>();
            bytes <= LADDER_BYTES
        })
        .count();
    left.drain(..fitting.max(1)).collect()
}

fn pack<S: Tiled, F: Format, L: Filter>(
    counting: &Counting<'_, S, F>,
    watch: &Watch<'_>,
    filter: &L,
    chunk: &mut L::Chunk,
    start: usize,
    len: usize,
) -> Result<()> {
    let together = PACKED_TOGETHER * filter.panel_rows();
    let pieces: Vec<_> = filter
        .pieces(chunk, len, PACKED_TOGETHER)
        .into_iter()
        .enumerate()
        .collect();
    for_each(
        counting.threads,
        pieces,
        watch,
        || (),
        |(), (i, mut piece)| {
            let from = start + i * together;
            let to = (from + together).min(start + len);
            filter.pack(&mut piece, counting.reference.slice(from, to));
        },
    )
}

/// A packed chunk and where it lies.
struct Packed<'c, C> {
    chunk: &'c C,
    extremes: Extremes,
    start: usize,
    len: usize,
}

/// Buffers of a worker.
#[derive(Debug, Default)]
struct Scratch {
    sieves: Vec<Sieve>,
    /// Estimates of a few panels, query by query.
    estimates: Vec<f32>,
}

/// Places the references of a chunk; false if it was told to stop.
fn scan<S: Tiled, F: Format, L: Dense>(
    bench: &mut Bench<'_, '_, S, F>,
    filter: &L,
    block: &mut L::Block,
    scratch: &mut Scratch,
    task: &mut Task,
    packed: &Packed<'_, L::Chunk>,
) -> bool {
    let counting = bench.counting;
    let width = filter.panel_rows();
    let group = (TOGETHER / width).max(1);
    filter.load(block, counting.query.slice(task.first, task.first + task.len));
    scratch
        .sieves
        .resize_with(task.len.max(scratch.sieves.len()), Sieve::default);
    scratch.estimates.resize(task.len * TOGETHER, 0.0);
    let live: Vec<usize> = (0..task.len)
        .filter(|&q| !task.ladders[q].is_empty() && filter.usable(block, q))
        .collect();
    for &query in &live {
        let reach = |low, high| filter.reach(block, query, &packed.extremes, low, high);
        scratch.sieves[query].build(&task.ladders[query], packed.extremes.unknown, reach);
    }
    let panels = packed.len.div_ceil(width);
    for from in (0..panels).step_by(group) {
        if counting.progress.stopped() {
            return false;
        }
        for panel in from..(from + group).min(panels) {
            let found = filter.estimates(block, packed.chunk, panel);
            let at = (panel - from) * width;
            for (query, row) in found.chunks_exact(width).enumerate() {
                scratch.estimates[query * TOGETHER + at..][..width].copy_from_slice(row);
            }
        }
        let first = from * width;
        let len = (group * width).min(packed.len - first);
        for &query in &live {
            let estimates = &scratch.estimates[query * TOGETHER..][..len];
            let ladder = &mut task.ladders[query];
            let mut undecided = [0; TOGETHER];
            let sieve = &scratch.sieves[query];
            let count = counting.simd.vectorize(
                #[inline(always)]
                || sieve.sift(estimates, ladder, &mut undecided),
            );
            if counting.exclude_self
                && let Some(own) = (task.first + query)
                    .checked_sub(packed.start + first)
                    .filter(|&own| own < len)
            {
                sieve.retract(estimates[own], ladder);
            }
            let class = counting.classes.query[task.first + query];
            for &position in &undecided[..count] {
                let position = usize::from(position);
                let row = packed.start + first + position;
                // The relevant ones are rungs; their own keys always leave them undecided. So may the query itself.
                if counting.classes.reference[row] == class {
                    continue;
                }
                let (lower, upper) = filter.between(block, query, packed.chunk, first + position, estimates[position]);
                if !ladder.count_between(lower, upper) {
                    bench.place(
                        &mut Place {
                            query,
                            first: task.first,
                            ladder,
                        },
                        row..row + 1,
                    );
                }
            }
        }
    }
    for query in (0..task.len).filter(|&query| !filter.usable(block, query)) {
        let ladder = &mut task.ladders[query];
        if !ladder.is_empty() {
            bench.place(
                &mut Place {
                    query,
                    first: task.first,
                    ladder,
                },
                packed.start..packed.start + packed.len,
            );
        }
    }
    counting.progress.add((task.len * packed.len) as u64);
    true
}

/// Turns the ladders of a block into metrics.
fn finish<S, F: Format>(counting: &Counting<'_, S, F>, task: &Task, parts: &Parts) {
    let mut scores = Scores::new(counting.metrics);
    let mut hits = Vec::new();
    for ladder in &task.ladders {
        ladder.score(counting.ranked(), &mut scores, &mut hits);
    }
    parts
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push((task.first, scores));
}

/// Where references go.
struct Place<'l> {
    /// Row within the block.
    query: usize,
    /// First query of the block.
    first: usize,
    ladder: &'l mut Ladder,
}

/// What a worker needs for exact values of a block of queries.
struct Bench<'a, 's, S, F: Format> {
    counting: &'s Counting<'a, S, F>,
    queries: Vec<ExactQuery>,
    first: usize,
    widened: Vec<f64>,
    gathered: Vec<F::Stored>,
}

impl<'a, 's, S: Tiled, F: Format> Bench<'a, 's, S, F> {
    fn new(counting: &'s Counting<'a, S, F>) -> Self {
        let widened = vec![0.0; counting.query.features()];
        Self {
            counting,
            queries: Vec::new(),
            first: usize::MAX,
            widened,
            gathered: Vec::new(),
        }
    }

    /// Makes the queries of `task` ready, and its ladders if it has none yet.
    fn start(&mut self, task: &mut Task) {
        let counting = self.counting;
        self.first = task.first;
        self.queries
            .resize_with(task.len.max(self.queries.len()), ExactQuery::default);
        for query in 0..task.len {
            widen_into(counting.query, task.first + query, &mut self.widened);
            counting
                .exact
                .prepare_query_into(counting.simd, &self.widened, &mut self.queries[query]);
        }
        if !task.ladders.is_empty() {
            return;
        }
        for query in 0..task.len {
            let mut ladder = Ladder::default();
            let relevant = counting.relevant(task.first + query);
            let wide = F::DTYPE.returns_f64();
            ladder.build(&counting.exact, counting.sign, wide, &mut self.scorer(query), relevant);
            task.ladders.push(ladder);
        }
    }

    fn scorer(&mut self, query: usize) -> Scorer<'_, S, F> {
        Scorer {
            simd: self.counting.simd,
            exact: &self.counting.exact,
            query: &self.queries[query],
            view: self.counting.view,
            sign: self.counting.sign,
            gathered: &mut self.gathered,
        }
    }

    /// Places those of `rows` that are not relevant themselves by their exact values.
    fn place(&mut self, place: &mut Place<'_>, rows: std::ops::Range<usize>) {
        let classes = self.counting.classes;
        let own = classes.query[place.first + place.query];
        let mut scorer = self.scorer(place.query);
        for row in rows.filter(|&row| classes.reference[row] != own) {
            let key = scorer.key(row as u64);
            let rank = scorer.rank(key);
            place.ladder.count(rank, row as u64);
        }
    }
}
