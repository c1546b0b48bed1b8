//! The one place where a core error becomes a Python exception.

use nearwise_core::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};

/// A core error on its way to Python.
#[derive(Debug)]
pub(crate) struct CoreError(Error);

impl From<Error> for CoreError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<CoreError> for PyErr {
    fn from(CoreError(error): CoreError) -> Self {
        match error {
            Error::Interrupted => PyKeyboardInterrupt::new_err(()),
            error => PyValueError::new_err(error.to_string()),
        }
    }
}
