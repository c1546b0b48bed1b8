//! Rows as 8-bit codes, and what that loses.

use crate::filter::form::count;
use crate::isa::int8::{Tile, half, padding};

/// Adding it rounds a small float64 to a whole number, which then stands in the low bits.
pub(super) const WHOLE: f64 = 1.5 * (1_u64 << 52) as f64;

/// Lanes of the sums below.
const LANES: usize = 16;

/// A float64 norm enlarged by more than its own rounding, and by what underflows in a square.
const ENLARGED: f64 = 1.0 + 1e-9;
const UNDERFLOW: f64 = f64::from_bits((1023 - 500) << 52);

/// The norms of a quantised row, neither less than the true one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Norms {
    /// ‖x − s·a‖: what the codes do not hold.
    pub(super) lost: f64,
    /// ‖s·a‖: what they do.
    pub(super) kept: f64,
}

/// Length of a buffer of codes for an operand of `padded` elements.
pub(super) const fn code_length(padded: usize) -> usize {
    padded.next_multiple_of(32)
}

/// Writes the codes a of `row`, of a query or of a reference, such that s·a is near it. `scale` has at most 24 significant bits, so s·a is exact.
#[inline(always)]
pub(super) fn quantize<T: Tile, const QUERY: bool>(row: &[f64], scale: f64, codes: &mut [i16]) -> Norms {
    let limit = f64::from(T::LIMIT);
    let inverse = 1.0 / scale;
    let mut lost = [0.0; LANES];
    let mut squares = [0.0; LANES];
    let (rows, _) = row.as_chunks::<LANES>();
    let (to, _) = codes.as_chunks_mut::<LANES>();
    for (row, to) in rows.iter().zip(to) {
        for j in 0..LANES {
            let shifted = (row[j] * inverse).clamp(-limit, limit) + WHOLE;
            let code = shifted - WHOLE;
            let error = row[j] - scale * code;
            lost[j] += error * error;
            squares[j] += code * code;
            #[expect(clippy::cast_possible_truncation, reason = "the low bits are the code")]
            let bits = shifted.to_bits() as i16;
            to[j] = bits;
        }
    }
    if T::GROUP > 0 && (QUERY && obey_pairs::<T>(codes)) | obey_squares::<T>(codes) {
        return norms_of(row, scale, codes);
    }
    norms(&lost, &squares, scale)
}

#[inline(always)]
fn norms(lost: &[f64; LANES], squares: &[f64; LANES], scale: f64) -> Norms {
    let norm = |squares: f64| squares.sqrt() * ENLARGED + UNDERFLOW;
    Norms {
        lost: norm(lost.iter().sum()),
        kept: scale * norm(squares.iter().sum()),
    }
}

#[cold]
fn norms_of(row: &[f64], scale: f64, codes: &[i16]) -> Norms {
    let mut lost = [0.0; LANES];
    let mut squares = [0.0; LANES];
    for (i, (x, &code)) in row.iter().zip(codes).enumerate() {
        let code = f64::from(code);
        let error = x - scale * code;
        lost[i % LANES] += error * error;
        squares[i % LANES] += code * code;
    }
    norms(&lost, &squares, scale)
}

/// Makes pairs of a query's codes smaller until they obey [`Tile::PAIR`]; whether any had to be.
#[inline(always)]
fn obey_pairs<T: Tile>(codes: &mut [i16]) -> bool {
    const { assert!(T::LIMIT <= T::PAIR, "only codes of one sign can be too large together") };
    let (pairs, _) = codes.as_chunks_mut::<2>();
    let largest = |most: i32, pair: &[i16; 2]| most.max((i32::from(pair[0]) + i32::from(pair[1])).abs());
    if pairs.iter().fold(0, largest) <= T::PAIR {
        return false;
    }
    for pair in pairs {
        let sum = largest(0, pair);
        if sum > T::PAIR {
            shrink(pair, f64::from(T::PAIR) / f64::from(sum));
        }
    }
    true
}

/// Makes codes smaller by a factor, towards zero, so that they obey whatever its rounding.
fn shrink<'a>(codes: impl IntoIterator<Item = &'a mut i16>, factor: f64) {
    for code in codes {
        #[expect(clippy::cast_possible_truncation, reason = "smaller than the code it replaces")]
        let smaller = (f64::from(*code) * factor * (1.0 - 1e-12)) as i16;
        *code = smaller;
    }
}

/// Makes half groups smaller until their squares obey [`Tile::SQUARES`]; whether any had to be.
#[inline(always)]
fn obey_squares<T: Tile>(codes: &mut [i16]) -> bool {
    let mut changed = false;
    for group in codes.chunks_exact_mut(padding::<T>()) {
        let mut sums = [0_i32; 2];
        for quad in group.as_chunks::<4>().0 {
            let [a, b, c, d] = quad.map(i32::from);
            sums[0] += a * a + b * b;
            sums[1] += c * c + d * d;
        }
        for (h, &sum) in sums.iter().enumerate() {
            if sum > T::SQUARES {
                let factor = (f64::from(T::SQUARES) / f64::from(sum)).sqrt();
                let of_half = |(i, code)| (half(i) == h).then_some(code);
                shrink(group.iter_mut().enumerate().filter_map(of_half), factor);
                changed = true;
            }
        }
    }
    changed
}

/// The scale that loses least of `rows` (each of `padded` elements), searched from `from` if that is positive.
#[inline(always)]
pub(super) fn fit<T: Tile, const QUERY: bool>(rows: &[f64], padded: usize, from: f64) -> f64 {
    let mut codes = vec![0; code_length(padded)];
    let mut total = |scale: f64| -> f64 {
        rows.chunks_exact(padded.max(1))
            .map(|row| quantize::<T, QUERY>(row, scale, &mut codes).lost)
            .sum()
    };
    let largest = rows.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    if largest <= 0.0 {
        return 1.0;
    }
    let widest = short(largest / f64::from(T::LIMIT));
    let mut best = (total(widest), widest);
    let attempt = |scale: f64, best: &mut (f64, f64), total: &mut dyn FnMut(f64) -> f64| {
        let scale = short(scale);
        let cost = total(scale);
        let better = cost < best.0;
        if better {
            *best = (cost, scale);
        }
        better
    };
    // Whole numbers lose nothing at a power of two.
    attempt(2.0_f64.powi(libm::ilogb(widest)) * 2.0, &mut best, &mut total);
    if from > 0.0 {
        attempt(from, &mut best, &mut total);
    } else {
        let mut worse = 0;
        let mut scale = widest;
        // Beyond outliers the total falls again: two steps up are no end.
        while worse < 6 && scale > widest * 1e-7 {
            scale *= std::f64::consts::FRAC_1_SQRT_2;
            worse = if attempt(scale, &mut best, &mut total) {
                0
            } else {
                worse + 1
            };
        }
    }
    for step in [1.25, 1.12, 1.06] {
        for step in [step, 1.0 / step] {
            while best.0 > 0.0 && attempt(best.1 * step, &mut best, &mut total) {}
        }
    }
    best.1
}

/// `scale` with 24 significant bits, in the range of float32.
fn short(scale: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "shortened on purpose")]
    let short = scale.clamp(2.0_f64.powi(-120), 2.0_f64.powi(100)) as f32;
    f64::from(short)
}

/// The most that |a·b| can be.
pub(super) fn largest_product<T: Tile>(features: usize) -> f64 {
    let limit = f64::from(T::LIMIT);
    count(features.next_multiple_of(padding::<T>())) * limit * limit
}
