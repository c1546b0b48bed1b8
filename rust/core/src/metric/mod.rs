//! The formulas in sixteen lanes, one file per family.
//!
//! A kernel takes a prepared query (widened, normalised, padded with +0.0 to whole groups of sixteen) and a reference
//! row as it is stored. The padding changes no sum: a lane starts at +0.0, is never −0.0, and +0.0 is added to it.
//! Every kernel compiles itself for its instruction set, so it may be called from anywhere.

pub(crate) mod columns;
pub(crate) mod cosine;
pub(crate) mod dot;
pub(crate) mod lp;
pub(crate) mod normal;
pub(crate) mod power;
pub(crate) mod snr;

use crate::isa::Simd;
use crate::matrix::Format;

/// Sixteen elements of a prepared row.
pub(crate) type Group = [f64; 16];

/// Calls `step` with each sixteen elements of the row `y`, padded at the end with zeros, and how many are real.
#[inline(always)]
pub(crate) fn groups<S: Simd, F: Format>(s: S, y: &[F::Stored], mut step: impl FnMut(usize, S::Lanes, usize)) {
    let (whole, tail) = y.as_chunks::<16>();
    for (i, group) in whole.iter().enumerate() {
        step(i, F::lanes(s, group), 16);
    }
    if !tail.is_empty() {
        let mut padded = [F::ZERO; 16];
        padded[..tail.len()].copy_from_slice(tail);
        step(whole.len(), F::lanes(s, &padded), tail.len());
    }
}

/// Calls `step` with each sixteen elements of the prepared row `x` and of the row `y`, and how many are real.
#[inline(always)]
pub(crate) fn pairs<S: Simd, F: Format>(
    s: S,
    x: &[Group],
    y: &[F::Stored],
    mut step: impl FnMut(S::Lanes, S::Lanes, usize),
) {
    let (whole, tail) = y.as_chunks::<16>();
    let (body, end) = x.split_at(whole.len());
    for (x, y) in body.iter().zip(whole) {
        step(s.load(x), F::lanes(s, y), 16);
    }
    if let Some(x) = end.first() {
        let mut padded = [F::ZERO; 16];
        padded[..tail.len()].copy_from_slice(tail);
        step(s.load(x), F::lanes(s, &padded), tail.len());
    }
}

/// `lanes` with +0.0 from lane `real` on.
#[inline(always)]
pub(crate) fn masked<S: Simd>(s: S, lanes: S::Lanes, real: usize) -> S::Lanes {
    if real == 16 {
        return lanes;
    }
    let mut group = [0.0; 16];
    s.store(lanes, &mut group);
    group[real..].fill(0.0);
    s.load(&group)
}

/// What happens to the lanes of a reference row before they enter a formula.
pub(crate) trait Prepare: Copy {
    fn apply<S: Simd>(self, s: S, lanes: S::Lanes) -> S::Lanes;
}

/// Nothing.
#[derive(Clone, Copy)]
pub(crate) struct AsStored;

/// Division by the floored norm of the row.
#[derive(Clone, Copy)]
pub(crate) struct DividedBy(f64);

impl DividedBy {
    pub(crate) fn new(norm: f64) -> Self {
        Self(norm)
    }
}

impl Prepare for AsStored {
    #[inline(always)]
    fn apply<S: Simd>(self, _s: S, lanes: S::Lanes) -> S::Lanes {
        lanes
    }
}

impl Prepare for DividedBy {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, lanes: S::Lanes) -> S::Lanes {
        s.div(lanes, s.splat(self.0))
    }
}

/// Runs `$kernel` with `$prepare` as the [`Prepare`] for `$norm`.
macro_rules! with_prepare {
    ($norm:expr, $prepare:ident => $kernel:expr) => {
        match $norm {
            None => {
                let $prepare = $crate::metric::AsStored;
                $kernel
            }
            Some(norm) => {
                let $prepare = $crate::metric::DividedBy::new(norm);
                $kernel
            }
        }
    };
}
pub(crate) use with_prepare;
