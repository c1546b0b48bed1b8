//! Top-k of a matrix for Python.

use nearwise_core::select::topk;
use pyo3::prelude::*;

use crate::arrays::{RowsArg, indices_to_numpy};
use crate::error::CoreError;

/// Adds this file's function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(topk_of, module)?)
}

/// Columns of the k best values of each row; column `self_offset + i` is not for row i.
#[pyfunction]
#[pyo3(name = "topk", signature = (matrix, k, *, largest, self_offset = None, threads = 0))]
fn topk_of<'py>(
    py: Python<'py>,
    matrix: RowsArg<'py>,
    k: usize,
    largest: bool,
    self_offset: Option<usize>,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let rows = matrix.rows();
    let best = py
        .detach(|| topk::topk(rows, k, largest, self_offset, threads))
        .map_err(CoreError::from)?;
    indices_to_numpy(py, best, rows.len(), k)
}
