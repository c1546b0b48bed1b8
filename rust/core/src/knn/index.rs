//! References prepared once for many searches.
//!
//! An index holds the 8-bit codes of a reference and what their bound needs; the rows themselves stay with the caller,
//! who hands them to each search for refinement. A search then packs queries alone and reads a quarter of the bytes that
//! float32 rows take. Where the 8-bit filter does not apply, or a few rows show that it lets too much pass, nothing is
//! prepared and a search is an ordinary one: the bits of the result are the same either way.

use std::any::Any;

use super::run::{Prepare, prepare};
use super::{Neighbors, Options, search_with};
use crate::distance::Distance;
use crate::error::{Error, Result};
use crate::filter::Form;
use crate::isa::{Level, float_env};
use crate::matrix::{Dtype, Rows};

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
pub(super) struct Prepared {
    pub(super) form: Form,
    /// Codes are laid out for the tile of this level.
    pub(super) level: Level,
    /// The chunk of the level's filter.
    pub(super) chunk: Box<dyn Any + Send + Sync>,
    pub(super) bytes: usize,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("level", &self.level)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Index {
    /// Prepares `reference`. Of `options` it takes `nan`, `threads`, `method`, `level` and `poll`;
    /// [`Method::I8`](super::Method::I8) prepares whatever the data are like.
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
        let prepared = crate::dispatch!(level, simd => crate::with_format!(reference, F, view => {
            prepare::<_, F>(simd, reference, view, distance, options)
        }))?;
        Ok(Self {
            distance: *distance,
            dtype: reference.dtype(),
            rows: reference.len(),
            features: reference.features(),
            prepared: prepared.map(|Prepare { form, chunk, bytes }| Prepared {
                form,
                level,
                chunk,
                bytes,
            }),
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
