//! Which distance or similarity is asked for. Formulas live with their arithmetic; this names them.

use crate::error::{Error, Result};
use crate::matrix::Dtype;

/// Added below every norm that divides, so that a zero row normalises to zero.
pub const NORM_FLOOR: f64 = 1e-12;

/// The family of a distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// The p-norm of the difference, p in (0, ∞].
    Lp(f64),
    /// The inner product.
    Dot,
    /// The inner product over the product of the norms.
    Cosine,
    /// Variance of the difference over the variance of the query.
    Snr,
}

/// A distance or similarity with its options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distance {
    /// The family.
    pub kind: Kind,
    /// The exponent that every value is raised to.
    pub power: f64,
    /// Rows are divided by this p-norm first.
    pub normalize: Option<f64>,
}

impl Distance {
    /// A distance with its parameters checked.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a `p` that is not positive, or a `power` that is not finite or is 0.
    pub fn new(kind: Kind, power: f64, normalize: Option<f64>) -> Result<Self> {
        let norms = [if let Kind::Lp(p) = kind { Some(p) } else { None }, normalize];
        for p in norms.into_iter().flatten() {
            if p.is_nan() || p <= 0.0 {
                return Err(Error::Parameter {
                    argument: "p",
                    expected: "a positive number or infinity",
                    got: p.to_string(),
                });
            }
        }
        if !power.is_finite() || power == 0.0 {
            return Err(Error::Parameter {
                argument: "power",
                expected: "a finite number other than 0",
                got: power.to_string(),
            });
        }
        // Cosine has its own division by the norms; dividing the rows first would round differently.
        let normalize = if kind == Kind::Cosine { None } else { normalize };
        Ok(Self { kind, power, normalize })
    }

    /// Whether a search refuses finite rows of this type whose squares are out of range: where it takes squares.
    #[must_use]
    pub(crate) fn refuses_large(&self, dtype: Dtype) -> bool {
        let squares = matches!(self.kind, Kind::Lp(2.0) | Kind::Dot | Kind::Cosine | Kind::Snr);
        dtype == Dtype::F64 && (squares || self.normalize == Some(2.0))
    }

    /// Whether a larger value means nearer.
    #[must_use]
    pub fn is_inverted(&self) -> bool {
        matches!(self.kind, Kind::Dot | Kind::Cosine)
    }
}
