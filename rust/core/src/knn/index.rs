//! References prepared once for many searches.
//!
//! An index holds the 8-bit codes of a reference and what their bound needs; the rows themselves stay with the caller,
//! who hands them to each search for refinement. A search then packs queries alone and reads a quarter of the bytes that
//! float32 rows take. Where the 8-bit filter does not apply, or a few rows show that it lets too much pass, nothing is
//! prepared and a search is an ordinary one: the bits of the result are the same either way.

use super::check::{first_refused, refuse};
use super::plan::{Method, Plan, Work};
use super::probe::{is_worth_trying, pays};
use super::run::threads;
use super::{NanPolicy, Neighbors, Options, filtered, search_with};
use crate::distance::Distance;
use crate::error::{Error, Result};
use crate::filter::Form;
use crate::filter::f32::Tiled;
use crate::filter::i8::{Basis, Chunk, Fit, Packs, Visit};
use crate::isa::{Level, float_env};
use crate::matrix::{Dtype, Rows};
use crate::parallel::{Progress, Watch};
use crate::refine::Exact;

/// A reference prepared for one distance.
#[derive(Debug)]
pub struct Index {
    distance: Distance,
    dtype: Dtype,
    rows: usize,
    features: usize,
    prepared: Option<Prepared>,
}

/// Packed references and what they were packed by.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) form: Form,
    pub(super) fit: Fit,
    /// Codes are laid out for the tile of this level.
    pub(super) level: Level,
    pub(super) chunk: Chunk,
    bytes: usize,
}

impl Index {
    /// Prepares `reference`. Of `options` it takes `nan`, `threads`, `method`, `level` and `poll`;
    /// [`Method::I8`] prepares whatever the data are like.
    ///
    /// # Errors
    /// [`Error::EmptyReference`], [`Error::NanRow`], [`Error::RowTooLarge`] and [`Error::Interrupted`].
    pub fn new(reference: Rows<'_>, distance: &Distance, options: &Options<'_>) -> Result<Self> {
        let _env = float_env();
        let reference = reference.view();
        if reference.is_empty() {
            return Err(Error::EmptyReference);
        }
        let level = options.level.map_or_else(Level::chosen, Ok)?;
        let prepared = crate::dispatch!(level, simd => prepare(simd, reference, distance, options))?;
        Ok(Self {
            distance: *distance,
            dtype: reference.dtype(),
            rows: reference.len(),
            features: reference.features(),
            prepared,
        })
    }

    /// Rows that were prepared.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Never: an index has at least one row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes that the index holds; 0 if a search of it is an ordinary one.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.prepared.as_ref().map_or(0, |prepared| prepared.bytes)
    }

    /// The same bits as [`search`](super::search) of `reference`, which must hold the rows that were prepared, as they
    /// were.
    ///
    /// # Errors
    /// As [`search`](super::search), and [`Error::Parameter`] if `reference` has another form than what was prepared.
    pub fn search(&self, query: Rows<'_>, reference: Rows<'_>, k: usize, options: &Options<'_>) -> Result<Neighbors> {
        let form = (reference.len(), reference.features(), reference.dtype());
        if form != (self.rows, self.features, self.dtype) {
            return Err(Error::Parameter {
                argument: "reference",
                expected: "the rows that were prepared",
                got: format!("{} rows of {} features, {}", form.0, form.1, form.2),
            });
        }
        search_with(query, reference, k, &self.distance, options, self.prepared.as_ref())
    }
}

/// Packs all of `reference` for the 8-bit filter; none where that does not pay. What the options refuse is an error.
fn prepare<S: Tiled>(
    simd: S,
    reference: Rows<'_>,
    distance: &Distance,
    options: &Options<'_>,
) -> Result<Option<Prepared>> {
    /// Queries and neighbours of usual searches.
    const USUAL: (usize, usize) = (1024, 10);
    let exact = Exact::new(distance, reference.dtype());
    let work = Work::new(USUAL.0, reference, USUAL.1, &exact, threads(options.threads));
    let plan = Plan::new(&work, Method::I8, 0, 0);
    let progress = Progress::new(reference.len() as u64);
    let watch = Watch::new(options.poll, &progress);
    let usable = plan.method == Method::I8 && u32::try_from(reference.len()).is_ok();
    let is_free = options.method != Method::I8;
    let tried = !is_free || (S::LEVEL > Level::Portable && is_worth_trying(&work));
    let prepared = if usable && tried {
        let form = Form::fit(distance, reference).expect("the plan knows that there is a form");
        let packing = Packing {
            form: &form,
            level: S::LEVEL,
            reference: reference.view(),
            threads: plan.threads,
            nan: options.nan,
            watch: &watch,
            work: is_free.then_some(&work),
        };
        simd.i8_filter(&form, Basis::Rows(reference), packing)?
    } else {
        None
    };
    if prepared.is_none() {
        let refused = first_refused(simd, reference, distance.refuses_large(reference.dtype()));
        refuse("reference", refused, 0, options.nan)?;
    }
    watch.finish()?;
    Ok(prepared)
}

/// References that wait for their 8-bit filter.
struct Packing<'a> {
    form: &'a Form,
    level: Level,
    reference: Rows<'a>,
    threads: usize,
    nan: NanPolicy,
    watch: &'a Watch<'a>,
    /// If there is a choice, what to decide by.
    work: Option<&'a Work>,
}

impl Visit for Packing<'_> {
    type Output = Result<Option<Prepared>>;

    fn visit<L: Packs>(self, filter: &L) -> Self::Output {
        // Queries are taken to be like the rows.
        if let Some(work) = self.work
            && !pays(filter, work, self.reference, self.reference, true)
        {
            return Ok(None);
        }
        let rows = self.reference.len();
        let mut chunk = filter.chunk(rows);
        let refused = filtered::pack(filter, self.threads, self.watch, &mut chunk, self.reference)?;
        refuse("reference", refused, 0, self.nan)?;
        Ok(Some(Prepared {
            form: self.form.clone(),
            fit: filter.fitted(),
            level: self.level,
            chunk,
            bytes: rows * filter.row_bytes(),
        }))
    }
}
