//! `x` to a fixed exponent in every lane, with the bits of [`fixed_pow`].

use crate::isa::Simd;
use crate::reference::fixed_pow;

/// An exponent, sorted by how [`fixed_pow`] computes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Power {
    /// A whole one from 1 to 64.
    Chain(u32),
    /// One half.
    Root,
    /// Any other: an element at a time.
    Other(f64),
}

impl Power {
    pub(crate) fn new(exponent: f64) -> Self {
        if exponent == 0.5 {
            Self::Root
        } else if exponent.fract() == 0.0 && (1.0..=64.0).contains(&exponent) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be whole and at most 64"
            )]
            Self::Chain(exponent as u32)
        } else {
            Self::Other(exponent)
        }
    }

    /// Whether raising to this power keeps the order of the numbers, rounding included; of non-negative ones only, if
    /// `signed` is false.
    ///
    /// Each multiplication of a chain is monotone in non-negative factors and a chain is even or odd as its exponent
    /// is. Nothing is proven of a library's `pow`.
    pub(crate) fn keeps_order(self, signed: bool) -> bool {
        match self {
            Self::Chain(exponent) => !signed || exponent % 2 == 1,
            Self::Root => !signed,
            Self::Other(_) => false,
        }
    }

    /// Raises every lane.
    #[inline(always)]
    pub(crate) fn raise<S: Simd>(self, s: S, x: S::Lanes) -> S::Lanes {
        match self {
            Self::Chain(exponent) => {
                let mut value = x;
                for bit in (0..exponent.ilog2()).rev() {
                    value = s.mul(value, value);
                    if exponent >> bit & 1 == 1 {
                        value = s.mul(value, x);
                    }
                }
                value
            }
            Self::Root => s.sqrt(x),
            Self::Other(exponent) => {
                let mut group = [0.0; 16];
                s.store(x, &mut group);
                for element in &mut group {
                    *element = fixed_pow(*element, exponent);
                }
                s.load(&group)
            }
        }
    }
}
