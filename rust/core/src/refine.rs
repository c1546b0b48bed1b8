//! Exact values: the key by which rows are ordered, and the value that is returned for it.
//!
//! A *key* is a float64 number, smaller is nearer: the sum of squares for Euclidean distance, the p-norm for the other
//! p, similarities negated; before roots and powers, which [`Exact::value`] applies. The value never decreases along
//! the keys (never increases, for a similarity), so [`Exact::interval`] can say which keys give at most, and at least,
//! a value. Where `power` breaks the order of the raw numbers, the key is the value itself, and no filter that bounds
//! the raw number may be used: [`Exact::filterable`].

use crate::distance::{Distance, Kind};
use crate::isa::{Portable, Simd};
use crate::matrix::{Dtype, Format};
use crate::metric::lp::Order;
use crate::metric::power::Power;
use crate::metric::{Group, cosine, dot, lp, normal, snr};
use crate::reference::{canonical, fixed_pow, rounded};

/// The exact side of a search.
#[derive(Debug, Clone, Copy)]
pub struct Exact {
    distance: Distance,
    to_f64: bool,
    formula: Formula,
    /// Whether the key is the raw number, and not the value.
    raw_keys: bool,
}

#[derive(Debug, Clone, Copy)]
enum Formula {
    Lp(Order),
    Dot,
    Cosine,
    Snr,
}

/// A query row made ready: widened, normalised, padded to whole groups of sixteen.
#[derive(Debug, Clone, Default)]
pub struct ExactQuery {
    groups: Vec<Group>,
    features: usize,
    /// The floored norm (cosine) or the scatter (SNR).
    scalar: f64,
}

impl ExactQuery {
    /// The row as it enters the formula, without the padding.
    #[must_use]
    pub fn row(&self) -> &[f64] {
        &self.groups.as_flattened()[..self.features]
    }

    /// The floored norm for cosine, the scatter for SNR, else 0.
    #[must_use]
    pub fn scalar(&self) -> f64 {
        self.scalar
    }
}

/// The keys that go with a value ρ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// τ⁻, the smallest key whose value is not nearer than ρ.
    pub low: f64,
    /// τ⁺, the largest key whose value is not farther than ρ.
    pub high: f64,
}

impl Exact {
    /// For `distance` between rows of `dtype`.
    #[must_use]
    pub fn new(distance: &Distance, dtype: Dtype) -> Self {
        let formula = match distance.kind {
            Kind::Lp(p) => Formula::Lp(Order::new(p)),
            Kind::Dot => Formula::Dot,
            Kind::Cosine => Formula::Cosine,
            Kind::Snr => Formula::Snr,
        };
        Self {
            distance: *distance,
            to_f64: dtype.returns_f64(),
            formula,
            raw_keys: Power::new(distance.power).keeps_order(distance.is_inverted()),
        }
    }

    /// The distance that it is for.
    pub(crate) fn distance(&self) -> &Distance {
        &self.distance
    }

    /// Whether keys are raw numbers (squared distance, norm, negated product) that a filter's bound can speak of.
    #[must_use]
    pub fn filterable(&self) -> bool {
        self.raw_keys
    }

    /// Whether [`Exact::reference_scalar`] exists: then it is worth keeping for a row that meets several queries.
    #[must_use]
    pub fn has_reference_scalar(&self) -> bool {
        self.reference_norm().is_some()
    }

    /// The p of the norm that goes with each reference row.
    fn reference_norm(&self) -> Option<f64> {
        match self.formula {
            Formula::Cosine => Some(2.0),
            _ => self.distance.normalize,
        }
    }

    /// Makes a widened query row ready.
    #[must_use]
    pub fn prepare_query(&self, row: &[f64]) -> ExactQuery {
        let mut query = ExactQuery::default();
        self.prepare_query_into(Portable::default(), row, &mut query);
        query
    }

    /// Makes a widened query row ready, in place of the one that `query` held.
    pub fn prepare_query_into<S: Simd>(&self, s: S, row: &[f64], query: &mut ExactQuery) {
        use crate::matrix::F64;
        let norm = self
            .distance
            .normalize
            .map(|p| normal::floored_norm::<S, F64>(s, row, p));
        normal::prepare(s, row, norm, &mut query.groups);
        query.features = row.len();
        query.scalar = match self.formula {
            Formula::Cosine => normal::floored_norm::<S, F64>(s, row, 2.0),
            Formula::Snr => snr::scatter(s, query.row()),
            _ => 0.0,
        };
    }

    /// The floored norm of a reference row, by which the row or its products are divided; `None` if nothing is.
    #[must_use]
    pub fn reference_scalar<S: Simd, F: Format>(&self, s: S, row: &[F::Stored]) -> Option<f64> {
        self.reference_norm().map(|p| normal::floored_norm::<S, F>(s, row, p))
    }

    /// The key of a reference row; `scalar` is its [`Exact::reference_scalar`], computed here if it is `None`.
    ///
    /// NaN where the formula gives NaN.
    #[must_use]
    pub fn key<S: Simd, F: Format>(&self, s: S, query: &ExactQuery, row: &[F::Stored], scalar: Option<f64>) -> f64 {
        assert_eq!(row.len(), query.features, "a row of another length");
        let x = &query.groups[..];
        let norm = match (scalar, self.distance.normalize) {
            (Some(_), _) => scalar,
            (None, Some(p)) => Some(normal::floored_norm::<S, F>(s, row, p)),
            (None, None) => None,
        };
        let measure = match self.formula {
            Formula::Lp(order) => lp::measure::<S, F>(s, order, x, row, norm),
            Formula::Dot => dot::measure::<S, F>(s, x, row, norm),
            Formula::Cosine => cosine::measure::<S, F>(s, x, query.scalar, row, scalar),
            Formula::Snr => snr::measure::<S, F>(s, x, query.scalar, row, norm),
        };
        self.key_of(measure)
    }

    #[inline]
    fn key_of(&self, measure: f64) -> f64 {
        let raw = match (self.formula, self.distance.kind) {
            // A root by `pow` is not known to keep the order, so it comes before the key.
            (Formula::Lp(Order::Other(_)), Kind::Lp(p)) => normal::root(measure, p),
            _ => measure,
        };
        let key = if self.raw_keys { raw } else { self.finish(raw) };
        if self.distance.is_inverted() { -key } else { key }
    }

    /// What is left to do to a raw number before it is rounded.
    #[inline]
    fn finish(&self, raw: f64) -> f64 {
        let power = self.distance.power;
        match self.formula {
            Formula::Lp(Order::Two) if power == 2.0 => raw,
            Formula::Lp(Order::Two) => fixed_pow(raw.sqrt(), power),
            _ => fixed_pow(raw, power),
        }
    }

    /// The value that is returned for a key: rounded to the output type, canonical, as float64.
    #[must_use]
    #[inline]
    pub fn value(&self, key: f64) -> f64 {
        let raw = if self.distance.is_inverted() { -key } else { key };
        let value = if self.raw_keys { self.finish(raw) } else { raw };
        rounded(canonical(value), self.to_f64)
    }

    /// The keys that go with the value `value`, which must be one that [`Exact::value`] returns.
    ///
    /// A pair whose key has the lower bound L loses to (value, index) iff `L > high`, or its own index is larger and
    /// `L >= low`. For NaN, to which nothing loses by its key, that is (NaN, +∞).
    #[must_use]
    pub fn interval(&self, value: f64) -> Interval {
        if value.is_nan() {
            return Interval {
                low: f64::NAN,
                high: f64::INFINITY,
            };
        }
        let sign = if self.distance.is_inverted() { -1.0 } else { 1.0 };
        // Non-decreasing along the keys.
        let order = |key: f64| sign * self.value(key);
        let nearness = sign * value;
        // Raw distances are never negative, and the square root of a negative key would be NaN.
        let least = if self.raw_keys && !self.distance.is_inverted() {
            0.0
        } else {
            f64::NEG_INFINITY
        };
        let high = last_key(self.guess(nearness, true), least, |key| order(key) <= nearness);
        let below = last_key(self.guess(nearness, false), least, |key| order(key) < nearness);
        Interval {
            low: below.map_or(f64::NEG_INFINITY, f64::next_up),
            high: high.unwrap_or(f64::NEG_INFINITY),
        }
    }

    /// About where the keys of the values beyond (or before) `nearness` begin.
    fn guess(&self, nearness: f64, beyond: bool) -> f64 {
        let edge = if self.to_f64 {
            nearness
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "a returned value is a float32")]
            let single = nearness as f32;
            let next = if beyond { single.next_up() } else { single.next_down() };
            f64::midpoint(nearness, f64::from(next))
        };
        if !self.raw_keys {
            return edge;
        }
        let root = match self.distance.power {
            1.0 => edge,
            2.0 => edge.abs().sqrt(),
            power => libm::pow(edge.abs(), 1.0 / power).copysign(edge),
        };
        match self.formula {
            Formula::Lp(Order::Two) if self.distance.power == 2.0 => edge,
            Formula::Lp(Order::Two) => root * root,
            _ => root,
        }
    }
}

/// The last float64 number from `least` on for which `test` holds, if it holds for any; it must hold up to some number
/// and for none beyond. Found from `guess` in steps that double, so that a good guess costs few of them.
fn last_key(guess: f64, least: f64, test: impl Fn(f64) -> bool) -> Option<f64> {
    let (bottom, top) = (ordinal(least), ordinal(f64::INFINITY));
    let holds = |at: i64| test(from_ordinal(at));
    let guess = if guess.is_nan() {
        bottom
    } else {
        ordinal(guess).clamp(bottom, top)
    };
    let mut step = 1_i64;
    let (mut good, mut bad);
    if holds(guess) {
        (good, bad) = (guess, guess);
        while bad == good {
            if good == top {
                return Some(from_ordinal(top));
            }
            let next = good.saturating_add(step).min(top);
            if holds(next) {
                (good, bad) = (next, next);
            } else {
                bad = next;
            }
            step = step.saturating_mul(2);
        }
    } else {
        (good, bad) = (guess, guess);
        while good == bad {
            if bad == bottom {
                return None;
            }
            let next = bad.saturating_sub(step).max(bottom);
            if holds(next) {
                good = next;
            } else {
                (good, bad) = (next, next);
            }
            step = step.saturating_mul(2);
        }
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) { good = middle } else { bad = middle }
    }
    Some(from_ordinal(good))
}

/// The place of a number among all float64, in ascending order.
fn ordinal(x: f64) -> i64 {
    let bits = x.to_bits().cast_signed();
    if bits < 0 { i64::MIN - bits } else { bits }
}

fn from_ordinal(at: i64) -> f64 {
    let bits = if at < 0 { i64::MIN - at } else { at };
    f64::from_bits(bits.cast_unsigned())
}

pub mod panel;
#[cfg(test)]
mod tests;
