//! Exact nearest neighbours of embeddings, threshold sweeps and rank metrics.
//!
//! Everything that this crate returns is the documented float64 formula of a [`Distance`], rounded once to the
//! output type, ranked by (that value, index). [`reference`](mod@reference) says so in the plainest code; the rest of
//! the crate arrives at the same bits faster.

pub mod distance;
pub mod error;
pub mod filter;
pub mod isa;
pub mod knn;
pub mod matrix;
mod metric;
mod parallel;
#[cfg(test)]
mod random;
pub mod reference;
pub mod refine;
pub mod retrieval;
pub mod select;
pub mod sweep;

pub use distance::{Distance, Kind};
pub use error::Error;
pub use matrix::{Dtype, Rows};
