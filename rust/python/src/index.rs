//! Prepared references for Python.

use nearwise_core::knn::Index;
use pyo3::prelude::*;

use crate::arrays::RowsArg;
use crate::knn::{Found, PyDistance, Settings, found, interruptible};

/// Adds this file's classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyIndex>()
}

/// What was prepared of a reference; the rows themselves are handed to each search.
#[pyclass(frozen, name = "Index", module = "nearwise._core")]
#[derive(Debug)]
pub(crate) struct PyIndex(Index);

#[pymethods]
impl PyIndex {
    #[new]
    #[pyo3(signature = (reference, distance, *, nan_last = false, threads = 0, method = "auto"))]
    fn new(
        py: Python<'_>,
        reference: RowsArg<'_>,
        distance: &PyDistance,
        nan_last: bool,
        threads: usize,
        method: &str,
    ) -> PyResult<Self> {
        let (reference, distance) = (reference.rows(), distance.0);
        let settings = Settings::new(false, nan_last, threads, 0, method)?;
        let index = interruptible(py, None, |poll| {
            Index::new(reference, &distance, &settings.options(poll))
        })?;
        Ok(Self(index))
    }

    /// Bytes that are held; 0 if searches are ordinary ones.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// (distances, indices) of the k nearest reference rows of every query row, and how they were found.
    #[pyo3(signature = (query, reference, k, *, exclude_self = false, nan_last = false, threads = 0, batch = 0, method = "auto", progress = None))]
    #[expect(clippy::too_many_arguments, reason = "one keyword of the Python call each")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        query: RowsArg<'py>,
        reference: RowsArg<'py>,
        k: usize,
        exclude_self: bool,
        nan_last: bool,
        threads: usize,
        batch: usize,
        method: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Found<'py>> {
        let (query, reference) = (query.rows(), reference.rows());
        let settings = Settings::new(exclude_self, nan_last, threads, batch, method)?;
        found(py, progress, settings, (query.len(), k), |options| {
            self.0.search(query, reference, k, options)
        })
    }
}
