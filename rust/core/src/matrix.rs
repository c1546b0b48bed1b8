//! Matrices of embeddings as they are stored: any of four element formats, any strides, never copied whole.

use std::fmt;

use half::{bf16, f16};
use ndarray::ArrayView2;

use crate::isa::Simd;

/// An element format: how a stored number is widened, exactly, to float64.
///
/// bfloat16 travels as its bits, since NumPy has no such type.
pub trait Format: Copy + Send + Sync + fmt::Debug + 'static {
    /// What memory holds.
    type Stored: Copy + Send + Sync + fmt::Debug + 'static;
    /// The format's name at run time.
    const DTYPE: Dtype;
    /// Zero as it is stored.
    const ZERO: Self::Stored;
    /// The stored number as float64; exact.
    fn widen(stored: Self::Stored) -> f64;
    /// Sixteen stored numbers as float64; exact.
    fn lanes<S: Simd>(simd: S, stored: &[Self::Stored; 16]) -> S::Lanes;
}

/// IEEE half precision.
#[derive(Debug, Clone, Copy)]
pub struct F16;
/// The upper half of a float32.
#[derive(Debug, Clone, Copy)]
pub struct Bf16;
/// IEEE single precision.
#[derive(Debug, Clone, Copy)]
pub struct F32;
/// IEEE double precision.
#[derive(Debug, Clone, Copy)]
pub struct F64;

/// A float16 as float32, without a branch or a look at the CPU (the `half` crate takes both).
///
/// The bits, moved to their places in a float32, make a number that is 2¹¹² times too small, subnormal ones included;
/// what comes out at 2¹⁶ or above was infinity or NaN.
#[inline(always)]
pub(crate) fn f16_to_f32(stored: f16) -> f32 {
    const SCALE: f32 = f32::from_bits((127 + 112) << 23);
    let bits = u32::from(stored.to_bits());
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * SCALE;
    let exponent = if magnitude >= 65_536.0 { 0x7f80_0000 } else { 0 };
    f32::from_bits(magnitude.to_bits() | exponent | (bits & 0x8000) << 16)
}

impl Format for F16 {
    type Stored = f16;
    const DTYPE: Dtype = Dtype::F16;
    const ZERO: f16 = f16::ZERO;
    #[inline(always)]
    fn widen(stored: f16) -> f64 {
        f64::from(f16_to_f32(stored))
    }
    #[inline(always)]
    fn lanes<S: Simd>(simd: S, stored: &[f16; 16]) -> S::Lanes {
        simd.widen_f16(stored)
    }
}

impl Format for Bf16 {
    type Stored = u16;
    const DTYPE: Dtype = Dtype::Bf16;
    const ZERO: u16 = 0;
    #[inline(always)]
    fn widen(stored: u16) -> f64 {
        f64::from(bf16::from_bits(stored).to_f32())
    }
    #[inline(always)]
    fn lanes<S: Simd>(simd: S, stored: &[u16; 16]) -> S::Lanes {
        simd.widen_bf16(stored)
    }
}

impl Format for F32 {
    type Stored = f32;
    const DTYPE: Dtype = Dtype::F32;
    const ZERO: f32 = 0.0;
    #[inline(always)]
    fn widen(stored: f32) -> f64 {
        f64::from(stored)
    }
    #[inline(always)]
    fn lanes<S: Simd>(simd: S, stored: &[f32; 16]) -> S::Lanes {
        simd.widen_f32(stored)
    }
}

impl Format for F64 {
    type Stored = f64;
    const DTYPE: Dtype = Dtype::F64;
    const ZERO: f64 = 0.0;
    #[inline(always)]
    fn widen(stored: f64) -> f64 {
        stored
    }
    #[inline(always)]
    fn lanes<S: Simd>(simd: S, stored: &[f64; 16]) -> S::Lanes {
        simd.load(stored)
    }
}

/// The element formats by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// float16
    F16,
    /// bfloat16
    Bf16,
    /// float32
    F32,
    /// float64
    F64,
}

impl Dtype {
    /// Whether results for this input are float64; they are float32 for every other.
    #[must_use]
    pub fn returns_f64(self) -> bool {
        self == Self::F64
    }

    /// Bytes of an element.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
        })
    }
}

/// Rows of embeddings, borrowed as they are stored.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// float16
    F16(ArrayView2<'a, f16>),
    /// bfloat16, as bits
    Bf16(ArrayView2<'a, u16>),
    /// float32
    F32(ArrayView2<'a, f32>),
    /// float64
    F64(ArrayView2<'a, f64>),
}

/// Runs `$body` with `$format` naming the format of `$rows` and `$view` its array view.
#[macro_export]
macro_rules! with_format {
    ($rows:expr, $format:ident, $view:ident => $body:expr) => {
        match $rows {
            $crate::matrix::Rows::F16($view) => {
                type $format = $crate::matrix::F16;
                $body
            }
            $crate::matrix::Rows::Bf16($view) => {
                type $format = $crate::matrix::Bf16;
                $body
            }
            $crate::matrix::Rows::F32($view) => {
                type $format = $crate::matrix::F32;
                $body
            }
            $crate::matrix::Rows::F64($view) => {
                type $format = $crate::matrix::F64;
                $body
            }
        }
    };
}

impl<'a> Rows<'a> {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        with_format!(self, _F, view => view.nrows())
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of features of each row.
    #[must_use]
    pub fn features(&self) -> usize {
        with_format!(self, _F, view => view.ncols())
    }

    /// Element format.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        with_format!(self, F, _view => <F as Format>::DTYPE)
    }

    /// Row `i` widened to float64.
    #[must_use]
    pub fn widened(&self, i: usize) -> Vec<f64> {
        with_format!(self, F, view => view.row(i).iter().map(|&s| <F as Format>::widen(s)).collect())
    }

    /// The same rows, borrowed for as long as `self` is: several matrices can then share a lifetime.
    #[must_use]
    pub fn view(&self) -> Rows<'_> {
        match self {
            Self::F16(view) => Rows::F16(view.view()),
            Self::Bf16(view) => Rows::Bf16(view.view()),
            Self::F32(view) => Rows::F32(view.view()),
            Self::F64(view) => Rows::F64(view.view()),
        }
    }

    /// Writes row `i`, widened to float64, to `out` in place of what it held.
    pub fn widen_into(&self, i: usize, out: &mut Vec<f64>) {
        out.clear();
        with_format!(self, F, view => out.extend(view.row(i).iter().map(|&s| <F as Format>::widen(s))));
    }

    /// Every `step`-th row, from the first on.
    #[must_use]
    pub fn every(&self, step: usize) -> Self {
        let rows = ndarray::s![..;step.cast_signed(), ..];
        match *self {
            Self::F16(view) => Self::F16(view.slice_move(rows)),
            Self::Bf16(view) => Self::Bf16(view.slice_move(rows)),
            Self::F32(view) => Self::F32(view.slice_move(rows)),
            Self::F64(view) => Self::F64(view.slice_move(rows)),
        }
    }

    /// The rows `start..end`.
    #[must_use]
    pub fn slice(&self, start: usize, end: usize) -> Self {
        let range = ndarray::s![start..end, ..];
        match *self {
            Self::F16(view) => Self::F16(view.slice_move(range)),
            Self::Bf16(view) => Self::Bf16(view.slice_move(range)),
            Self::F32(view) => Self::F32(view.slice_move(range)),
            Self::F64(view) => Self::F64(view.slice_move(range)),
        }
    }
}

/// Row `i` of `view` as a slice: in place where its elements are adjacent, copied to `scratch` where they are not.
#[inline]
pub fn contiguous<'a, T: Copy>(view: &'a ArrayView2<'_, T>, i: usize, scratch: &'a mut Vec<T>) -> &'a [T] {
    let row = view.row(i);
    match row.to_slice() {
        Some(slice) => slice,
        None => {
            scratch.clear();
            scratch.extend(row.iter().copied());
            scratch
        }
    }
}

/// Returned values in the output type of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// For float16, bfloat16 and float32 input.
    F32(Vec<f32>),
    /// For float64 input.
    F64(Vec<f64>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float16_widens_to_its_number() {
        for bits in 0..=u16::MAX {
            let (got, want) = (f16_to_f32(f16::from_bits(bits)), f16::from_bits(bits).to_f32());
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{bits:#x}: {got} {want}"
            );
        }
    }
}
