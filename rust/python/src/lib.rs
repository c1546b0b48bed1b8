//! `nearwise._core`: the Rust core for Python. Thin: arrays in, arrays out, the interpreter lock released between.

mod arrays;
mod error;
mod index;
mod knn;
mod machine;
mod retrieval;
mod sweep;
mod topk;

use pyo3::prelude::*;

/// The compiled core. Not public; the package's modules wrap it.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    machine::register(module)?;
    knn::register(module)?;
    index::register(module)?;
    retrieval::register(module)?;
    sweep::register(module)?;
    topk::register(module)
}
