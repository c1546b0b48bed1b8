//! Threshold sweeps for Python.

use nearwise_core::sweep::{self, Metric, Options, Order};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{LabelsArg, ScoresArg, floats_to_numpy};
use crate::error::CoreError;
use crate::knn::interruptible;

/// Adds this file's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCandidates>()?;
    module.add_function(wrap_pyfunction!(best_threshold, module)?)
}

/// (threshold, value) of the best candidate by a built-in metric; `beta_squared` is a fraction for the F-score.
#[pyfunction]
#[pyo3(signature = (scores, labels, metric, beta_squared, is_inverted, threads = 0))]
fn best_threshold(
    py: Python<'_>,
    scores: ScoresArg<'_>,
    labels: LabelsArg<'_>,
    metric: &str,
    beta_squared: (u64, u64),
    is_inverted: bool,
    threads: usize,
) -> PyResult<(f64, f64)> {
    let metric = match metric {
        "accuracy" => Metric::Accuracy,
        "balanced_accuracy" => Metric::BalancedAccuracy,
        "youden" => Metric::Youden,
        "mcc" => Metric::Mcc,
        "f_beta" => Metric::FBeta {
            numerator: beta_squared.0,
            denominator: beta_squared.1,
        },
        other => {
            return Err(PyValueError::new_err(format!(
                "metric must be a built-in one, got {other}"
            )));
        }
    };
    let (scores, labels, order) = (scores.scores()?, labels.bytes()?, order(is_inverted));
    let selection = interruptible(py, None, |poll| {
        let poll = Some(poll);
        sweep::select(scores, labels, order, metric, &Options { threads, poll })
    })?;
    Ok((selection.threshold, selection.value))
}

/// Every candidate of a sweep, strictest first.
#[pyclass(frozen, name = "Candidates", module = "nearwise._core")]
#[derive(Debug)]
struct PyCandidates(sweep::Candidates);

#[pymethods]
impl PyCandidates {
    #[new]
    #[pyo3(signature = (scores, labels, is_inverted, threads = 0))]
    fn new(
        py: Python<'_>,
        scores: ScoresArg<'_>,
        labels: LabelsArg<'_>,
        is_inverted: bool,
        threads: usize,
    ) -> PyResult<Self> {
        let (scores, labels, order) = (scores.scores()?, labels.bytes()?, order(is_inverted));
        let candidates = interruptible(py, None, |poll| {
            let poll = Some(poll);
            sweep::Candidates::new(scores, labels, order, &Options { threads, poll })
        })?;
        Ok(Self(candidates))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// (true positives, false positives, true negatives, false negatives), a fresh float64 array each.
    fn counts<'py>(&self, py: Python<'py>) -> [Bound<'py, PyAny>; 4] {
        let counts = py.detach(|| self.0.counts());
        [
            counts.true_positives,
            counts.false_positives,
            counts.true_negatives,
            counts.false_negatives,
        ]
        .map(|column| floats_to_numpy(py, column))
    }

    fn threshold(&self, py: Python<'_>, index: usize) -> PyResult<f64> {
        Ok(py.detach(|| self.0.threshold(index)).map_err(CoreError::from)?)
    }

    fn thresholds<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        let thresholds = py.detach(|| self.0.thresholds());
        floats_to_numpy(py, thresholds)
    }
}

fn order(is_inverted: bool) -> Order {
    if is_inverted {
        Order::Descending
    } else {
        Order::Ascending
    }
}
