//! Every value, not only the nearest: the matrix of two sides, and row i against row i.
//!
//! Query rows are shared out among threads; a block of reference rows stays in the first cache while a few queries
//! pass over it. What a reference row needs once (its norm, a copy of adjacent elements) is made once per block.

use ndarray::ArrayView2;

use crate::distance::Distance;
use crate::error::Result;
use crate::isa::{Level, Simd, float_env};
use crate::matrix::{Format, Rows, Values, contiguous};
use crate::parallel::{Progress, Watch, for_each};
use crate::refine::{Exact, ExactQuery};
use crate::{dispatch, with_format};

/// Query rows of one job; what is made once per reference row costs one part in this many.
const QUERIES: usize = 32;
/// Bytes of reference rows that stay in the first cache.
const BLOCK_BYTES: usize = 16 * 1024;
/// Elements of one job of rows against rows.
const PAIRWISE_JOB: usize = 1 << 16;
/// Fewer element pairs than this are not worth a thread.
const SERIAL: usize = 1 << 18;

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
pub(super) fn matrix(query: Rows<'_>, reference: Rows<'_>, distance: &Distance) -> Result<Values> {
    let level = Level::chosen()?;
    let exact = Exact::new(distance, query.dtype());
    Ok(with_format!(reference, F, view => if query.dtype().returns_f64() {
        Values::F64(matrix_of::<F, f64>(level, &exact, query, &view)?)
    } else {
        Values::F32(matrix_of::<F, f32>(level, &exact, query, &view)?)
    }))
}

/// The value of row i of `x` against row i of `y`; as many rows on either side.
pub(super) fn pairwise(x: Rows<'_>, y: Rows<'_>, distance: &Distance) -> Result<Values> {
    let level = Level::chosen()?;
    let exact = Exact::new(distance, x.dtype());
    Ok(with_format!(y, F, view => if x.dtype().returns_f64() {
        Values::F64(pairwise_of::<F, f64>(level, &exact, x, &view)?)
    } else {
        Values::F32(pairwise_of::<F, f32>(level, &exact, x, &view)?)
    }))
}

fn matrix_of<F: Format, O: Output>(
    level: Level,
    exact: &Exact,
    query: Rows<'_>,
    reference: &ArrayView2<'_, F::Stored>,
) -> Result<Vec<O>> {
    let references = reference.nrows();
    let mut values = vec![O::default(); query.len() * references];
    if values.is_empty() {
        return Ok(values);
    }
    let threads = threads(values.len().saturating_mul(query.features()));
    // Few queries are shared out finely, or some threads would have none.
    let queries = query.len().div_ceil(2 * threads).clamp(1, QUERIES);
    let jobs = values.chunks_mut(queries * references).enumerate().collect();
    share_out(threads, jobs, |scratch: &mut Scratch<F>, (i, values)| {
        let start = i * queries;
        let end = start + values.len() / references;
        dispatch!(level, s => {
            block_of_queries(s, exact, query.slice(start, end), reference, scratch, values);
        });
    })?;
    Ok(values)
}

/// What a thread keeps between jobs.
struct Scratch<F: Format> {
    widened: Vec<f64>,
    queries: Vec<ExactQuery>,
    row: Vec<F::Stored>,
    rows: Vec<F::Stored>,
    scalars: Vec<Option<f64>>,
}

impl<F: Format> Default for Scratch<F> {
    fn default() -> Self {
        Self {
            widened: Vec::new(),
            queries: Vec::new(),
            row: Vec::new(),
            rows: Vec::new(),
            scalars: Vec::new(),
        }
    }
}

fn block_of_queries<S: Simd, F: Format, O: Output>(
    s: S,
    exact: &Exact,
    query: Rows<'_>,
    reference: &ArrayView2<'_, F::Stored>,
    scratch: &mut Scratch<F>,
    values: &mut [O],
) {
    scratch.queries.resize_with(query.len(), ExactQuery::default);
    for (i, prepared) in scratch.queries.iter_mut().enumerate() {
        query.widen_into(i, &mut scratch.widened);
        exact.prepare_query_into(s, &scratch.widened, prepared);
    }
    let (references, features) = reference.dim();
    let step = (BLOCK_BYTES / (features * size_of::<F::Stored>()).max(1)).clamp(1, references);
    for start in (0..references).step_by(step) {
        let end = references.min(start + step);
        scratch.rows.clear();
        scratch.scalars.clear();
        for j in start..end {
            let row = contiguous(reference, j, &mut scratch.row);
            scratch.rows.extend_from_slice(row);
            scratch.scalars.push(exact.reference_scalar::<S, F>(s, row));
        }
        for (query, values) in scratch.queries.iter().zip(values.chunks_mut(references)) {
            for (j, (value, &scalar)) in values[start..end].iter_mut().zip(&scratch.scalars).enumerate() {
                let row = &scratch.rows[j * features..(j + 1) * features];
                *value = O::of(exact.value(exact.key::<S, F>(s, query, row, scalar)));
            }
        }
    }
}

fn pairwise_of<F: Format, O: Output>(
    level: Level,
    exact: &Exact,
    x: Rows<'_>,
    y: &ArrayView2<'_, F::Stored>,
) -> Result<Vec<O>> {
    let mut values = vec![O::default(); x.len()];
    let rows = (PAIRWISE_JOB / x.features().max(1)).max(1);
    let jobs = values.chunks_mut(rows).enumerate().collect();
    let threads = threads(x.len().saturating_mul(x.features()));
    share_out(threads, jobs, |scratch: &mut Scratch<F>, (job, values)| {
        let mut query = scratch.queries.pop().unwrap_or_default();
        dispatch!(level, s => {
            for (value, i) in values.iter_mut().zip(job * rows..) {
                x.widen_into(i, &mut scratch.widened);
                exact.prepare_query_into(s, &scratch.widened, &mut query);
                let row = contiguous(y, i, &mut scratch.row);
                *value = O::of(exact.value(exact.key::<_, F>(s, &query, row, None)));
            }
        });
        scratch.queries.push(query);
    })?;
    Ok(values)
}

/// Does the jobs, in the environment that exact sums need.
fn share_out<T: Send, W: Default>(threads: usize, jobs: Vec<T>, work: impl Fn(&mut W, T) + Sync) -> Result<()> {
    let _env = float_env();
    let progress = Progress::new(jobs.len() as u64);
    for_each(threads, jobs, &Watch::new(None, &progress), W::default, work)
}

fn threads(elements: usize) -> usize {
    if elements < SERIAL {
        1
    } else {
        std::thread::available_parallelism().map_or(1, usize::from)
    }
}

#[cfg(test)]
mod tests;
