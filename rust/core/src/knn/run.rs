//! One search on one instruction set and element format.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ndarray::ArrayView2;

use super::bench::Bench;
use super::check::{Refused, first_refused, refuse};
use super::index::Prepared;
use super::plan::{Method, Plan, Work, most_room, room};
use super::probe::{is_worth_trying, pays};
use super::task::{Kept, Output, Task, tasks};
use super::{NanPolicy, Neighbors, Options, Stats, direct, filtered, sorted};
use crate::distance::Distance;
use crate::error::Result;
use crate::filter::Form;
use crate::filter::f32::Tiled;
use crate::filter::i8::{Basis, Chunk, Packs, Visit};
use crate::isa::Level;
use crate::matrix::{Format, Rows};
use crate::parallel::{Progress, Watch, for_each};
use crate::refine::Exact;
use crate::select::{Candidates, Stage};

/// Everything that stays the same during a search.
#[derive(Debug)]
pub(super) struct Search<'a, S, F: Format> {
    pub(super) simd: S,
    pub(super) exact: Exact,
    pub(super) query: Rows<'a>,
    pub(super) reference: Rows<'a>,
    pub(super) view: ArrayView2<'a, F::Stored>,
    pub(super) k: usize,
    pub(super) exclude_self: bool,
    pub(super) nan: NanPolicy,
    /// Whether finite rows can be too large for their squares.
    pub(super) refuses_large: bool,
    /// 1, or −1 where larger is nearer.
    pub(super) sign: f64,
    pub(super) plan: Plan,
    pub(super) progress: Arc<Progress>,
    /// Keys that were computed.
    pub(super) refined: AtomicU64,
}

/// The search, by the plan that fits.
pub(super) fn search<'a, S: Tiled, F: Format>(
    simd: S,
    (query, reference): (Rows<'a>, Rows<'a>),
    view: ArrayView2<'a, F::Stored>,
    k: usize,
    distance: &Distance,
    (options, prepared): (&Options<'_>, Option<&Prepared>),
) -> Result<Neighbors> {
    let exact = Exact::new(distance, reference.dtype());
    let work = Work::new(query.len(), reference, k, &exact, threads(options.threads));
    let plan = Plan::new(&work, options.method, options.batch, options.chunk);
    let progress = Arc::new(Progress::new(
        (query.len() as u64).saturating_mul(reference.len() as u64),
    ));
    let mut search: Search<'_, S, F> = Search {
        simd,
        exact,
        query,
        reference,
        view,
        k,
        exclude_self: options.exclude_self,
        nan: options.nan,
        refuses_large: distance.refuses_large(F::DTYPE),
        sign: if distance.is_inverted() { -1.0 } else { 1.0 },
        plan,
        progress: Arc::clone(&progress),
        refined: AtomicU64::new(0),
    };
    let watch = Watch::new(options.poll, &progress);
    search.refuse("query", first_refused(simd, query, search.refuses_large), 0)?;
    let mut output = Output::new(query.len(), k, F::DTYPE.returns_f64());
    if query.is_empty() {
        // Nothing to do, but what is wrong with the reference is still said.
        search.refuse("reference", first_refused(simd, reference, search.refuses_large), 0)?;
    } else if let Some(prepared) = prepared.filter(|_| k < reference.len() / 4) {
        search.plan = Plan::new(&work, Method::I8, options.batch, options.chunk);
        let by_int8 = ByInt8 {
            search: &search,
            watch: &watch,
            output: &mut output,
            work: None,
            packed: Some(&prepared.chunk),
        };
        simd.i8_filter(&prepared.form, Basis::Fit(prepared.fit), by_int8)?;
    } else if plan.sorted {
        sorted::run(&search, &watch, &mut output)?;
    } else if plan.method == Method::Direct {
        direct::run(&search, &watch, &mut output)?;
    } else {
        let form = Form::fit(distance, reference).expect("the plan knows that there is a form");
        let try_int8 = options.method == Method::Auto && S::LEVEL > Level::Portable && is_worth_trying(&work);
        let mut done = false;
        if try_int8 || plan.method == Method::I8 {
            search.plan = Plan::new(&work, Method::I8, options.batch, options.chunk);
            let work = try_int8.then_some(&work);
            let by_int8 = ByInt8 {
                search: &search,
                watch: &watch,
                output: &mut output,
                work,
                packed: None,
            };
            done = simd.i8_filter(&form, Basis::Rows(reference), by_int8)?;
        }
        if !done {
            search.plan = plan;
            filtered::run(&search, &watch, &simd.f32_filter(&form), &mut output)?;
        }
    }
    watch.finish()?;
    let refined = search.refined.into_inner();
    Ok(Neighbors {
        distances: output.distances,
        indices: output.indices,
        stats: Stats {
            refined,
            method: search.plan.method,
            level: S::LEVEL,
        },
    })
}

/// A search that waits for its 8-bit filter.
struct ByInt8<'s, 'a, S, F: Format> {
    search: &'s Search<'a, S, F>,
    watch: &'s Watch<'s>,
    output: &'s mut Output,
    /// If there is a choice, what to decide by.
    work: Option<&'s Work>,
    /// All references, if they are packed already.
    packed: Option<&'s Chunk>,
}

impl<S: Tiled, F: Format> Visit for ByInt8<'_, '_, S, F> {
    /// Whether the search was done.
    type Output = Result<bool>;

    fn visit<L: Packs>(self, filter: &L) -> Result<bool> {
        let search = self.search;
        if let Some(work) = self.work
            && !pays(filter, work, search.query, search.reference, search.exclude_self)
        {
            return Ok(false);
        }
        match self.packed {
            Some(chunk) => filtered::run_prepared(search, self.watch, filter, chunk, self.output)?,
            None => filtered::run(search, self.watch, filter, self.output)?,
        }
        Ok(true)
    }
}

/// As many as are asked for, or as there are processors.
pub(super) fn threads(asked: usize) -> usize {
    if asked > 0 {
        asked
    } else {
        std::thread::available_parallelism().map_or(1, usize::from)
    }
}

impl<S: Tiled, F: Format> Search<'_, S, F> {
    /// An error for what was found in rows that begin at row `start`, if the call does not take it.
    pub(super) fn refuse(&self, argument: &'static str, refused: Refused, start: usize) -> Result<()> {
        refuse(argument, refused, start, self.nan)
    }

    /// The query's own row, if it is no neighbour of itself.
    pub(super) fn own(&self, query: usize) -> Option<u64> {
        self.exclude_self.then_some(query as u64)
    }

    /// Lengths of the blocks of queries.
    pub(super) fn blocks(&self) -> Vec<usize> {
        self.plan.blocks(self.query.len())
    }

    pub(super) fn new_tasks<B>(&self) -> Vec<Task<B>> {
        tasks(&self.blocks(), self.plan.parts)
    }

    /// How many candidates of a query stay between chunks.
    pub(super) fn most_kept(&self) -> usize {
        /// Beyond two for each neighbour.
        const SPARE_BYTES: usize = 64 << 20;
        let spare = SPARE_BYTES / (24 * self.query.len().max(1));
        2 * self.k + spare.min(most_room(self.k) / 2)
    }

    /// Ranks what the tasks have kept and writes it.
    pub(super) fn finish<B: Send>(
        &self,
        watch: &Watch<'_>,
        mut tasks: Vec<Task<B>>,
        output: &mut Output,
    ) -> Result<()> {
        let outputs = output.blocks(&self.blocks());
        let items: Vec<_> = tasks.chunks_mut(self.plan.parts).zip(outputs).collect();
        for_each(
            self.plan.threads,
            items,
            watch,
            || Bench::new(self),
            |bench, (parts, mut output)| {
                let (first, len) = (parts[0].first, parts[0].len);
                bench.restart(first, len);
                let fresh = Candidates::new(self.k, room(self.k), most_room(self.k));
                let mut all = vec![fresh; len];
                for part in parts {
                    for (candidates, kept) in all.iter_mut().zip(&mut part.kept) {
                        candidates.join(&std::mem::take(&mut kept.list), kept.threshold);
                    }
                }
                bench.refine(&mut all, Stage::Nearest);
                bench.refine(&mut all, Stage::Rest);
                for (query, candidates) in all.iter_mut().enumerate() {
                    let nearest = candidates.take(&bench.scorer(query));
                    output.write(query, &nearest, self.sign, self.own(first + query));
                    self.refined.fetch_add(candidates.refined(), Ordering::Relaxed);
                }
            },
        )
    }
}

/// Stores the candidates of a block, no more of each than may stay.
pub(super) fn keep<S: Tiled, F: Format>(
    search: &Search<'_, S, F>,
    bench: &mut Bench<'_, '_, S, F>,
    candidates: &mut [Candidates],
    kept: &mut [Kept],
) {
    let most = search.most_kept();
    let mut refined = 0;
    for (query, (candidates, kept)) in candidates.iter_mut().zip(kept).enumerate() {
        let mut scorer = bench.scorer(query);
        if search.plan.settle {
            candidates.settle(&mut scorer);
        } else if candidates.list().len() > most {
            candidates.shrink_to(most, &mut scorer);
        }
        refined += candidates.refined();
        kept.from(candidates);
    }
    search.refined.fetch_add(refined, Ordering::Relaxed);
}

/// The first refusal among several workers' findings.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Refused>);

impl Refusals {
    /// Notes what was found in rows that begin at row `start`.
    pub(super) fn note(&self, refused: Refused, start: usize) {
        let mut all = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let first = |a: Option<usize>, b: Option<usize>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        all.nan = first(all.nan, refused.nan.map(|row| start + row));
        all.large = first(all.large, refused.large.map(|row| start + row));
    }

    pub(super) fn found(&self) -> Refused {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
