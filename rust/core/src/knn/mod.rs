//! The search: validate, plan, run.

mod bench;
mod check;
mod dense;
mod direct;
mod filtered;
mod index;
mod plan;
mod probe;
pub mod ranks;
mod run;
mod score;
mod sorted;
mod task;
#[cfg(test)]
mod tests;
mod warm;

pub use index::Index;
pub use plan::Method;

use crate::distance::Distance;
use crate::error::{Error, Result};
use crate::isa::{Level, float_env};
use crate::matrix::{Rows, Values};

/// What to do about NaN in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NanPolicy {
    /// Refuse it with [`Error::NanRow`].
    #[default]
    Raise,
    /// Rank it after every number.
    Last,
}

/// Called from the calling thread with (work done, work in all); returning false stops the search.
pub type Poll<'a> = &'a dyn Fn(u64, u64) -> bool;

/// How to search; none of it changes the result.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Row i of the query is row i of the reference and is no neighbour of itself.
    pub exclude_self: bool,
    /// What to do about NaN in the input.
    pub nan: NanPolicy,
    /// Worker threads; 0 means as many as there are processors.
    pub threads: usize,
    /// Query rows per block; 0 lets the plan decide.
    pub batch: usize,
    /// Reference rows that are packed at once; 0 lets the plan decide.
    pub chunk: usize,
    /// How to find the neighbours.
    pub method: Method,
    /// The instruction set; none means the best one, or what `NEARWISE_SIMD` says.
    pub level: Option<Level>,
    /// Asked about every 50 ms.
    pub poll: Option<Poll<'a>>,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("exclude_self", &self.exclude_self)
            .field("nan", &self.nan)
            .field("threads", &self.threads)
            .field("batch", &self.batch)
            .field("chunk", &self.chunk)
            .field("method", &self.method)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

/// The neighbours of every query, nearest first, row-major (queries × k).
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbors {
    /// Values in the output type.
    pub distances: Values,
    /// Reference rows.
    pub indices: Vec<i64>,
    /// How they were found.
    pub stats: Stats,
}

/// How a search went; no part of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Exact values that were computed for pairs that a filter let pass; may vary with the number of threads.
    pub refined: u64,
    /// The method that was used.
    pub method: Method,
    /// The instruction set that was used.
    pub level: Level,
}

/// The `k` nearest reference rows of every query row.
///
/// # Errors
/// Every variant of [`Error`] that speaks of two sides and `k`.
pub fn search(
    query: Rows<'_>,
    reference: Rows<'_>,
    k: usize,
    distance: &Distance,
    options: &Options<'_>,
) -> Result<Neighbors> {
    search_with(query, reference, k, distance, options, None)
}

/// The search, by what was prepared of the reference if that helps.
fn search_with(
    query: Rows<'_>,
    reference: Rows<'_>,
    k: usize,
    distance: &Distance,
    options: &Options<'_>,
    prepared: Option<&index::Prepared>,
) -> Result<Neighbors> {
    let _env = float_env();
    let (query, reference) = (query.view(), reference.view());
    validate(query, reference, k, options)?;
    // Codes are read by the instructions that they were laid out for.
    let prepared = prepared.filter(|_| matches!(options.method, Method::Auto | Method::I8));
    let level = match (prepared, options.level) {
        (Some(prepared), _) => prepared.level,
        (None, Some(level)) => level,
        (None, None) => Level::chosen()?,
    };
    crate::dispatch!(level, simd => crate::with_format!(reference, F, view => {
        run::search::<_, F>(simd, (query, reference), view, k, distance, (options, prepared))
    }))
}

fn validate(query: Rows<'_>, reference: Rows<'_>, k: usize, options: &Options<'_>) -> Result<()> {
    check_sides(query, reference)?;
    if reference.is_empty() {
        return Err(Error::EmptyReference);
    }
    if options.exclude_self && query.len() > reference.len() {
        return Err(Error::QueryNotIncluded {
            query: query.len(),
            reference: reference.len(),
        });
    }
    let available = reference.len() - usize::from(options.exclude_self);
    if k == 0 || k > available {
        return Err(Error::K {
            k,
            available,
            without_self: options.exclude_self,
        });
    }
    Ok(())
}

/// Every value of `distance` between the rows of two sides, row-major (queries × references). Of the options, the
/// threads, the level and the poll function count.
///
/// # Errors
/// [`Error::Features`], [`Error::Dtypes`] and [`Error::Interrupted`].
pub fn matrix(query: Rows<'_>, reference: Rows<'_>, distance: &Distance, options: &Options<'_>) -> Result<Values> {
    check_sides(query, reference)?;
    dense::matrix(query, reference, distance, options)
}

/// The value of `distance` between row i of `x` and row i of `y`. Of the options, the threads, the level and the poll
/// function count.
///
/// # Errors
/// [`Error::Features`], [`Error::Dtypes`], [`Error::Lengths`] and [`Error::Interrupted`].
pub fn pairwise(x: Rows<'_>, y: Rows<'_>, distance: &Distance, options: &Options<'_>) -> Result<Values> {
    check_sides(x, y)?;
    if x.len() != y.len() {
        return Err(Error::Lengths { x: x.len(), y: y.len() });
    }
    dense::pairwise(x, y, distance, options)
}

fn check_sides(query: Rows<'_>, reference: Rows<'_>) -> Result<()> {
    if query.dtype() != reference.dtype() {
        return Err(Error::Dtypes {
            query: query.dtype(),
            reference: reference.dtype(),
        });
    }
    if query.features() != reference.features() {
        return Err(Error::Features {
            query: query.features(),
            reference: reference.features(),
        });
    }
    Ok(())
}
