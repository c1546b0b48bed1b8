//! What this machine can run.

use nearwise_core::isa::Level;
use pyo3::prelude::*;

use crate::error::CoreError;

/// Adds this file's functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(levels, module)?)
}

/// (instruction set in use, all that this CPU has), by name, from the least to the most.
#[pyfunction]
fn levels() -> PyResult<(&'static str, Vec<&'static str>)> {
    let chosen = Level::chosen().map_err(CoreError::from)?;
    Ok((chosen.name(), Level::available().map(Level::name).collect()))
}
