//! What can be wrong with a call, with the numbers that say how.

use thiserror::Error;

use crate::matrix::Dtype;

/// A user's mistake, or the wish to stop.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// `k` is zero or asks for more neighbours than there are.
    #[error("k must be between 1 and {available}, the number of reference rows{}, got {k}",
        if *.without_self { " other than the query's own" } else { "" })]
    K {
        /// What was asked for.
        k: usize,
        /// How many neighbours a query can have.
        available: usize,
        /// Whether the query's own row was taken off.
        without_self: bool,
    },
    /// A reference without rows has no neighbours.
    #[error("reference must have at least one row, got none")]
    EmptyReference,
    /// The two sides disagree about the number of features.
    #[error("query and reference must have the same number of features, got {query} and {reference}")]
    Features {
        /// Columns of the query.
        query: usize,
        /// Columns of the reference.
        reference: usize,
    },
    /// The two sides disagree about the element type.
    #[error("query and reference must have the same dtype, got {query} and {reference}")]
    Dtypes {
        /// Element type of the query.
        query: Dtype,
        /// Element type of the reference.
        reference: Dtype,
    },
    /// Row-by-row calls need as many rows on either side.
    #[error("x and y must have the same number of rows, got {x} and {y}")]
    Lengths {
        /// Rows of the first side.
        x: usize,
        /// Rows of the second side.
        y: usize,
    },
    /// With the query contained in the reference, it cannot have more rows.
    #[error(
        "reference must start with the rows of query when ref_includes_query is set, \
         got {query} query rows and {reference} reference rows"
    )]
    QueryNotIncluded {
        /// Rows of the query.
        query: usize,
        /// Rows of the reference.
        reference: usize,
    },
    /// An input row holds NaN under the policy that refuses it.
    #[error("{argument} must not contain NaN (see nan_policy), found NaN in row {row}")]
    NanRow {
        /// `query` or `reference`.
        argument: &'static str,
        /// First row that holds NaN.
        row: usize,
    },
    /// A finite float64 row whose sum of squares would overflow.
    #[error(
        "{argument} must have rows with a norm below 1e153 so that sums of squares stay finite, \
         found a larger one in row {row}; scale the data down"
    )]
    RowTooLarge {
        /// `query` or `reference`.
        argument: &'static str,
        /// First row that is too large.
        row: usize,
    },
    /// A parameter outside its range.
    #[error("{argument} must be {expected}, got {got}")]
    Parameter {
        /// Name of the parameter.
        argument: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it was.
        got: String,
    },
    /// The caller's poll function asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;
