//! Rank metrics for Python.

use nearwise_core::knn::Options;
use nearwise_core::knn::ranks::{self, Classes};
use nearwise_core::matrix::Values;
use nearwise_core::retrieval::{Kind, Metric, Neighborhoods, Scores, score_matches, score_neighbors};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Indices, Labels, Matches, RowsArg, vector_to_numpy};
use crate::knn::{PyDistance, interruptible};

/// Adds this file's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyScores>()?;
    module.add_function(wrap_pyfunction!(rank_neighbors, module)?)?;
    module.add_function(wrap_pyfunction!(rank_matches, module)?)?;
    module.add_function(wrap_pyfunction!(rank_all, module)?)
}

/// Values of some metrics for every query; metrics are addressed by their number in the call that made it.
#[pyclass(frozen, name = "Scores", module = "nearwise._core")]
#[derive(Debug)]
struct PyScores(Scores);

#[pymethods]
impl PyScores {
    /// One float64 per query, NaN where no reference is relevant.
    fn values<'py>(&self, py: Python<'py>, metric: usize) -> PyResult<Bound<'py, PyAny>> {
        self.check(metric)?;
        Ok(vector_to_numpy(py, Values::F64(self.0.values(metric))))
    }

    /// Mean over the queries.
    fn mean(&self, metric: usize) -> PyResult<f64> {
        self.check(metric)?;
        Ok(self.0.mean(metric))
    }

    /// Means within the classes that have a value, by ascending class number.
    fn class_means(&self, metric: usize, classes: Labels<'_>) -> PyResult<Vec<f64>> {
        self.check(metric)?;
        let (classes, count) = self.classes(&classes)?;
        Ok(self.0.class_means(metric, &classes, count))
    }

    /// Mean of those means.
    fn mean_of_class_means(&self, metric: usize, classes: Labels<'_>) -> PyResult<f64> {
        self.check(metric)?;
        let (classes, count) = self.classes(&classes)?;
        Ok(self.0.mean_of_class_means(metric, &classes, count))
    }
}

impl PyScores {
    fn check(&self, metric: usize) -> PyResult<()> {
        if metric >= self.0.metrics() {
            return Err(PyValueError::new_err(format!(
                "metric must be below {}, got {metric}",
                self.0.metrics()
            )));
        }
        Ok(())
    }

    fn classes(&self, classes: &Labels<'_>) -> PyResult<(Vec<usize>, usize)> {
        let classes = classes.as_array();
        if classes.len() != self.0.len() {
            return Err(PyValueError::new_err(format!(
                "classes must hold one number for each of the {} queries, got {}",
                self.0.len(),
                classes.len()
            )));
        }
        let classes: Vec<usize> = classes
            .iter()
            .map(|&class| {
                usize::try_from(class)
                    .map_err(|_| PyValueError::new_err(format!("classes must not be negative, got {class}")))
            })
            .collect::<PyResult<_>>()?;
        let count = classes.iter().max().map_or(0, |&most| most + 1);
        Ok((classes, count))
    }
}

/// Scores of queries from the indices of their neighbours (int64, queries × k) and class numbers on either side.
#[pyfunction]
fn rank_neighbors(
    py: Python<'_>,
    indices: Indices<'_>,
    query_classes: Labels<'_>,
    reference_classes: Labels<'_>,
    relevant: Labels<'_>,
    metrics: Vec<(String, Option<u64>)>,
) -> PyResult<PyScores> {
    let metrics = parse(&metrics)?;
    let relevant = counts(&relevant)?;
    let (indices, query_classes) = (indices.as_array(), query_classes.as_array());
    let reference_classes = reference_classes.as_array();
    if indices.nrows() != relevant.len() || query_classes.len() != relevant.len() {
        return Err(PyValueError::new_err(format!(
            "indices, query_classes and relevant must have one row per query, got {}, {} and {}",
            indices.nrows(),
            query_classes.len(),
            relevant.len()
        )));
    }
    let references = i64::try_from(reference_classes.len()).unwrap_or(i64::MAX);
    if let Some(bad) = indices.iter().find(|&&j| j < 0 || j >= references) {
        return Err(PyValueError::new_err(format!(
            "indices must address one of the {references} references, got {bad}"
        )));
    }
    let k = indices.ncols();
    let indices = indices.as_standard_layout();
    let (query_classes, reference_classes) = (
        query_classes.as_standard_layout(),
        reference_classes.as_standard_layout(),
    );
    let neighborhoods = Neighborhoods {
        indices: indices.as_slice().unwrap_or_default(),
        k,
        query_classes: query_classes.as_slice().unwrap_or_default(),
        reference_classes: reference_classes.as_slice().unwrap_or_default(),
        relevant: &relevant,
    };
    Ok(PyScores(py.detach(|| score_neighbors(&neighborhoods, &metrics))))
}

/// Scores of queries from a uint8 matrix that says which of the k neighbours match.
#[pyfunction]
fn rank_matches(
    py: Python<'_>,
    matches: Matches<'_>,
    relevant: Labels<'_>,
    metrics: Vec<(String, Option<u64>)>,
) -> PyResult<PyScores> {
    let metrics = parse(&metrics)?;
    let relevant = counts(&relevant)?;
    let matches = matches.as_array();
    if matches.nrows() != relevant.len() {
        return Err(PyValueError::new_err(format!(
            "matches and relevant must have one row per query, got {} and {}",
            matches.nrows(),
            relevant.len()
        )));
    }
    let k = matches.ncols();
    let matches = matches.as_standard_layout();
    let matches = matches.as_slice().unwrap_or_default();
    Ok(PyScores(py.detach(|| score_matches(matches, k, &relevant, &metrics))))
}

/// Scores of queries from the ranks of the references of their class among all, counted during the search.
#[pyfunction]
#[pyo3(signature = (query, reference, query_classes, reference_classes, distance, metrics, *, exclude_self = false, threads = 0, progress = None))]
#[expect(clippy::too_many_arguments, reason = "one keyword of the Python call each")]
fn rank_all(
    py: Python<'_>,
    query: RowsArg<'_>,
    reference: RowsArg<'_>,
    query_classes: Labels<'_>,
    reference_classes: Labels<'_>,
    distance: &PyDistance,
    metrics: Vec<(String, Option<u64>)>,
    exclude_self: bool,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyScores> {
    let metrics = parse(&metrics)?;
    let (query, reference, distance) = (query.rows(), reference.rows(), distance.0);
    let own: Vec<i64> = query_classes.as_array().to_vec();
    let theirs: Vec<i64> = reference_classes.as_array().to_vec();
    if own.len() != query.len() || theirs.len() != reference.len() {
        return Err(PyValueError::new_err(format!(
            "classes must hold one number per row, got {} and {} for {} and {} rows",
            own.len(),
            theirs.len(),
            query.len(),
            reference.len()
        )));
    }
    let scores = interruptible(py, progress, |poll| {
        let options = Options {
            exclude_self,
            threads,
            poll: Some(poll),
            ..Options::default()
        };
        let classes = Classes {
            query: &own,
            reference: &theirs,
        };
        ranks::score(query, reference, classes, &distance, &metrics, &options)
    })?;
    Ok(PyScores(scores))
}

fn parse(metrics: &[(String, Option<u64>)]) -> PyResult<Vec<Metric>> {
    metrics
        .iter()
        .map(|(name, cutoff)| {
            let kind = Kind::named(name).ok_or_else(|| PyValueError::new_err(format!("unknown metric {name}")))?;
            Ok(Metric { kind, cutoff: *cutoff })
        })
        .collect()
}

fn counts(relevant: &Labels<'_>) -> PyResult<Vec<u64>> {
    relevant
        .as_array()
        .iter()
        .map(|&count| {
            u64::try_from(count)
                .map_err(|_| PyValueError::new_err(format!("relevant must not be negative, got {count}")))
        })
        .collect()
}
