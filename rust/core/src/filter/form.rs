//! Rows as operands of an estimate: centred, scaled, with the bound on what that loses.
//!
//! Every distance that can be filtered has a *key* (smaller is nearer, what refinement computes in float64), and for
//! every pair, with `s > 0` the query's [`Operand::scale`] and both rows usable:
//!
//! - [`Shape::Squares`] and [`Shape::Products`]:
//!   |s·key − (offset_x + offset_y − ⟨x̃, ỹ⟩)| ≤ slack_x + slack_y + drift_x·norm_y + norm_x·drift_y
//! - [`Shape::Absolute`] and [`Shape::Largest`]:
//!   |s·key − ‖x̃ − ỹ‖| ≤ g·‖x̃ − ỹ‖ + slack_x + slack_y + drift_x + drift_y, in the 1-norm or the maximum norm
//!
//! where x̃ and ỹ are the float64 operands that this module writes. `drift` bounds how far the written operand is
//! from the one that makes the key an exact expression, `norm` bounds the norms of both.
//!
//! *Squares* (L2, normalised L2, SNR): with z the rows that refinement subtracts (for SNR less their own mean),
//! m any vector and s a power of two, s²‖zₓ − z_y‖² = N_x + N_y − ⟨2x', y'⟩ for x' = s(zₓ − m), N = ‖x'‖². The
//! query operand is 2x', the reference operand y', the offsets are the N. Computing N in float64 errs by at most
//! (d+4)·2⁻⁵³·N, refinement by (d/16+8)·2⁻⁵³ of a value that is at most 2(N_x+N_y); g·N with g = (d+32)·2⁻⁵² covers
//! both, and the rounding of the divisions in normalised forms. The slack after cancellation is absolute: a factor on the difference proves nothing.
//!
//! *Products* (dot, normalised dot, cosine): the key is −⟨zₓ, z_y⟩, with z divided by its norm for cosine. Each query
//! is scaled by its own power of two to a norm in [½, 1), which keeps its ranking; references are centred by m and
//! scaled together, and ⟨x̃, m'⟩ goes to the query's offset. Refinement errs by at most (d/16+10)·2⁻⁵³‖x̃‖(‖y'‖+‖m'‖).
//!
//! Subtracting m rounds each element by 2⁻⁵³ of the result: a drift of 2⁻⁵³·norm, exact scaling. SNR subtracts
//! the row's mean twice, here and (of the difference) in refinement; either is off by less than (d+32)·2⁻⁵³·M in
//! norm, M = √d·max|z|. Where squares of refinement underflow it is off by d·2⁻¹⁰⁷⁴ more.

#![expect(clippy::doc_markdown, reason = "formulas are no code")]

use super::terms::{Term, amount};
use crate::distance::{Distance, Kind, NORM_FLOOR};
use crate::matrix::Rows;
use crate::reference::{max_with_nan, normalized, p_norm, scatter as scatter_of};

/// Rows are handled in groups of this many elements, padded with zeros.
pub const GROUP: usize = 16;

/// References that are looked at for the mean and the scale.
const SAMPLE: usize = 256;

/// A scaled norm above this is not usable: products of float32 operands stay finite with room to spare.
const LARGEST_NORM: f64 = (1_u64 << 40) as f64;

/// Finite float64 rows with a larger sum of squares are refused.
pub(crate) const LARGEST_SQUARE: f64 = 1e306;

/// No less than the square root of a square that underflows.
const SQUARE_ROOT_OF_LOST: f64 = f64::from_bits((1023 - 536) << 52);

/// The expression that a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Offsets less a product, from a squared difference: both offsets are squared norms.
    Squares,
    /// A product; query operands have norm at most 1.
    Products,
    /// Sum of absolute differences.
    Absolute,
    /// Largest absolute difference.
    Largest,
}

/// The scalars of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operand {
    /// What the row adds to the scaled key.
    pub offset: f64,
    /// The row's part of the error that does not multiply the other row.
    pub slack: f64,
    /// No less than the norm (2, 1 or ∞, as the shape has it) of the operand, written or exact.
    pub norm: f64,
    /// No less than the norm of the difference between the written and the exact operand.
    pub drift: f64,
    /// Scaled keys are keys times this; a query's alone matters.
    pub scale: f64,
}

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fate {
    /// It takes part in the estimate.
    Usable(Operand),
    /// Its estimates would be worthless: every pair of it must be refined.
    Unknown,
    /// It holds NaN, so all its values are NaN, and those never come before a number.
    Nan,
    /// It is finite and its squares are not.
    TooLarge,
}

/// How rows of a distance become operands, for one search.
#[derive(Debug, Clone)]
pub struct Form {
    shape: Shape,
    row: RowForm,
    features: usize,
    /// Subtracted from rows; padded.
    mean: Vec<f64>,
    /// Norm of the scaled mean, no less.
    mean_norm: f64,
    /// Power of two that references are multiplied by.
    scale: f64,
    /// Whether finite rows can be too large for their squares.
    refuses_large: bool,
}

/// What refinement does to a row before it combines two of them.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RowForm {
    Plain,
    Divided(f64),
    Unit,
    Deviation(Option<f64>),
}

impl Form {
    /// The expression of the keys of `distance`, if it has a filter.
    #[must_use]
    pub fn possible(distance: &Distance) -> Option<Shape> {
        match distance.kind {
            Kind::Lp(2.0) | Kind::Snr => Some(Shape::Squares),
            Kind::Lp(1.0) => Some(Shape::Absolute),
            Kind::Lp(f64::INFINITY) => Some(Shape::Largest),
            Kind::Lp(_) => None,
            Kind::Dot | Kind::Cosine => Some(Shape::Products),
        }
    }

    /// The form of `distance`, fitted to a sample of `reference`; none if the distance has no filter.
    #[must_use]
    pub fn fit(distance: &Distance, reference: Rows<'_>) -> Option<Self> {
        let shape = Self::possible(distance)?;
        let row = match (distance.kind, distance.normalize) {
            (Kind::Cosine, _) => RowForm::Unit,
            (Kind::Snr, p) => RowForm::Deviation(p),
            (_, Some(p)) => RowForm::Divided(p),
            (_, None) => RowForm::Plain,
        };
        let features = reference.features();
        let mut form = Self {
            shape,
            row,
            features,
            mean: vec![0.0; padded(features)],
            mean_norm: 0.0,
            scale: 1.0,
            refuses_large: distance.refuses_large(reference.dtype()),
        };
        form.fit_to_sample(reference);
        Some(form)
    }

    /// The expression of the key.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Length of the buffer that an operand is written to; the elements past the features are 0.
    #[must_use]
    pub fn padded(&self) -> usize {
        self.mean.len()
    }

    /// g: the relative slack of float64 evaluation.
    #[must_use]
    pub fn evaluation(&self) -> f64 {
        amount(Term::Evaluation, (count(self.features) + 32.0) * 2.0_f64.powi(-52))
    }

    fn fit_to_sample(&mut self, reference: Rows<'_>) {
        let mut buffer = vec![0.0; self.padded()];
        let mut sample = Vec::new();
        let stride = reference.len().div_ceil(SAMPLE).max(1);
        for i in (0..reference.len()).step_by(stride) {
            widen_into(reference, i, &mut buffer);
            if self.transform(&mut buffer).is_finite() && buffer.iter().all(|x| x.is_finite()) {
                sample.extend_from_slice(&buffer);
            }
        }
        let rows = || sample.chunks_exact(buffer.len().max(1));
        if rows().len() == 0 {
            return;
        }
        let n = count(rows().len());
        let mut mean = vec![0.0; buffer.len()];
        rows().for_each(|row| mean.iter_mut().zip(row).for_each(|(m, x)| *m += x / n));
        let (mut spread, mut square) = (0.0, 0.0);
        for row in rows() {
            spread += row.iter().zip(&mean).map(|(x, m)| (x - m) * (x - m)).sum::<f64>();
            square += row.iter().map(|x| x * x).sum::<f64>();
        }
        // A mean that hardly shortens the rows only costs them the bits that make float32 operands exact.
        if self.shape == Shape::Largest || !(spread < 0.9 * square && square.is_finite()) {
            mean.fill(0.0);
        }
        // The same for digits of the mean far below the spread.
        let grid = power_of_two_above((spread / n / count(self.features.max(1))).sqrt()) / 8.0;
        if grid.is_normal() {
            mean.iter_mut().for_each(|m| {
                *m = if (*m / grid).abs() < 1e15 {
                    (*m / grid).round() * grid
                } else {
                    *m
                }
            });
        }
        let norm_of = |row: &[f64]| self.norm(row.iter().zip(&mean).map(|(x, m)| x - m));
        let largest = rows().map(norm_of).fold(0.0, f64::max);
        if largest.is_finite() && largest > 0.0 {
            self.scale = 1.0 / power_of_two_above(largest).clamp(2.0_f64.powi(-1000), 2.0_f64.powi(1000));
        }
        self.mean_norm = enlarged(self.norm(mean.iter().map(|m| m * self.scale)));
        self.mean = mean;
    }

    fn norm(&self, row: impl Iterator<Item = f64>) -> f64 {
        match self.shape {
            Shape::Squares | Shape::Products => row.map(|x| x * x).sum::<f64>().sqrt(),
            Shape::Absolute => row.map(f64::abs).sum(),
            Shape::Largest => row.map(f64::abs).fold(0.0, max_with_nan),
        }
    }

    /// Makes `row` what refinement combines; returns the largest magnitude before a mean was subtracted (SNR), else 0.
    #[inline(always)]
    fn transform(&self, row: &mut [f64]) -> f64 {
        match self.row {
            RowForm::Plain => 0.0,
            RowForm::Divided(p) => {
                divide(row, self.features, p);
                0.0
            }
            RowForm::Unit => {
                divide(row, self.features, 2.0);
                0.0
            }
            RowForm::Deviation(p) => {
                if let Some(p) = p {
                    divide(row, self.features, p);
                }
                let row = &mut row[..self.features];
                let largest = row.iter().map(|x| x.abs()).fold(0.0, max_with_nan);
                let first = row.first().copied().unwrap_or(0.0);
                let mean = first + row.iter().map(|x| x - first).sum::<f64>() / count(row.len().max(1));
                row.iter_mut().for_each(|x| *x -= mean);
                largest
            }
        }
    }

    /// Turns a reference, widened into `row`, into its operand.
    #[inline(always)]
    pub fn reference(&self, row: &mut [f64]) -> Fate {
        match self.prepare(row, false) {
            Err(fate) => fate,
            Ok(parts) => self.finish(row, &parts, 1.0),
        }
    }

    /// Turns a query, widened into `row`, into its operand.
    #[inline(always)]
    pub fn query(&self, row: &mut [f64]) -> Fate {
        match self.prepare(row, true) {
            Err(fate) => fate,
            Ok(parts) => match self.shape {
                Shape::Products => self.finish_product(row, &parts),
                Shape::Squares => self.finish(row, &parts, 2.0),
                Shape::Absolute | Shape::Largest => self.finish(row, &parts, 1.0),
            },
        }
    }

    #[inline(always)]
    fn prepare(&self, row: &mut [f64], query: bool) -> Result<Parts, Fate> {
        let squares = sum_of(row, |x| x * x);
        if !squares.is_finite() || squares > LARGEST_SQUARE {
            let fate = if row.iter().any(|x| x.is_nan()) {
                Fate::Nan
            } else if self.refuses_large && row.iter().all(|x| x.is_finite()) {
                Fate::TooLarge
            } else {
                Fate::Unknown
            };
            // Where no square is taken, a sum that overflows says nothing yet.
            if fate != Fate::Unknown || self.refuses_large {
                return Err(fate);
            }
        }
        let mut scatter = 1.0;
        if let RowForm::Deviation(p) = self.row
            && query
        {
            scatter = scatter_of(&normalized(&row[..self.features], p));
            // A query without scatter has no finite value.
            if scatter.is_nan() || scatter <= 1e-290 {
                return Err(Fate::Unknown);
            }
        }
        let largest = self.transform(row);
        let centre = !(query && self.shape == Shape::Products);
        let scale = if query && self.shape == Shape::Products {
            query_scale(row)
        } else {
            self.scale
        };
        if centre {
            row.iter_mut().zip(&self.mean).for_each(|(x, m)| *x = (*x - m) * scale);
        } else {
            row.iter_mut().for_each(|x| *x *= scale);
        }
        Ok(Parts {
            largest,
            scatter,
            scale,
        })
    }

    #[inline(always)]
    fn finish(&self, row: &mut [f64], parts: &Parts, factor: f64) -> Fate {
        let (norm, square) = match self.shape {
            Shape::Squares | Shape::Products => {
                let square = sum_of(row, |x| x * x);
                (square.sqrt(), square)
            }
            Shape::Absolute => (sum_of(row, f64::abs), 0.0),
            Shape::Largest => (row.iter().map(|x| x.abs()).fold(0.0, max_with_nan), 0.0),
        };
        if norm.is_nan() || norm > LARGEST_NORM {
            return Fate::Unknown;
        }
        let d = count(self.features);
        let norm = enlarged(norm) + SQUARE_ROOT_OF_LOST * d;
        let mut drift = amount(Term::Drift, norm * 2.0_f64.powi(-53));
        if matches!(self.row, RowForm::Deviation(_)) {
            drift += amount(
                Term::Drift,
                (d + 32.0) * 2.0_f64.powi(-51) * parts.largest * d.sqrt() * parts.scale,
            );
        }
        let underflow = amount(Term::Underflow, d * 2.0_f64.powi(-1074));
        let g = self.evaluation();
        let (offset, slack, scale) = match self.shape {
            Shape::Squares => {
                let scale = parts.scale * parts.scale;
                let slack = g * square + 2.0 * norm * drift + drift * drift + underflow * scale;
                (square, slack, scale * parts.scatter)
            }
            Shape::Products => (0.0, g * norm, parts.scale),
            Shape::Absolute | Shape::Largest => (0.0, 0.0, parts.scale),
        };
        if factor != 1.0 {
            row.iter_mut().for_each(|x| *x *= factor);
        }
        if !(slack.is_finite() && scale.is_normal()) {
            return Fate::Unknown;
        }
        Fate::Usable(Operand {
            offset,
            slack,
            norm: (norm + drift) * factor,
            drift: drift * factor,
            scale,
        })
    }

    #[inline(always)]
    fn finish_product(&self, row: &mut [f64], parts: &Parts) -> Fate {
        let norm = enlarged(sum_of(row, |x| x * x).sqrt()) + SQUARE_ROOT_OF_LOST * count(self.features);
        let scale = parts.scale * self.scale;
        let product: f64 = {
            let mut lanes = [0.0; GROUP];
            let (rows, _) = row.as_chunks::<GROUP>();
            let (means, _) = self.mean.as_chunks::<GROUP>();
            for (x, m) in rows.iter().zip(means) {
                for ((lane, x), m) in lanes.iter_mut().zip(x).zip(m) {
                    *lane += x * (m * self.scale);
                }
            }
            lanes.iter().sum()
        };
        // Refinement divides what underflowed by two norms, neither less than 1e-12.
        let divided = if self.row == RowForm::Unit { 1.001e24 } else { 1.0 };
        let underflow = amount(Term::Underflow, divided * count(self.features) * 2.0_f64.powi(-1074));
        let slack = self.evaluation() * 2.0 * self.mean_norm + underflow * scale;
        if norm.is_nan() || norm > 1.0 + 2e-9 || !slack.is_finite() || !scale.is_normal() || !product.is_finite() {
            return Fate::Unknown;
        }
        // Unit rows are divided by a norm: one more rounding than scaling by a power of two.
        let drift = amount(Term::Drift, norm * 2.0_f64.powi(-53));
        Fate::Usable(Operand {
            offset: -product,
            slack,
            norm: norm + drift,
            drift,
            scale,
        })
    }
}

struct Parts {
    /// Largest magnitude before a row's own mean was subtracted.
    largest: f64,
    /// The query's scatter for SNR, else 1.
    scatter: f64,
    /// What the row was multiplied by.
    scale: f64,
}

/// `features` rounded up to whole groups.
#[must_use]
pub fn padded(features: usize) -> usize {
    features.next_multiple_of(GROUP)
}

/// Row `i` widened into the start of `row`, zeros after it.
#[inline(always)]
pub fn widen_into(rows: Rows<'_>, i: usize, row: &mut [f64]) {
    let features = rows.features();
    crate::with_format!(rows, F, view => {
        let source = view.row(i);
        match source.as_slice() {
            Some(source) => row
                .iter_mut()
                .zip(source)
                .for_each(|(to, &from)| *to = <F as crate::matrix::Format>::widen(from)),
            None => row
                .iter_mut()
                .zip(source.iter())
                .for_each(|(to, &from)| *to = <F as crate::matrix::Format>::widen(from)),
        }
    });
    row[features..].fill(0.0);
}

#[inline(always)]
fn divide(row: &mut [f64], features: usize, p: f64) {
    let norm = if p == 2.0 {
        sum_of(row, |x| x * x).sqrt()
    } else {
        p_norm(row[..features].iter().copied(), p)
    };
    // Written so that a NaN norm stays.
    let norm = if norm < NORM_FLOOR { NORM_FLOOR } else { norm };
    row.iter_mut().for_each(|x| *x /= norm);
}

/// Sum over whole groups in the fixed lane order.
#[inline(always)]
fn sum_of(row: &[f64], term: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; GROUP];
    let (groups, _) = row.as_chunks::<GROUP>();
    for group in groups {
        for (lane, &x) in lanes.iter_mut().zip(group) {
            *lane += term(x);
        }
    }
    for half in [8, 4, 2, 1] {
        for j in 0..half {
            lanes[j] += lanes[j + half];
        }
    }
    lanes[0]
}

/// The power of two that brings the norm of `row` into [½, 1).
fn query_scale(row: &[f64]) -> f64 {
    let norm = sum_of(row, |x| x * x).sqrt();
    if norm > 0.0 && norm.is_finite() {
        // One more factor of two where rounding the norm down would leave it above 1.
        0.5 / power_of_two_above(norm * 0.5 * (1.0 + 1e-12)).clamp(2.0_f64.powi(-1000), 2.0_f64.powi(1000))
    } else {
        1.0
    }
}

/// The smallest power of two above `x`, which is positive and finite.
fn power_of_two_above(x: f64) -> f64 {
    let exponent = libm::frexp(x).1;
    libm::ldexp(1.0, exponent)
}

/// A little more than a norm that was computed in float64.
fn enlarged(norm: f64) -> f64 {
    norm * (1.0 + 1e-9)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}
