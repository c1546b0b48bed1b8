//! Parts of a whole as fixed-point integers: sums are exact whatever their order, so the same bits for any threads.

/// Bits after the point; 32 remain before it.
const FRACTION: u32 = 96;

/// A number in [0, 2³²) as a multiple of 2⁻⁹⁶.
///
/// A quotient is cut off below 2⁻⁹⁶, sums and differences are exact, and the one rounding is that to float64. A metric
/// made of n quotients is therefore off by at most n·2⁻⁹⁶ before that rounding: for any ranking that fits in memory it
/// is the float64 nearest to the true fraction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u128);

impl Share {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// `part / whole`. `whole` must be positive and `part` below 2³².
    #[must_use]
    pub fn ratio(part: u64, whole: u64) -> Self {
        if part >> 32 == 0 && whole >> 32 == 0 {
            return Self(long_division(part, whole));
        }
        Self((u128::from(part) << FRACTION) / u128::from(whole))
    }

    /// The sum; saturates at the top, which takes 2³² whole shares.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// This divided by a positive `count`.
    #[must_use]
    pub fn over(self, count: u64) -> Self {
        Self(self.0 / u128::from(count))
    }

    /// The nearest float64.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the one rounding, to nearest, ties to even")]
    pub fn to_f64(self) -> f64 {
        // A power of two: the division is exact.
        self.0 as f64 / (1_u128 << FRACTION) as f64
    }

    /// The mean of `shares`, or none of nothing.
    pub fn mean(shares: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut sum = Self::ZERO;
        let mut count = 0;
        for share in shares {
            sum = sum.plus(share);
            count += 1;
        }
        (count > 0).then(|| sum.over(count))
    }
}

/// `part · 2⁹⁶ / whole` in four digits of base 2³², which the processor divides much faster than 128 bits at once.
fn long_division(part: u64, whole: u64) -> u128 {
    let mut quotient = u128::from(part / whole);
    let mut rest = part % whole;
    for _ in 0..FRACTION / 32 {
        rest <<= 32;
        quotient = quotient << 32 | u128::from(rest / whole);
        rest %= whole;
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn digits_give_what_the_whole_division_gives(part in 0_u64..1 << 32, whole in 1_u64..1 << 32) {
            prop_assert_eq!(long_division(part, whole), (u128::from(part) << FRACTION) / u128::from(whole));
        }

        #[test]
        #[expect(clippy::cast_precision_loss, reason = "both are below 2^32")]
        fn a_ratio_is_the_nearest_float64(part in 0_u64..1 << 32, whole in 1_u64..1 << 32) {
            // One division of exact operands is correctly rounded.
            prop_assert_eq!(Share::ratio(part, whole).to_f64().to_bits(), (part as f64 / whole as f64).to_bits());
        }
    }

    #[test]
    fn thirds_add_up_to_one() {
        let third = Share::ratio(1, 3);
        assert_eq!(
            third.plus(third).plus(third).to_f64(),
            1.0,
            "cut-off digits must round away"
        );
        assert_eq!(Share::mean([]), None, "nothing has no mean");
    }
}
