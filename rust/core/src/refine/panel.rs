//! Exact values of sixteen queries at once, for whoever wants the values of all pairs.
//!
//! Pays from about five queries on: a panel costs the same however few of its places are taken.

use super::{Exact, ExactQuery, Formula};
use crate::isa::Simd;
use crate::matrix::Format;
use crate::metric::lp::Order;
use crate::metric::{Group, columns, groups};

/// Queries of a panel.
pub const QUERIES: usize = 16;

/// Fewer queries than this are better served one by one.
pub const WORTH: usize = 5;

/// Up to sixteen queries, stored by feature.
#[derive(Debug, Clone, Default)]
pub struct Panel {
    columns: Vec<Group>,
    scalars: Group,
}

/// Reference rows made ready to meet panels: widened, normalised.
#[derive(Debug, Clone, Default)]
pub struct ReadyRows {
    groups: Vec<Group>,
    scalars: Vec<f64>,
    features: usize,
}

impl ReadyRows {
    /// Removes all rows.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.scalars.clear();
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scalars.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scalars.is_empty()
    }

    /// Adds a row as it is stored; all rows must be of one length.
    pub fn push<S: Simd, F: Format>(&mut self, s: S, exact: &Exact, row: &[F::Stored]) {
        self.features = row.len();
        let scalar = exact.reference_scalar::<S, F>(s, row);
        self.scalars.push(scalar.unwrap_or(1.0));
        let start = self.groups.len();
        self.groups.resize(start + row.len().div_ceil(16), [0.0; 16]);
        let ready = &mut self.groups[start..];
        let norm = exact.distance.normalize.and(scalar);
        s.vectorize(
            #[inline(always)]
            || {
                groups::<S, F>(
                    s,
                    row,
                    #[inline(always)]
                    |i, lanes, _| {
                        let lanes = match norm {
                            Some(norm) => s.div(lanes, s.splat(norm)),
                            None => lanes,
                        };
                        s.store(lanes, &mut ready[i]);
                    },
                );
            },
        );
    }

    #[inline(always)]
    fn row(&self, i: usize) -> &[f64] {
        let stride = self.features.div_ceil(16);
        self.groups[i * stride..(i + 1) * stride].as_flattened()
    }
}

impl Exact {
    /// Stores up to sixteen queries of one length by feature; the last one stands in the places that are left.
    pub fn panel_into(&self, queries: &[ExactQuery], panel: &mut Panel) {
        let Some(last) = queries.last() else { return };
        panel.columns.clear();
        panel.columns.resize(last.features, [0.0; QUERIES]);
        for place in 0..QUERIES {
            let query = queries.get(place).unwrap_or(last);
            panel.scalars[place] = query.scalar;
            for (column, &element) in panel.columns.iter_mut().zip(query.row()) {
                column[place] = element;
            }
        }
    }

    /// Writes the key of each pair to `keys`, a group for each row; [`Exact::key`] gives the same bits.
    #[cfg(test)]
    pub(super) fn keys<S: Simd>(&self, s: S, panel: &Panel, rows: &ReadyRows, keys: &mut [Group]) {
        self.measures(s, panel, rows, keys);
        for key in keys[..rows.len()].as_flattened_mut() {
            *key = self.key_of(*key);
        }
    }

    /// Writes the value of each pair to `values`, a group for each row: what [`Exact::value`] gives of its key.
    pub fn values<S: Simd>(&self, s: S, panel: &Panel, rows: &ReadyRows, values: &mut [Group]) {
        self.measures(s, panel, rows, values);
        let values = values[..rows.len()].as_flattened_mut();
        let plain = self.distance.power == 1.0 && self.raw_keys;
        match (self.formula, self.to_f64) {
            // The commonest, in a form that the compiler turns into vectors.
            (Formula::Lp(Order::Two), false) if plain => s.vectorize(
                #[inline(always)]
                || {
                    for value in values {
                        *value = single(value.sqrt());
                    }
                },
            ),
            (Formula::Dot | Formula::Cosine | Formula::Lp(Order::One | Order::Infinity), false) if plain => s
                .vectorize(
                    #[inline(always)]
                    || {
                        for value in values {
                            *value = single(*value);
                        }
                    },
                ),
            _ => {
                for value in values {
                    *value = self.value(self.key_of(*value));
                }
            }
        }
    }

    /// The raw number of each pair.
    fn measures<S: Simd>(&self, s: S, panel: &Panel, rows: &ReadyRows, out: &mut [Group]) {
        assert!(
            rows.is_empty() || rows.features == panel.columns.len(),
            "rows of another length"
        );
        assert!(out.len() >= rows.len(), "a place for each row");
        s.vectorize(
            #[inline(always)]
            || {
                let mut i = 0;
                while i + 2 <= rows.len() {
                    let pair = self.measure_rows::<S, 2>(s, panel, rows, i);
                    s.store(pair[0], &mut out[i]);
                    s.store(pair[1], &mut out[i + 1]);
                    i += 2;
                }
                if i < rows.len() {
                    let [last] = self.measure_rows::<S, 1>(s, panel, rows, i);
                    s.store(last, &mut out[i]);
                }
            },
        );
    }

    #[inline(always)]
    fn measure_rows<S: Simd, const R: usize>(&self, s: S, panel: &Panel, rows: &ReadyRows, i: usize) -> [S::Lanes; R] {
        let columns = &panel.columns[..];
        let mut each = [&[][..]; R];
        for (r, row) in each.iter_mut().enumerate() {
            *row = rows.row(i + r);
        }
        match self.formula {
            Formula::Lp(order) => columns::lp::<S, R>(s, order, columns, each),
            Formula::Dot => columns::dot::<S, R>(s, columns, each),
            Formula::Cosine => {
                let mut cosines = columns::dot::<S, R>(s, columns, each);
                let norms = s.load(&panel.scalars);
                for (r, cosine) in cosines.iter_mut().enumerate() {
                    *cosine = s.div(*cosine, s.mul(norms, s.splat(rows.scalars[i + r])));
                }
                cosines
            }
            Formula::Snr => {
                let mut ratios = columns::scatter::<S, R>(s, columns, each);
                let scatter = s.load(&panel.scalars);
                for ratio in &mut ratios {
                    *ratio = s.div(*ratio, scatter);
                }
                ratios
            }
        }
    }
}

/// `value`, canonical and rounded to float32.
#[inline(always)]
fn single(value: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "this is the one rounding to the output type"
    )]
    let rounded = f64::from(value as f32) + 0.0;
    if value.is_nan() { f64::NAN } else { rounded }
}
