//! Rows that a search refuses.

use super::NanPolicy;
use crate::error::{Error, Result};
use crate::filter::form::LARGEST_SQUARE;
use crate::isa::Simd;
use crate::matrix::{Format, Rows};
use crate::metric::normal::floored_norm;
use crate::with_format;

/// What was found among rows, by the first row that has it.
pub(super) type Refused = crate::filter::Exceptions;

/// An error for what was found in rows that begin at row `start`, if the call does not take it.
pub(super) fn refuse(argument: &'static str, refused: Refused, start: usize, nan: NanPolicy) -> Result<()> {
    if let (Some(row), NanPolicy::Raise) = (refused.nan, nan) {
        return Err(Error::NanRow {
            argument,
            row: start + row,
        });
    }
    match refused.large {
        Some(row) => Err(Error::RowTooLarge {
            argument,
            row: start + row,
        }),
        None => Ok(()),
    }
}

/// Looks for NaN and, with `refuses_large`, for finite rows whose squares are out of range.
pub(super) fn first_refused<S: Simd>(simd: S, rows: Rows<'_>, refuses_large: bool) -> Refused {
    with_format!(rows, F, view => {
        let mut refused = Refused::default();
        let mut gathered = Vec::new();
        for (i, row) in view.rows().into_iter().enumerate() {
            let row = match row.to_slice() {
                Some(row) => row,
                None => {
                    gathered.clear();
                    gathered.extend(row.iter().copied());
                    &gathered[..]
                }
            };
            let norm = floored_norm::<S, F>(simd, row, 2.0);
            // Written so that NaN is looked at.
            if norm * norm < LARGEST_SQUARE {
                continue;
            }
            let widened = || row.iter().map(|&x| <F as Format>::widen(x));
            if widened().any(f64::is_nan) {
                refused.nan = refused.nan.or(Some(i));
            } else if refuses_large && widened().all(f64::is_finite) {
                refused.large = refused.large.or(Some(i));
            }
        }
        refused
    })
}
