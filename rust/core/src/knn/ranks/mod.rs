//! Ranks of the relevant references among all of them, by counting.
//!
//! A metric over the full ranking needs the ranks of a query's relevant references and nothing else. Their exact
//! values are computed and sorted: a *ladder*. Every other reference only has to be placed between two rungs, and its
//! float32 estimate nearly always says between which:
//!
//! ```text
//! for each block of queries:       ladders of the relevant references, exact
//!     for each panel:              estimates → table → place on the ladder, one more reference there
//!         undecided:               the pair's own bounds; if they do not decide either, its exact value
//! rank of rung i = i + 1 + references placed before it
//! ```
//!
//! Memory is that of the ladders, whatever the number of pairs; ladders that do not fit together are taken in turns.
//! Where there is no filter every reference is placed by its exact value.

mod ladder;
mod scan;

use std::sync::Mutex;

use super::check::{first_refused, refuse};
use super::{NanPolicy, Options};
use crate::distance::Distance;
use crate::error::{Error, Result};
use crate::filter::Form;
use crate::filter::f32::{MOST_FEATURES, Tiled};
use crate::isa::{Level, float_env};
use crate::matrix::{Format, Rows};
use crate::parallel::{Progress, Watch};
use crate::refine::Exact;
use crate::retrieval::{Metric, Scores};
use crate::with_format;

/// Class numbers on either side; references of a negative class are relevant to nobody.
#[derive(Debug, Clone, Copy)]
pub struct Classes<'a> {
    /// Of every query, not negative.
    pub query: &'a [i64],
    /// Of every reference.
    pub reference: &'a [i64],
}

/// Rank metrics of every query in the full ranking of the references; those of its class are relevant.
///
/// # Errors
/// As [`search`](super::search), with [`NanPolicy::Raise`].
///
/// # Panics
/// If there is not one class number for every row.
pub fn score(
    query: Rows<'_>,
    reference: Rows<'_>,
    classes: Classes<'_>,
    distance: &Distance,
    metrics: &[Metric],
    options: &Options<'_>,
) -> Result<Scores> {
    assert_eq!(query.len(), classes.query.len(), "one class for each query");
    assert_eq!(reference.len(), classes.reference.len(), "one class for each reference");
    let _env = float_env();
    let (query, reference) = (query.view(), reference.view());
    super::check_sides(query, reference)?;
    if options.exclude_self && query.len() > reference.len() {
        return Err(Error::QueryNotIncluded {
            query: query.len(),
            reference: reference.len(),
        });
    }
    let level = match options.level {
        Some(level) => level,
        None => Level::chosen()?,
    };
    crate::dispatch!(level, simd => with_format!(reference, F, view => {
        let counting = Counting::<_, F> {
            simd,
            exact: Exact::new(distance, reference.dtype()),
            sign: if distance.is_inverted() { -1.0 } else { 1.0 },
            query,
            reference,
            view,
            classes,
            members: Members::new(&classes),
            exclude_self: options.exclude_self,
            metrics,
            threads: if options.threads > 0 {
                options.threads
            } else {
                std::thread::available_parallelism().map_or(1, usize::from)
            },
            progress: Progress::new((query.len() as u64).saturating_mul(reference.len() as u64)),
        };
        run(&counting, distance, options)
    }))
}

/// Everything that stays the same.
#[derive(Debug)]
struct Counting<'a, S, F: Format> {
    simd: S,
    exact: Exact,
    /// 1, or −1 where larger is nearer.
    sign: f64,
    query: Rows<'a>,
    reference: Rows<'a>,
    view: ndarray::ArrayView2<'a, F::Stored>,
    classes: Classes<'a>,
    members: Members,
    exclude_self: bool,
    metrics: &'a [Metric],
    threads: usize,
    progress: Progress,
}

impl<S, F: Format> Counting<'_, S, F> {
    /// References relevant to a query.
    fn relevant(&self, query: usize) -> impl Iterator<Item = u64> {
        let own = self.exclude_self.then_some(query as u64);
        self.members
            .of(self.classes.query[query])
            .iter()
            .copied()
            .filter(move |&row| Some(row) != own)
    }

    /// How many references a query ranks.
    fn ranked(&self) -> u64 {
        (self.reference.len() - usize::from(self.exclude_self)) as u64
    }
}

fn run<S: Tiled, F: Format>(
    counting: &Counting<'_, S, F>,
    distance: &Distance,
    options: &Options<'_>,
) -> Result<Scores> {
    let refuses_large = distance.refuses_large(F::DTYPE);
    debug_assert!(
        options.nan == NanPolicy::Raise,
        "NaN has no place on a ladder of the filter"
    );
    for (argument, rows) in [("query", counting.query), ("reference", counting.reference)] {
        refuse(
            argument,
            first_refused(counting.simd, rows, refuses_large),
            0,
            NanPolicy::Raise,
        )?;
    }
    let watch = Watch::new(options.poll, &counting.progress);
    let parts = Mutex::new(Vec::new());
    let can_filter = counting.exact.filterable()
        && (1..=MOST_FEATURES).contains(&counting.reference.features())
        && u32::try_from(counting.reference.len()).is_ok();
    let pays = counting.query.len() >= 8 && counting.reference.len() >= 64;
    if can_filter && pays && Form::possible(distance).is_some() {
        let form = Form::fit(distance, counting.reference).expect("there is a form, as was asked");
        scan::filtered(counting, &counting.simd.f32_filter(&form), &watch, options, &parts)?;
    } else {
        scan::direct(counting, &watch, &parts)?;
    }
    watch.finish()?;
    let mut parts = parts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    parts.sort_unstable_by_key(|&(first, _)| first);
    let mut all = Scores::new(counting.metrics);
    for (_, part) in parts {
        all.append(part);
    }
    Ok(all)
}

/// The references of each class.
#[derive(Debug)]
struct Members {
    rows: Vec<u64>,
    /// Where the rows of each class begin, and the end.
    starts: Vec<usize>,
}

impl Members {
    fn new(classes: &Classes<'_>) -> Self {
        // Only classes that some query has matter.
        let classes_of = |class: i64| usize::try_from(class).ok();
        let count = classes
            .query
            .iter()
            .filter_map(|&class| classes_of(class))
            .max()
            .map_or(0, |most| most + 1);
        let mut starts = vec![0; count + 1];
        let of = |class: i64| classes_of(class).filter(|&class| class < count);
        for class in classes.reference.iter().filter_map(|&class| of(class)) {
            starts[class + 1] += 1;
        }
        for class in 0..count {
            starts[class + 1] += starts[class];
        }
        let mut next = starts.clone();
        let mut rows = vec![0; starts[count]];
        for (row, &class) in (0..).zip(classes.reference) {
            if let Some(class) = of(class) {
                rows[next[class]] = row;
                next[class] += 1;
            }
        }
        Self { rows, starts }
    }

    fn of(&self, class: i64) -> &[u64] {
        usize::try_from(class)
            .ok()
            .filter(|&class| class + 1 < self.starts.len())
            .map_or(&[], |class| &self.rows[self.starts[class]..self.starts[class + 1]])
    }
}

#[cfg(test)]
mod tests;
