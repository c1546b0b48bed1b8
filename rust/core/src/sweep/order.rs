//! Scores as unsigned keys that sort from the strictest to the weakest, and the thresholds between two of them.
//!
//! A key is the score's bits, rearranged so that integers compare as the numbers do; −0.0 gets the key of 0.0. Sorting
//! bare keys needs neither a comparison function nor an array of indices.

use half::{bf16, f16};

/// Which end of the scores is the strict one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Distances: the smallest is the strictest.
    Ascending,
    /// Similarities: the largest is the strictest.
    Descending,
}

impl Order {
    /// The threshold that nothing finite meets.
    #[must_use]
    pub fn reject_all(self) -> f64 {
        match self {
            Self::Ascending => f64::NEG_INFINITY,
            Self::Descending => f64::INFINITY,
        }
    }
}

/// A floating format whose values can be swept.
pub(crate) trait Score: Copy + Send + Sync + std::fmt::Debug {
    /// An unsigned integer of the same width.
    type Key: Copy + Ord + Send + Sync + std::fmt::Debug;
    /// What [`Score::place`] needs to know about the data.
    type Line: Copy + Send + Sync;

    fn is_finite(self) -> bool;
    /// Smaller is stricter. Only finite scores have a meaningful key.
    fn key(self, order: Order) -> Self::Key;
    /// The score of a key; 0.0 for either zero.
    fn widened(key: Self::Key, order: Order) -> f64;
    /// The midpoint of two numbers of this format, rounded once to it.
    fn midpoint(a: f64, b: f64) -> f64;
    /// A line through a sample of the scores, so that places spread evenly over `places` (a power of two).
    fn line(sample: &[Self], places: usize) -> Self::Line;
    /// A place below `places` that never decreases as the score grows, whatever the line.
    fn place(self, line: Self::Line) -> u16;
    /// The score as float64.
    fn wide(self) -> f64;
}

/// The threshold of the candidate whose weakest match is `weakest`, when `beyond` is the next score after it.
pub(crate) fn threshold<S: Score>(weakest: Option<S::Key>, beyond: Option<S::Key>, order: Order) -> f64 {
    let Some(weakest) = weakest else {
        return order.reject_all();
    };
    let a = S::widened(weakest, order);
    let Some(beyond) = beyond else {
        return a;
    };
    let b = S::widened(beyond, order);
    let middle = S::midpoint(a, b);
    // Adjacent numbers have nothing between them: the rounded midpoint is then one of the two.
    let between = a.min(b) < middle && middle < a.max(b);
    if between { middle } else { a }
}

macro_rules! keys {
    ($key:ty, $bits:expr) => {
        #[inline(always)]
        fn key(self, order: Order) -> $key {
            const SIGN: $key = 1 << (<$key>::BITS - 1);
            let bits = $bits(self);
            let bits = if bits == SIGN { 0 } else { bits };
            let ascending = if bits & SIGN == 0 { bits | SIGN } else { !bits };
            match order {
                Order::Ascending => ascending,
                Order::Descending => !ascending,
            }
        }
    };
}

/// The bits of a key's score.
macro_rules! unkeyed {
    ($key:expr, $order:expr, $type:ty) => {{
        const SIGN: $type = 1 << (<$type>::BITS - 1);
        let ascending = match $order {
            Order::Ascending => $key,
            Order::Descending => !$key,
        };
        if ascending & SIGN == 0 {
            !ascending
        } else {
            ascending & !SIGN
        }
    }};
}

/// Lowest place, and places per unit; see [`Score::place`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<R> {
    low: R,
    scale: R,
    last: R,
}

macro_rules! real {
    ($real:ty, $key:ty, $whole:expr, $midpoint:expr) => {
        impl Score for $real {
            type Key = $key;
            type Line = Line<$real>;

            #[inline(always)]
            fn is_finite(self) -> bool {
                <$real>::is_finite(self)
            }

            keys!($key, <$real>::to_bits);

            fn widened(key: $key, order: Order) -> f64 {
                <$real>::from_bits(unkeyed!(key, order, $key)).into()
            }

            fn midpoint(a: f64, b: f64) -> f64 {
                $midpoint(a, b)
            }

            fn line(sample: &[Self], places: usize) -> Line<$real> {
                let (low, high) = spread(sample);
                let last = (places - 1) as $real;
                // The scale stays finite and positive: then no product below is NaN.
                let scale = ((f64::from(last) / (high - low)) as $real).clamp(<$real>::MIN_POSITIVE, <$real>::MAX);
                Line {
                    low: low as $real,
                    scale,
                    last,
                }
            }

            #[inline(always)]
            fn place(self, line: Line<$real>) -> u16 {
                // Adding 2^(mantissa bits) leaves the nearest whole number in the low bits. Each of the four steps
                // is monotone, so their composition is.
                const WHOLE: $real = $whole;
                let x = (self - line.low) * line.scale;
                let x = if x > 0.0 { x } else { 0.0 };
                let x = if x < line.last { x } else { line.last };
                ((x + WHOLE).to_bits() ^ WHOLE.to_bits()) as u16
            }

            fn wide(self) -> f64 {
                self.into()
            }
        }
    };
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "any nearby line is as good, and rounding to a place is the point"
)]
mod reals {
    use super::{Line, Order, Score, midpoint_f32, midpoint_f64, spread};

    real!(f32, u32, 8_388_608.0, midpoint_f32);
    real!(f64, u64, 4_503_599_627_370_496.0, midpoint_f64);
}

macro_rules! half {
    ($half:ty, $exponent:expr) => {
        impl Score for $half {
            type Key = u16;
            type Line = u32;

            #[inline(always)]
            fn is_finite(self) -> bool {
                self.to_bits() & $exponent != $exponent
            }

            keys!(u16, <$half>::to_bits);

            fn widened(key: u16, order: Order) -> f64 {
                <$half>::from_bits(unkeyed!(key, order, u16)).into()
            }

            fn midpoint(a: f64, b: f64) -> f64 {
                // Rounded to odd first, so that the last rounding is the only one that counts.
                <$half>::from_f32(odd_f32((a + b) * 0.5)).into()
            }

            /// How far to shift a key: sixteen bits need no sample.
            fn line(_: &[Self], places: usize) -> u32 {
                u16::BITS - places.ilog2()
            }

            #[inline(always)]
            fn place(self, shift: u32) -> u16 {
                self.key(Order::Ascending) >> shift
            }

            fn wide(self) -> f64 {
                self.into()
            }
        }
    };
}

half!(f16, 0x7c00);
half!(bf16, 0x7f80);

/// The range that a line should cover: the middle 98 % of the sample and a quarter of that on either side.
///
/// One far outlier must not squeeze the rest into one place.
fn spread<S: Score>(sample: &[S]) -> (f64, f64) {
    let mut values: Vec<f64> = sample
        .iter()
        .filter(|s| s.is_finite())
        .map(|s| s.wide() * 0.5)
        .collect();
    values.sort_unstable_by(f64::total_cmp);
    let (Some(&first), Some(&last)) = (values.first(), values.last()) else {
        return (0.0, 1.0);
    };
    let tail = values.len() / 100;
    let (low, high) = (values[tail], values[values.len() - 1 - tail]);
    let margin = (high - low) * 0.25;
    // Halves, so that no difference overflows before the last step.
    let (low, high) = ((low - margin).max(first), (high + margin).min(last));
    (low * 2.0, high * 2.0)
}

#[expect(clippy::cast_possible_truncation, reason = "this is the rounding")]
fn midpoint_f32(a: f64, b: f64) -> f64 {
    // The sum in float64 is exact, or one number is below 2^-29 of the other and the result is half of that.
    f64::from(((a + b) * 0.5) as f32)
}

fn midpoint_f64(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // Halving first is inexact only where the other number is too large to notice.
    if sum.is_finite() { sum * 0.5 } else { a * 0.5 + b * 0.5 }
}

/// The number rounded to odd in float32.
#[expect(clippy::cast_possible_truncation, reason = "this is the rounding")]
fn odd_f32(x: f64) -> f32 {
    let nearest = x as f32;
    if f64::from(nearest) == x {
        return nearest;
    }
    let toward_zero = nearest.to_bits() - u32::from(f64::from(nearest).abs() > x.abs());
    f32::from_bits(toward_zero | 1)
}
