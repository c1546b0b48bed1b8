//! The float32 filter.
//!
//! References lie in panels of `P` rows, feature by feature; queries in tiles of `R` rows, feature by feature. A tile
//! against a panel keeps `R × V` registers of sums, loads `V` registers of references and broadcasts `R` numbers per
//! feature:
//!
//! ```text
//! for each feature:   sum[r][v] += query[r] * reference[v]
//! at the end:         estimate = beta - sum;  hit unless estimate > threshold[r]
//! ```
//!
//! `beta` is the reference's share of the lower bound and `threshold` the query's, both rounded outward, so the
//! compare needs no more care: rounding is monotone. A tile without a hit writes nothing.

mod bound;
pub mod dense;
mod pack;
#[cfg(test)]
mod tests;
mod tile;

use super::form::{Form, Shape};
use super::i8::Int8;
use super::terms::{Term, amount};
use super::{Aligned, Exceptions, Filter, Hit, Uppers};
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512};
use crate::isa::{Model, Simd};
use crate::matrix::Rows;
use bound::{Scalars, U};
use pack::Scratch;

/// Features of `panel` rows whose slices stay in the first-level cache together with a tile.
const fn depth(panel: usize) -> usize {
    (16 << 10) / (panel * size_of::<f32>())
}

/// Rows with more features are searched directly.
pub const MOST_FEATURES: usize = 1 << 20;

/// The float32 filter with tiles of `R` queries by `P = V ×` [`Simd::F32_LANES`] references.
#[derive(Debug)]
pub struct F32<'a, S, const R: usize, const V: usize, const P: usize> {
    simd: S,
    form: &'a Form,
    features: usize,
    /// γ, or what stands for it.
    gamma: f64,
    lost: f64,
}

/// Packed references.
#[derive(Debug)]
pub struct Chunk {
    panels: Aligned<f32>,
    beta: Aligned<f32>,
    slack: Vec<f32>,
    rows: usize,
}

/// A run of panels.
#[derive(Debug)]
pub struct Piece<'a> {
    panels: &'a mut [f32],
    beta: &'a mut [f32],
    slack: &'a mut [f32],
}

/// Packed queries.
#[derive(Debug)]
pub struct Block {
    /// Slice of features by slice, and in it tile by tile, so that a slice's tiles are read in a row.
    tiles: Aligned<f32>,
    tile_count: usize,
    thresholds: Vec<f32>,
    scalars: Vec<Option<Scalars>>,
    sums: Aligned<f32>,
}

impl<'a, S: Simd, const R: usize, const V: usize, const P: usize> F32<'a, S, R, V, P> {
    /// The filter for `form`.
    #[must_use]
    pub fn new(simd: S, form: &'a Form) -> Self {
        assert_eq!(
            P,
            V * S::F32_LANES,
            "a panel is as wide as the registers of a tile's row"
        );
        let d = count(form.features());
        let terms = if form.shape() == Shape::Largest { 2.0 } else { d + 1.0 };
        Self {
            simd,
            form,
            features: form.features(),
            gamma: amount(Term::Accumulation, terms * U / (1.0 - terms * U)),
            lost: amount(Term::Underflow, d * 2.0_f64.powi(-149)),
        }
    }
}

impl<S: Simd, const R: usize, const V: usize, const P: usize> Filter for F32<'_, S, R, V, P> {
    type Chunk = Chunk;
    type Piece<'b>
        = Piece<'b>
    where
        Self: 'b;
    type Block = Block;

    fn panel_rows(&self) -> usize {
        P
    }

    fn row_bytes(&self) -> usize {
        (self.features + 2) * size_of::<f32>()
    }

    fn tile_rows(&self) -> usize {
        R
    }

    fn chunk(&self, rows: usize) -> Chunk {
        let panels = rows.div_ceil(P);
        Chunk {
            panels: Aligned::zeros(panels * P * self.features),
            beta: Aligned::zeros(panels * P),
            slack: vec![0.0; panels * P],
            rows: 0,
        }
    }

    fn pieces<'b>(&self, chunk: &'b mut Chunk, rows: usize, panels: usize) -> Vec<Piece<'b>> {
        chunk.rows = rows;
        let all = rows.div_ceil(P);
        let size = P * self.features;
        chunk.panels[..all * size]
            .chunks_mut(panels * size)
            .zip(chunk.beta[..all * P].chunks_mut(panels * P))
            .zip(chunk.slack[..all * P].chunks_mut(panels * P))
            .map(|((panels, beta), slack)| Piece { panels, beta, slack })
            .collect()
    }

    fn pack(&self, piece: &mut Piece<'_>, rows: Rows<'_>) -> Exceptions {
        self.simd.vectorize(
            #[inline(always)]
            || {
                let mut scratch = Scratch::new(self.features);
                let mut all = Exceptions::default();
                for panel in 0..piece.beta.len() / P {
                    let found = self.pack_panel(piece, panel, rows, &mut scratch);
                    all.nan = all.nan.or(found.nan);
                    all.large = all.large.or(found.large);
                }
                all
            },
        )
    }

    fn block(&self, queries: usize) -> Block {
        let tiles = queries.div_ceil(R);
        Block {
            tiles: Aligned::zeros(tiles * R * self.features),
            tile_count: tiles,
            thresholds: vec![f32::NEG_INFINITY; tiles * R],
            scalars: Vec::with_capacity(queries),
            sums: Aligned::zeros(tiles * R * P),
        }
    }

    fn load(&self, block: &mut Block, rows: Rows<'_>) {
        self.simd.vectorize(
            #[inline(always)]
            || self.load_all(block, rows),
        );
    }

    fn usable(&self, block: &Block, query: usize) -> bool {
        block.scalars[query].is_some()
    }

    fn set_threshold(&self, block: &mut Block, query: usize, key: f64) {
        let Some(scalars) = &block.scalars[query] else { return };
        block.thresholds[query] = self.threshold(scalars, key);
    }

    fn scan(&self, block: &mut Block, chunk: &Chunk, panel: usize, hits: &mut Vec<Hit>) {
        self.panel(block, chunk, panel, Some(hits));
    }

    fn lower_uppers(&self, block: &mut Block, chunk: &Chunk, panel: usize, uppers: &mut [Uppers]) {
        self.panel(block, chunk, panel, None);
        self.simd.vectorize(
            #[inline(always)]
            || self.lower_by_sums(block, chunk, panel, uppers),
        );
    }

    fn bounds(&self, block: &mut Block, chunk: &Chunk, panel: usize, out: &mut [(f64, f64)]) {
        self.panel(block, chunk, panel, None);
        for (query, (out, scalars)) in out.chunks_exact_mut(P).zip(&block.scalars).enumerate() {
            for (lane, out) in out.iter_mut().enumerate() {
                let row = panel * P + lane;
                *out = match scalars {
                    Some(scalars) if row < chunk.rows && chunk.beta[row].is_finite() => {
                        self.interval(scalars, chunk, row, block.sums[query * P + lane])
                    }
                    _ => (f64::NEG_INFINITY, f64::INFINITY),
                };
            }
        }
    }
}

/// An instruction set with the tile that fits its registers.
pub trait Tiled: Int8 {
    /// The float32 filter on this instruction set.
    type Float32<'a>: dense::Dense;

    /// The float32 filter for `form`.
    fn f32_filter(self, form: &Form) -> Self::Float32<'_>;
}

/// Queries, registers and references of each instruction set's tile.
macro_rules! tiled {
    ($($simd:ty: $rows:literal, $registers:literal, $panel:literal;)*) => {$(
        impl Tiled for $simd {
            type Float32<'a> = F32<'a, Self, $rows, $registers, $panel>;

            fn f32_filter(self, form: &Form) -> Self::Float32<'_> {
                F32::new(self, form)
            }
        }
    )*};
}
tiled! {
    Model<4, false>: 4, 2, 8;
    Model<8, true>: 6, 2, 16;
    Model<16, true>: 12, 2, 32;
}
#[cfg(target_arch = "x86_64")]
tiled! {
    Avx2: 6, 2, 16;
    Avx512: 12, 2, 32;
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn count(n: usize) -> f64 {
    n as f64
}
