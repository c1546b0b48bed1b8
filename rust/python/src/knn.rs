//! Search and distances for Python.

use std::cell::RefCell;

use nearwise_core::distance::{Distance, Kind};
use nearwise_core::knn::{self, Method, NanPolicy, Neighbors, Options, Stats};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{RowsArg, indices_to_numpy, matrix_to_numpy, vector_to_numpy};
use crate::error::CoreError;

/// Adds this file's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDistance>()?;
    module.add_function(wrap_pyfunction!(search, module)?)?;
    module.add_function(wrap_pyfunction!(matrix, module)?)?;
    module.add_function(wrap_pyfunction!(pairwise, module)?)
}

/// A distance by its parameters: kind ("lp", "dot", "cosine", "snr"), p, power, and the p-norm to normalise by.
#[pyclass(frozen, name = "Distance", module = "nearwise._core")]
#[derive(Debug)]
pub(crate) struct PyDistance(pub(crate) Distance);

#[pymethods]
impl PyDistance {
    #[new]
    #[pyo3(signature = (kind, *, p = 2.0, power = 1.0, normalize = None))]
    fn new(kind: &str, p: f64, power: f64, normalize: Option<f64>) -> PyResult<Self> {
        let kind = match kind {
            "lp" => Kind::Lp(p),
            "dot" => Kind::Dot,
            "cosine" => Kind::Cosine,
            "snr" => Kind::Snr,
            other => {
                return Err(PyValueError::new_err(format!(
                    "kind must be lp, dot, cosine or snr, got {other}"
                )));
            }
        };
        Ok(Self(Distance::new(kind, power, normalize).map_err(CoreError::from)?))
    }

    #[getter]
    fn is_inverted(&self) -> bool {
        self.0.is_inverted()
    }
}

/// How a search went: method, level, exact values that were computed.
pub(crate) type StatsTuple = (&'static str, &'static str, u64);

/// Distances, indices, and how they were found.
pub(crate) type Found<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, StatsTuple);

pub(crate) fn stats_tuple(stats: Stats) -> StatsTuple {
    (stats.method.name(), stats.level.name(), stats.refined)
}

/// (distances, indices) of the k nearest reference rows of every query row, and how they were found.
#[pyfunction]
#[pyo3(signature = (query, reference, k, distance, *, exclude_self = false, nan_last = false, threads = 0, batch = 0, method = "auto", progress = None))]
#[expect(clippy::too_many_arguments, reason = "one keyword of the Python call each")]
fn search<'py>(
    py: Python<'py>,
    query: RowsArg<'py>,
    reference: RowsArg<'py>,
    k: usize,
    distance: &PyDistance,
    exclude_self: bool,
    nan_last: bool,
    threads: usize,
    batch: usize,
    method: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Found<'py>> {
    let (query, reference, distance) = (query.rows(), reference.rows(), distance.0);
    let settings = Settings::new(exclude_self, nan_last, threads, batch, method)?;
    found(py, progress, settings, (query.len(), k), |options| {
        knn::search(query, reference, k, &distance, options)
    })
}

/// What searches of every kind can be told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    exclude_self: bool,
    nan: NanPolicy,
    threads: usize,
    batch: usize,
    method: Method,
}

impl Settings {
    pub(crate) fn new(
        exclude_self: bool,
        nan_last: bool,
        threads: usize,
        batch: usize,
        method: &str,
    ) -> PyResult<Self> {
        Ok(Self {
            exclude_self,
            nan: if nan_last { NanPolicy::Last } else { NanPolicy::Raise },
            threads,
            batch,
            method: Method::named(method).map_err(CoreError::from)?,
        })
    }

    pub(crate) fn options(self, poll: knn::Poll<'_>) -> Options<'_> {
        Options {
            exclude_self: self.exclude_self,
            nan: self.nan,
            threads: self.threads,
            batch: self.batch,
            method: self.method,
            poll: Some(poll),
            ..Options::default()
        }
    }
}

/// Searches without the interpreter lock; (distances, indices), both queries × k, and how they were found.
pub(crate) fn found<'py>(
    py: Python<'py>,
    progress: Option<Py<PyAny>>,
    settings: Settings,
    (queries, k): (usize, usize),
    search: impl FnOnce(&Options<'_>) -> nearwise_core::error::Result<Neighbors> + Send,
) -> PyResult<Found<'py>> {
    let neighbors = interruptible(py, progress, |poll| search(&settings.options(poll)))?;
    Ok((
        matrix_to_numpy(py, neighbors.distances, queries, k)?,
        indices_to_numpy(py, neighbors.indices, queries, k)?,
        stats_tuple(neighbors.stats),
    ))
}

/// Values between every row of the query and every row of the reference.
#[pyfunction]
#[pyo3(signature = (query, reference, distance, *, threads = 0))]
fn matrix<'py>(
    py: Python<'py>,
    query: RowsArg<'py>,
    reference: RowsArg<'py>,
    distance: &PyDistance,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let (query, reference, distance) = (query.rows(), reference.rows(), distance.0);
    let values = interruptible(py, None, |poll| {
        knn::matrix(query, reference, &distance, &dense_options(threads, poll))
    })?;
    matrix_to_numpy(py, values, query.len(), reference.len())
}

/// Values between row i of x and row i of y.
#[pyfunction]
#[pyo3(signature = (x, y, distance, *, threads = 0))]
fn pairwise<'py>(
    py: Python<'py>,
    x: RowsArg<'py>,
    y: RowsArg<'py>,
    distance: &PyDistance,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let (x, y, distance) = (x.rows(), y.rows(), distance.0);
    let values = interruptible(py, None, |poll| {
        knn::pairwise(x, y, &distance, &dense_options(threads, poll))
    })?;
    Ok(vector_to_numpy(py, values))
}

fn dense_options(threads: usize, poll: knn::Poll<'_>) -> Options<'_> {
    Options {
        threads,
        poll: Some(poll),
        ..Options::default()
    }
}

/// Runs `work` without the interpreter lock; its poll function takes it back to look for signals and report progress.
///
/// An exception raised there (Ctrl-C, or from `progress`) stops the work and is the one that the caller sees.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(knn::Poll<'_>) -> nearwise_core::error::Result<T> + Send,
) -> PyResult<T> {
    let (result, raised) = py.detach(|| {
        let raised: RefCell<Option<PyErr>> = RefCell::new(None);
        let poll = |done: u64, total: u64| {
            let outcome = Python::attach(|py| {
                py.check_signals()?;
                if let Some(progress) = &progress {
                    progress.call1(py, (done, total))?;
                }
                Ok(())
            });
            match outcome {
                Ok(()) => true,
                Err(error) => {
                    raised.replace(Some(error));
                    false
                }
            }
        };
        let result = work(&poll);
        (result, raised.into_inner())
    });
    match raised {
        Some(error) => Err(error),
        None => Ok(result.map_err(CoreError::from)?),
    }
}
