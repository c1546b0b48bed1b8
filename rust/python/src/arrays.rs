//! NumPy arrays to core matrices and back; the only file that names rust-numpy.

use half::f16;
use nearwise_core::matrix::{Rows, Values};
use nearwise_core::sweep::Scores;
use numpy::ndarray::Dimension;
use numpy::{IntoPyArray, PyArray2};
use numpy::{Ix1, Ix2, PyArray1, PyArrayMethods, PyReadonlyArray, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// One int64 per row.
pub(crate) type Labels<'py> = PyReadonlyArray1<'py, i64>;
/// Row numbers of neighbours, queries × k.
pub(crate) type Indices<'py> = PyReadonlyArray2<'py, i64>;
/// Truth values as bytes (a NumPy bool array is viewed as uint8 first), queries × k.
pub(crate) type Matches<'py> = PyReadonlyArray2<'py, u8>;

/// A borrowed array in one of the element formats.
///
/// float16, float32 and float64 come as themselves, bfloat16 as the uint16 of its bits.
#[derive(Debug)]
pub(crate) enum FloatsArg<'py, D: Dimension> {
    F16(PyReadonlyArray<'py, f16, D>),
    Bf16(PyReadonlyArray<'py, u16, D>),
    F32(PyReadonlyArray<'py, f32, D>),
    F64(PyReadonlyArray<'py, f64, D>),
}

/// Embeddings, one in each row.
pub(crate) type RowsArg<'py> = FloatsArg<'py, Ix2>;
/// Scores, which must be contiguous.
pub(crate) type ScoresArg<'py> = FloatsArg<'py, Ix1>;

impl<'a, 'py, D: Dimension> FromPyObject<'a, 'py> for FloatsArg<'py, D> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = object.extract() {
            return Ok(Self::F32(array));
        }
        if let Ok(array) = object.extract() {
            return Ok(Self::F64(array));
        }
        if let Ok(array) = object.extract() {
            return Ok(Self::F16(array));
        }
        if let Ok(array) = object.extract() {
            return Ok(Self::Bf16(array));
        }
        let dimensions = if D::NDIM == Some(1) { "one" } else { "two" };
        Err(PyTypeError::new_err(format!(
            "expected a {dimensions}-dimensional float16, float32, float64 or (for bfloat16) uint16 array"
        )))
    }
}

impl RowsArg<'_> {
    /// The array as the core sees it.
    pub(crate) fn rows(&self) -> Rows<'_> {
        match self {
            Self::F16(array) => Rows::F16(array.as_array()),
            Self::Bf16(array) => Rows::Bf16(array.as_array()),
            Self::F32(array) => Rows::F32(array.as_array()),
            Self::F64(array) => Rows::F64(array.as_array()),
        }
    }
}

impl ScoresArg<'_> {
    /// The array as the core sees it.
    pub(crate) fn scores(&self) -> PyResult<Scores<'_>> {
        let scores = match self {
            Self::F16(array) => array.as_slice().map(Scores::F16),
            Self::Bf16(array) => array.as_slice().map(Scores::Bf16),
            Self::F32(array) => array.as_slice().map(Scores::F32),
            Self::F64(array) => array.as_slice().map(Scores::F64),
        };
        scores.map_err(|_| PyValueError::new_err("scores must be contiguous"))
    }
}

/// A borrowed, contiguous one-dimensional array of labels: the bytes of booleans, since a stray byte is no `bool`.
#[derive(Debug, FromPyObject)]
pub(crate) struct LabelsArg<'py>(PyReadonlyArray1<'py, u8>);

impl LabelsArg<'_> {
    /// The bytes.
    pub(crate) fn bytes(&self) -> PyResult<&[u8]> {
        self.0
            .as_slice()
            .map_err(|_| PyValueError::new_err("labels must be contiguous"))
    }
}

/// Numbers as a one-dimensional float64 array.
pub(crate) fn floats_to_numpy(py: Python<'_>, values: Vec<f64>) -> Bound<'_, PyAny> {
    values.into_pyarray(py).into_any()
}

/// Row-major values as a NumPy array of `rows` rows.
pub(crate) fn matrix_to_numpy<'py>(
    py: Python<'py>,
    values: Values,
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match values {
        Values::F32(values) => reshaped(values.into_pyarray(py), rows, columns)?.into_any(),
        Values::F64(values) => reshaped(values.into_pyarray(py), rows, columns)?.into_any(),
    })
}

/// Row-major indices as a NumPy array of `rows` rows.
pub(crate) fn indices_to_numpy(
    py: Python<'_>,
    indices: Vec<i64>,
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'_, PyAny>> {
    Ok(reshaped(indices.into_pyarray(py), rows, columns)?.into_any())
}

/// Values as a one-dimensional NumPy array.
pub(crate) fn vector_to_numpy(py: Python<'_>, values: Values) -> Bound<'_, PyAny> {
    match values {
        Values::F32(values) => values.into_pyarray(py).into_any(),
        Values::F64(values) => values.into_pyarray(py).into_any(),
    }
}

fn reshaped<'py, T: numpy::Element>(
    array: Bound<'py, PyArray1<T>>,
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'py, PyArray2<T>>> {
    array.reshape([rows, columns])
}
