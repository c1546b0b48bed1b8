//! The built-in metrics as exact fractions of counts.
//!
//! Two candidates are compared by cross-multiplied integers, never by rounded quotients, so that equal is equal. Every
//! metric here grows with the true positives and falls with the false positives; [`super::best`] relies on that.
//! For the correlation: with m matches of n and D = tp·N − fp·P it is D / √(PN·m(n−m)), whose derivative by tp has the sign of
//! 2N·m(n−m) − D(n−2m), and |D| is at most m·N when D > 0, at most fp·fn ≤ N(n−m) when D < 0.

use std::cmp::Ordering;

use crate::error::{Error, Result};

/// How many positives and negatives match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Point {
    /// True positives.
    pub tp: u64,
    /// False positives.
    pub fp: u64,
}

/// A metric that the sweep computes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// (tp + tn) / all
    Accuracy,
    /// (tp·N + tn·P) / 2PN
    BalancedAccuracy,
    /// (tp·N − fp·P) / PN, the true match rate less the false match rate
    Youden,
    /// (1 + β²)tp / (β²P + tp + fp) with β² = `numerator` / `denominator`
    FBeta {
        /// Of β².
        numerator: u64,
        /// Of β².
        denominator: u64,
    },
    /// (tp·tn − fp·fn) / √(PN(tp + fp)(tn + fn)); 0 where everything or nothing matches
    Mcc,
}

impl Metric {
    /// Refuses totals for which a cross product could overflow.
    pub(crate) fn check(self, total: Point) -> Result<()> {
        let all = total.tp + total.fp;
        let fits = match self {
            // Both terms of a product are at most all · all.
            Self::Accuracy | Self::BalancedAccuracy | Self::Youden => all < 1 << 63,
            // (numerator·P + denominator·m)·tp
            Self::FBeta { numerator, denominator } => (u128::from(numerator) + u128::from(denominator))
                .checked_mul(u128::from(all))
                .and_then(|x| x.checked_mul(u128::from(all)))
                .is_some(),
            // D² with |D| ≤ PN ≤ all²/4
            Self::Mcc => all <= 1 << 32,
        };
        if fits {
            return Ok(());
        }
        Err(Error::Parameter {
            argument: "scores",
            expected: "few enough for exact counts in this metric",
            got: all.to_string(),
        })
    }

    /// Whether `a` has a strictly larger value than `b`.
    #[inline]
    pub(crate) fn better(self, a: Point, b: Point, total: Point) -> bool {
        let wide = u128::from;
        match self {
            Self::Accuracy => a.tp + b.fp > b.tp + a.fp,
            Self::BalancedAccuracy | Self::Youden => {
                let (p, n) = (wide(total.tp), wide(total.fp));
                wide(a.tp) * n + wide(b.fp) * p > wide(b.tp) * n + wide(a.fp) * p
            }
            Self::FBeta { numerator, denominator } => {
                let below = |x: Point| wide(numerator) * wide(total.tp) + wide(denominator) * wide(x.tp + x.fp);
                wide(a.tp) * below(b) > wide(b.tp) * below(a)
            }
            Self::Mcc => Self::correlation(a, b, total) == Ordering::Greater,
        }
    }

    fn correlation(a: Point, b: Point, total: Point) -> Ordering {
        let ((da, sa), (db, sb)) = (covariance(a, total), covariance(b, total));
        if da.signum() != db.signum() || da == 0 {
            return da.cmp(&db);
        }
        let square = |d: i128| d.unsigned_abs() * d.unsigned_abs();
        // |D_a| / √S_a against |D_b| / √S_b; D ≠ 0 implies S ≠ 0.
        let magnitude = product(square(da), sb).cmp(&product(square(db), sa));
        if da > 0 { magnitude } else { magnitude.reverse() }
    }

    /// The metric at a point, each of numerator and denominator exact below 2^53.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53, nearest above")]
    pub fn value(self, at: Point, total: Point) -> f64 {
        let (p, n) = (u128::from(total.tp), u128::from(total.fp));
        let (tp, fp) = (u128::from(at.tp), u128::from(at.fp));
        match self {
            Self::Accuracy => (tp + n - fp) as f64 / (p + n) as f64,
            Self::BalancedAccuracy => (tp * n + (n - fp) * p) as f64 / (2 * p * n) as f64,
            Self::Youden => covariance(at, total).0 as f64 / (p * n) as f64,
            Self::FBeta { numerator, denominator } => {
                let (numerator, denominator) = (u128::from(numerator), u128::from(denominator));
                ((numerator + denominator) * tp) as f64 / (numerator * p + denominator * (tp + fp)) as f64
            }
            Self::Mcc => {
                let (d, spread) = covariance(at, total);
                if spread == 0 {
                    0.0
                } else {
                    d as f64 / ((p * n) as f64 * spread as f64).sqrt()
                }
            }
        }
    }
}

/// tp·N − fp·P = tp·tn − fp·fn, and m(n−m) for m matches of n.
fn covariance(at: Point, total: Point) -> (i128, u128) {
    let (matches, all) = (u128::from(at.tp + at.fp), u128::from(total.tp + total.fp));
    let d = i128::from(at.tp) * i128::from(total.fp) - i128::from(at.fp) * i128::from(total.tp);
    (d, matches * (all - matches))
}

/// x·y in 256 bits, high half first.
fn product(x: u128, y: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (x1, x0, y1, y0) = (x >> 64, x & LOW, y >> 64, y & LOW);
    let low = x0 * y0;
    let middle = x1 * y0 + (low >> 64);
    let middle_low = (middle & LOW) + x0 * y1;
    (
        x1 * y1 + (middle >> 64) + (middle_low >> 64),
        (middle_low << 64) | (low & LOW),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Metric; 6] = [
        Metric::Accuracy,
        Metric::BalancedAccuracy,
        Metric::Youden,
        Metric::FBeta {
            numerator: 1,
            denominator: 1,
        },
        Metric::FBeta {
            numerator: 1,
            denominator: 4,
        },
        Metric::Mcc,
    ];

    #[test]
    fn wide_products_match_school_arithmetic() {
        assert_eq!(product(u128::MAX, u128::MAX), (u128::MAX - 1, 1), "(2^128 - 1)^2");
        assert_eq!(product(u128::MAX, 1 << 64), ((1 << 64) - 1, u128::MAX << 64), "a shift");
        assert_eq!(product(3, 5), (0, 15), "small numbers");
    }

    #[test]
    fn counts_up_to_the_limit_do_not_overflow() {
        let total = Point {
            tp: 1 << 31,
            fp: 1 << 31,
        };
        for metric in ALL {
            metric.check(total).expect("within the limit");
            let (all, most) = (total, Point { tp: total.tp, fp: 0 });
            assert!(metric.better(most, all, total), "{metric:?}: perfect beats everything");
            assert!(
                metric.better(
                    most,
                    Point {
                        tp: total.tp - 1,
                        fp: 0
                    },
                    total
                ),
                "{metric:?}: by one of 2^31"
            );
        }
        assert!(Metric::Mcc.check(Point { tp: 1 << 32, fp: 1 }).is_err(), "beyond it");
    }

    proptest! {
        #[test]
        fn metrics_grow_with_true_positives_and_fall_with_false_ones(p in 1u64..40, n in 1u64..40, a in 0u64..40, b in 0u64..40) {
            let total = Point { tp: p, fp: n };
            let at = Point { tp: a % p, fp: b % n };
            for metric in ALL {
                prop_assert!(!metric.better(at, Point { tp: at.tp + 1, fp: at.fp }, total), "{metric:?} by tp");
                prop_assert!(!metric.better(Point { tp: at.tp, fp: at.fp + 1 }, at, total), "{metric:?} by fp");
            }
        }

        #[test]
        fn exact_order_agrees_with_values_that_are_far_apart(p in 1u64..1000, n in 1u64..1000, x in any::<[u64; 4]>()) {
            let total = Point { tp: p, fp: n };
            let a = Point { tp: x[0] % (p + 1), fp: x[1] % (n + 1) };
            let b = Point { tp: x[2] % (p + 1), fp: x[3] % (n + 1) };
            for metric in ALL {
                let (va, vb) = (metric.value(a, total), metric.value(b, total));
                if (va - vb).abs() > 1e-12 {
                    prop_assert_eq!(metric.better(a, b, total), va > vb, "{:?}", metric);
                }
            }
        }
    }
}
