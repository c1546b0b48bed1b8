//! Every value, not only the nearest: the matrix of two sides, and row i against row i.
//!
//! Query rows are shared out among threads, in panels; a few reference rows at a time are made ready (widened, divided
//! by their norm) and meet all panels of a job while they lie in the first cache.

use ndarray::ArrayView2;

use super::run::threads;
use super::{Options, Poll};
use crate::distance::Distance;
use crate::error::Result;
use crate::isa::{Level, Simd, float_env};
use crate::matrix::{Format, Rows, Values, contiguous};
use crate::parallel::{Progress, Watch, for_each};
use crate::refine::panel::{self, Panel, ReadyRows, WORTH};
use crate::refine::{Exact, ExactQuery};
use crate::{dispatch, with_format};

/// Query rows of one job, two panels; what is made once per reference row costs one part in this many.
const QUERIES: usize = 32;
/// Reference rows that meet the panels before their values are written: a cache line of float32 for each query.
const ROWS: usize = 16;
/// Elements of one job of rows against rows.
const PAIRWISE_JOB: usize = 1 << 16;
/// Fewer element pairs than this are not worth a thread.
const SERIAL: usize = 1 << 18;

/// The options that matter here.
#[derive(Clone, Copy)]
struct How<'a> {
    level: Level,
    threads: usize,
    poll: Option<Poll<'a>>,
}

impl<'a> How<'a> {
    fn new(options: &Options<'a>) -> Result<Self> {
        Ok(Self {
            level: options.level.map_or_else(Level::chosen, Ok)?,
            threads: options.threads,
            poll: options.poll,
        })
    }

    /// Threads for so many element pairs.
    fn threads(&self, elements: usize) -> usize {
        if elements < SERIAL { 1 } else { threads(self.threads) }
    }
}

/// Values of the output type.
trait Output: Copy + Default + Send {
    fn of(value: f64) -> Self;
}

impl Output for f64 {
    fn of(value: f64) -> Self {
        value
    }
}

impl Output for f32 {
    #[expect(clippy::cast_possible_truncation, reason = "the value is already rounded to float32")]
    fn of(value: f64) -> Self {
        value as Self
    }
}

/// Every value between the rows of two sides that fit each other.
pub(super) fn matrix(
    query: Rows<'_>,
    reference: Rows<'_>,
    distance: &Distance,
    options: &Options<'_>,
) -> Result<Values> {
    let how = How::new(options)?;
    let exact = Exact::new(distance, query.dtype());
    Ok(with_format!(reference, F, view => if query.dtype().returns_f64() {
        Values::F64(matrix_of::<F, f64>(how, &exact, query, &view)?)
    } else {
        Values::F32(matrix_of::<F, f32>(how, &exact, query, &view)?)
    }))
}

/// The value of row i of `x` against row i of `y`; as many rows on either side.
pub(super) fn pairwise(x: Rows<'_>, y: Rows<'_>, distance: &Distance, options: &Options<'_>) -> Result<Values> {
    let how = How::new(options)?;
    let exact = Exact::new(distance, x.dtype());
    Ok(with_format!(y, F, view => if x.dtype().returns_f64() {
        Values::F64(pairwise_of::<F, f64>(how, &exact, x, &view)?)
    } else {
        Values::F32(pairwise_of::<F, f32>(how, &exact, x, &view)?)
    }))
}

fn matrix_of<F: Format, O: Output>(
    how: How<'_>,
    exact: &Exact,
    query: Rows<'_>,
    reference: &ArrayView2<'_, F::Stored>,
) -> Result<Vec<O>> {
    let references = reference.nrows();
    let mut values = vec![O::default(); query.len() * references];
    if values.is_empty() {
        return Ok(values);
    }
    let threads = how.threads(values.len().saturating_mul(query.features()));
    let progress = Progress::new(values.len() as u64);
    // Few queries are shared out finely, or some threads would have none.
    let queries = query.len().div_ceil(2 * threads).clamp(1, QUERIES);
    let jobs = values.chunks_mut(queries * references).enumerate().collect();
    share_out(
        threads,
        jobs,
        &Watch::new(how.poll, &progress),
        |scratch: &mut Scratch<F>, (i, values)| {
            let start = i * queries;
            let end = start + values.len() / references;
            dispatch!(how.level, s => {
                block_of_queries(s, exact, query.slice(start, end), reference, scratch, (&progress, &mut *values));
            });
            progress.add(values.len() as u64);
        },
    )?;
    Ok(values)
}

/// What a thread keeps between jobs.
struct Scratch<F: Format> {
    widened: Vec<f64>,
    queries: Vec<ExactQuery>,
    panels: Vec<Panel>,
    row: Vec<F::Stored>,
    rows: ReadyRows,
}

impl<F: Format> Default for Scratch<F> {
    fn default() -> Self {
        Self {
            widened: Vec::new(),
            queries: Vec::new(),
            panels: Vec::new(),
            row: Vec::new(),
            rows: ReadyRows::default(),
        }
    }
}

fn block_of_queries<S: Simd, F: Format, O: Output>(
    s: S,
    exact: &Exact,
    query: Rows<'_>,
    reference: &ArrayView2<'_, F::Stored>,
    scratch: &mut Scratch<F>,
    (progress, values): (&Progress, &mut [O]),
) {
    scratch.queries.resize_with(query.len(), ExactQuery::default);
    for (i, prepared) in scratch.queries.iter_mut().enumerate() {
        query.widen_into(i, &mut scratch.widened);
        exact.prepare_query_into(s, &scratch.widened, prepared);
    }
    let references = reference.nrows();
    if query.len() < WORTH {
        for (query, values) in scratch.queries.iter().zip(values.chunks_mut(references)) {
            for (j, value) in values.iter_mut().enumerate() {
                if progress.stopped_at(j) {
                    return;
                }
                let row = contiguous(reference, j, &mut scratch.row);
                *value = O::of(exact.value(exact.key::<S, F>(s, query, row, None)));
            }
        }
        return;
    }
    let panels = query.len().div_ceil(panel::QUERIES);
    scratch.panels.resize_with(panels, Panel::default);
    for (panel, queries) in scratch.panels.iter_mut().zip(scratch.queries.chunks(panel::QUERIES)) {
        exact.panel_into(queries, panel);
    }
    let mut tile = [[0.0; panel::QUERIES]; ROWS];
    for start in (0..references).step_by(ROWS) {
        if progress.stopped_at(start) {
            return;
        }
        let end = references.min(start + ROWS);
        scratch.rows.clear();
        for j in start..end {
            scratch
                .rows
                .push::<S, F>(s, exact, contiguous(reference, j, &mut scratch.row));
        }
        for (panel, values) in scratch
            .panels
            .iter()
            .zip(values.chunks_mut(panel::QUERIES * references))
        {
            exact.values(s, panel, &scratch.rows, &mut tile);
            for (i, values) in values.chunks_mut(references).enumerate() {
                for (value, row) in values[start..end].iter_mut().zip(&tile) {
                    *value = O::of(row[i]);
                }
            }
        }
    }
}

fn pairwise_of<F: Format, O: Output>(
    how: How<'_>,
    exact: &Exact,
    x: Rows<'_>,
    y: &ArrayView2<'_, F::Stored>,
) -> Result<Vec<O>> {
    let mut values = vec![O::default(); x.len()];
    let rows = (PAIRWISE_JOB / x.features().max(1)).max(1);
    let jobs = values.chunks_mut(rows).enumerate().collect();
    let threads = how.threads(x.len().saturating_mul(x.features()));
    let progress = Progress::new(x.len().saturating_mul(x.features()) as u64);
    share_out(
        threads,
        jobs,
        &Watch::new(how.poll, &progress),
        |scratch: &mut Scratch<F>, (job, values)| {
            let mut query = scratch.queries.pop().unwrap_or_default();
            dispatch!(how.level, s => {
                for (value, i) in values.iter_mut().zip(job * rows..) {
                    x.widen_into(i, &mut scratch.widened);
                    exact.prepare_query_into(s, &scratch.widened, &mut query);
                    let row = contiguous(y, i, &mut scratch.row);
                    *value = O::of(exact.value(exact.key::<_, F>(s, &query, row, None)));
                }
            });
            scratch.queries.push(query);
            progress.add((values.len() * x.features()) as u64);
        },
    )?;
    Ok(values)
}

/// Does the jobs, in the environment that exact sums need.
fn share_out<T: Send, W: Default>(
    threads: usize,
    jobs: Vec<T>,
    watch: &Watch<'_>,
    work: impl Fn(&mut W, T) + Sync,
) -> Result<()> {
    let _env = float_env();
    for_each(threads, jobs, watch, W::default, work)
}

#[cfg(test)]
mod tests;
