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
//!
//! # Bound
//!
//! With u = 2⁻²⁴ and γ = (d+1)u/(1−(d+1)u), a float32 sum of d products in any order, fused or not, errs by at most
//! γ‖x̂‖‖ŷ‖ + d·2⁻¹⁴⁹ (Higham, *Accuracy and Stability of Numerical Algorithms*, §3). Storing x̂ and ŷ for the exact
//! operands x̃ and ỹ adds ‖eₓ‖‖ỹ‖ + ‖x̂‖‖e_y‖; ‖e‖ is computed, not estimated, plus the form's drift. To compare
//! without a product of row scalars, products are split:
//!
//! - squares: ab ≤ a²/4 + b² (the query operand has twice the norm of its row), and with ω = u,
//!   ‖eₓ‖‖ỹ‖ ≤ ‖eₓ‖²/4ω + ω‖ỹ‖² and the mirror image;
//! - products: query norms are at most 1 and lose at most u and d·2⁻¹⁴⁹.
//!
//! Sums of absolute differences have a relative error of γ, largest differences of u, and the stored rows' own
//! errors are added.

#![expect(clippy::doc_markdown, reason = "formulas are no code")]

pub mod dense;

use super::form::{Fate, Form, Operand, Shape, padded, widen_into};
use super::i8::Int8;
use super::terms::{Term, amount};
use super::{Aligned, Exceptions, Filter, Hit};
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512};
use crate::isa::{Model, Simd, prefetch};
use crate::matrix::Rows;

/// Features whose slices of a panel stay in the first-level cache together with a tile; a multiple of [`UNROLLED`].
const DEPTH: usize = 256;

/// Features per round of the inner loop.
const UNROLLED: usize = 4;

/// Numbers in a cache line.
const LINE: usize = 16;

/// Unit roundoff of float32.
const U: f64 = f64::from_bits((1023 - 24) << 52);

/// No more than this is the norm of a stored query of a product.
const UNIT: f64 = 1.0 + f64::from_bits((1023 - 20) << 52);

/// No more than this is lost of a stored query of a product.
const QUERY_LOSS: f64 = U * UNIT + 1e-12;

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

/// A query's part of the bound.
#[derive(Debug, Clone, Copy)]
struct Scalars {
    offset: f64,
    slack: f64,
    scale: f64,
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

    /// The relative error of a sum or maximum of differences, refinement included.
    fn relative(&self) -> f64 {
        self.gamma + self.form.evaluation()
    }

    /// (beta, slack) of a reference that lost `lost` in norm when it was stored.
    fn reference_share(&self, operand: &Operand, lost: f64) -> (f32, f32) {
        let norm = operand.norm + lost;
        let (slack, beta) = match self.form.shape() {
            Shape::Squares => {
                let rounding =
                    amount(Term::QueryRounding, U * norm * norm) + amount(Term::ReferenceRounding, lost * lost / U);
                let slack = operand.slack + self.gamma * norm * norm + rounding + self.lost;
                (slack, operand.offset - slack)
            }
            Shape::Products => {
                let rounding =
                    amount(Term::QueryRounding, QUERY_LOSS * norm) + amount(Term::ReferenceRounding, UNIT * lost);
                let slack = operand.slack + self.gamma * UNIT * norm + rounding + self.lost;
                (slack, operand.offset - slack)
            }
            Shape::Absolute | Shape::Largest => {
                let slack = operand.slack + amount(Term::ReferenceRounding, lost);
                (slack, -slack / (1.0 - self.relative()))
            }
        };
        (rounded_down(beta), rounded_up(slack))
    }

    /// The scalars of a query that lost `lost` in norm when it was stored, unless its norm is out of range.
    fn query_share(&self, operand: &Operand, lost: f64) -> Option<Scalars> {
        let norm = operand.norm + lost;
        let slack = match self.form.shape() {
            Shape::Squares => {
                let rounding = amount(Term::QueryRounding, lost * lost / (4.0 * U))
                    + amount(Term::ReferenceRounding, U * norm * norm / 4.0);
                operand.slack + self.gamma * norm * norm / 4.0 + rounding + self.lost
            }
            Shape::Products if norm > UNIT || lost > QUERY_LOSS => return None,
            Shape::Products => operand.slack,
            Shape::Absolute | Shape::Largest => operand.slack + amount(Term::QueryRounding, lost),
        };
        Some(Scalars {
            offset: operand.offset,
            slack,
            scale: operand.scale,
        })
    }

    /// Narrows `row` to float32 and returns the norm of what is lost.
    #[inline(always)]
    fn narrow(&self, row: &[f64], to: &mut [f32]) -> f64 {
        const LANES: usize = 8;
        let mut lanes = [0.0_f64; LANES];
        let largest = self.form.shape() == Shape::Largest;
        let squared = matches!(self.form.shape(), Shape::Squares | Shape::Products);
        let (rows, _) = row.as_chunks::<LANES>();
        let (tos, _) = to.as_chunks_mut::<LANES>();
        for (row, to) in rows.iter().zip(tos) {
            for j in 0..LANES {
                #[expect(clippy::cast_possible_truncation, reason = "the loss is measured")]
                let single = row[j] as f32;
                to[j] = single;
                let error = row[j] - f64::from(single);
                lanes[j] = if squared {
                    lanes[j] + error * error
                } else if largest {
                    lanes[j].max(error.abs())
                } else {
                    lanes[j] + error.abs()
                };
            }
        }
        let norm = if squared {
            // What underflows in a square has a root below 2⁻⁵³⁰.
            lanes.iter().sum::<f64>().sqrt() + 2.0_f64.powi(-500)
        } else if largest {
            lanes.iter().copied().fold(0.0, f64::max)
        } else {
            lanes.iter().sum()
        };
        norm * (1.0 + 1e-9)
    }

    #[inline(always)]
    fn pack_panel(&self, piece: &mut Piece<'_>, panel: usize, rows: Rows<'_>, scratch: &mut Scratch) -> Exceptions {
        let mut exceptions = Exceptions::default();
        let first = panel * P;
        let size = self.features * P;
        let to = &mut piece.panels[panel * size..][..size];
        for lane in 0..P {
            let i = first + lane;
            let mut packed = false;
            let (beta, slack) = if i >= rows.len() {
                (f32::INFINITY, 0.0)
            } else {
                widen_into(rows, i, &mut scratch.wide);
                let fate = self.form.reference(&mut scratch.wide);
                exceptions.note(i, &fate);
                match fate {
                    Fate::Nan => (f32::INFINITY, 0.0),
                    Fate::Unknown | Fate::TooLarge => (f32::NEG_INFINITY, f32::INFINITY),
                    Fate::Usable(operand) => {
                        let lost = self.narrow(&scratch.wide, &mut scratch.narrow) + operand.drift;
                        for (to, &x) in to.chunks_exact_mut(P).zip(&scratch.narrow) {
                            to[lane] = x;
                        }
                        packed = true;
                        self.reference_share(&operand, lost)
                    }
                }
            };
            if !packed {
                to.chunks_exact_mut(P).for_each(|to| to[lane] = 0.0);
            }
            piece.beta[first + lane] = beta;
            piece.slack[first + lane] = slack;
        }
        exceptions
    }

    #[inline(always)]
    fn load_all(&self, block: &mut Block, rows: Rows<'_>) {
        let mut scratch = Scratch::new(self.features);
        block.scalars.clear();
        block.thresholds.fill(f32::NEG_INFINITY);
        block.tiles.fill(0.0);
        for i in 0..rows.len() {
            widen_into(rows, i, &mut scratch.wide);
            let scalars = match self.form.query(&mut scratch.wide) {
                Fate::Usable(operand) => {
                    let lost = self.narrow(&scratch.wide, &mut scratch.narrow) + operand.drift;
                    self.query_share(&operand, lost)
                }
                Fate::Unknown | Fate::Nan | Fate::TooLarge => None,
            };
            if scalars.is_some() {
                block.thresholds[i] = f32::INFINITY;
                for (slice, from) in scratch.narrow[..self.features].chunks(DEPTH).enumerate() {
                    let start = slice * DEPTH * block.tile_count * R + i / R * from.len() * R;
                    let tile = &mut block.tiles[start..][..from.len() * R];
                    for (to, &x) in tile.chunks_exact_mut(R).zip(from) {
                        to[i % R] = x;
                    }
                }
            }
            block.scalars.push(scalars);
        }
    }

    /// Every tile of the block against a panel. With `hits`, reports them; the last slice of features leaves the
    /// estimates in `block.sums` where there was a hit, and everywhere without.
    #[inline(always)]
    fn panel<K: Kernel>(&self, block: &mut Block, chunk: &Chunk, panel: usize, mut hits: Option<&mut Vec<Hit>>) {
        let simd = self.simd;
        let width = S::F32_LANES;
        let all = &chunk.panels[panel * self.features * P..];
        let tiles = block.scalars.len().div_ceil(R);
        let mut first = 0;
        while first < self.features {
            let depth = DEPTH.min(self.features - first);
            let last = first + depth == self.features;
            let (references, _) = all[first * P..(first + depth) * P].as_chunks::<P>();
            let queries = &block.tiles[first * block.tile_count * R..][..depth * block.tile_count * R];
            // The next slice is asked for while this one is worked on: each tile asks for its share.
            let next = &all[((first + depth) * P).min(all.len())..];
            let share = (depth * P).div_ceil(tiles.max(1)).next_multiple_of(LINE);
            for tile in 0..tiles {
                for line in next.iter().skip(tile * share).take(share).step_by(LINE) {
                    prefetch(line);
                }
                let (queries, _) = queries[tile * depth * R..][..depth * R].as_chunks::<R>();
                let sums = &mut block.sums[tile * R * P..][..R * P];
                let mut acc = [[simd.splat_f32(0.0); V]; R];
                if first > 0 {
                    for r in 0..R {
                        for v in 0..V {
                            acc[r][v] = simd.load_f32(&sums[r * P + v * width..][..width]);
                        }
                    }
                }
                let (queries, queries_left) = queries.as_chunks::<UNROLLED>();
                let (references, references_left) = references.as_chunks::<UNROLLED>();
                for (queries, references) in queries.iter().zip(references) {
                    for i in 0..UNROLLED {
                        step::<K, S, R, V, P>(simd, &mut acc, &queries[i], &references[i]);
                    }
                }
                for (x, y) in queries_left.iter().zip(references_left) {
                    step::<K, S, R, V, P>(simd, &mut acc, x, y);
                }
                if last {
                    let beta = &chunk.beta[panel * P..][..P];
                    let mut masks = [0_u32; R];
                    let mut any = 0;
                    for r in 0..R {
                        let threshold = simd.splat_f32(block.thresholds[tile * R + r]);
                        for v in 0..V {
                            let beta = simd.load_f32(&beta[v * width..][..width]);
                            acc[r][v] = K::estimate(simd, acc[r][v], beta);
                            masks[r] |= simd.not_gt_f32(acc[r][v], threshold) << (v * width);
                        }
                        any |= masks[r];
                    }
                    if any == 0 && hits.is_some() {
                        continue;
                    }
                    store(simd, &acc, sums);
                    if let Some(hits) = hits.as_deref_mut() {
                        self.report(block, chunk, panel, tile, &masks, hits);
                    }
                } else {
                    store(simd, &acc, sums);
                }
            }
            first += depth;
        }
    }

    #[inline(never)]
    fn report(&self, block: &Block, chunk: &Chunk, panel: usize, tile: usize, masks: &[u32; R], hits: &mut Vec<Hit>) {
        for (r, &mask) in masks.iter().enumerate() {
            let query = tile * R + r;
            let Some(Some(scalars)) = block.scalars.get(query) else {
                continue;
            };
            let mut mask = mask;
            while mask != 0 {
                let lane = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let row = panel * P + lane;
                if row >= chunk.rows || chunk.beta[row] == f32::INFINITY {
                    continue;
                }
                let (lower, upper) = self.interval(scalars, chunk, row, block.sums[query * P + lane]);
                #[expect(clippy::cast_possible_truncation, reason = "blocks and chunks have far fewer rows")]
                hits.push(Hit {
                    query: query as u32,
                    row: row as u32,
                    lower,
                    upper,
                });
            }
        }
    }

    /// What the key of a pair is at least and at most, given its float32 estimate.
    #[inline(always)]
    fn interval(&self, query: &Scalars, chunk: &Chunk, row: usize, estimate: f32) -> (f64, f64) {
        let (beta, width) = (f64::from(chunk.beta[row]), f64::from(chunk.slack[row]));
        let estimate = f64::from(estimate);
        // Rounding of the estimate, of beta, and of the sums here.
        let comparison = amount(
            Term::Comparison,
            4.0 * U * (estimate.abs() + beta.abs()) + 2.0_f64.powi(-50) * (query.offset.abs() + query.slack),
        );
        let (lower, upper) = match self.form.shape() {
            Shape::Squares | Shape::Products => {
                let centre = query.offset + estimate;
                (
                    centre - query.slack - comparison,
                    centre + query.slack + 2.0 * width + comparison,
                )
            }
            Shape::Absolute | Shape::Largest => {
                let relative = self.relative();
                (
                    (estimate - comparison) * (1.0 - relative) - query.slack,
                    (estimate - beta + comparison + query.slack + width) * (1.0 + 2.0 * relative),
                )
            }
        };
        outward(lower / query.scale, upper / query.scale)
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
        let scaled = key * scalars.scale;
        let rounding = amount(
            Term::Comparison,
            2.0_f64.powi(-50) * (scaled.abs() + scalars.offset.abs() + scalars.slack),
        );
        let threshold = match self.form.shape() {
            Shape::Squares | Shape::Products => scaled - scalars.offset + scalars.slack + rounding,
            Shape::Absolute | Shape::Largest => (scaled + scalars.slack + rounding) / (1.0 - self.relative()),
        };
        block.thresholds[query] = if threshold.is_nan() {
            f32::INFINITY
        } else {
            rounded_up(threshold)
        };
    }

    fn scan(&self, block: &mut Block, chunk: &Chunk, panel: usize, hits: &mut Vec<Hit>) {
        self.simd.vectorize(
            #[inline(always)]
            || match self.form.shape() {
                Shape::Squares | Shape::Products => self.panel::<Product>(block, chunk, panel, Some(hits)),
                Shape::Absolute => self.panel::<Sum>(block, chunk, panel, Some(hits)),
                Shape::Largest => self.panel::<Maximum>(block, chunk, panel, Some(hits)),
            },
        );
    }

    fn bounds(&self, block: &mut Block, chunk: &Chunk, panel: usize, out: &mut [(f64, f64)]) {
        self.simd.vectorize(
            #[inline(always)]
            || match self.form.shape() {
                Shape::Squares | Shape::Products => self.panel::<Product>(block, chunk, panel, None),
                Shape::Absolute => self.panel::<Sum>(block, chunk, panel, None),
                Shape::Largest => self.panel::<Maximum>(block, chunk, panel, None),
            },
        );
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

/// What is done for each feature, and with the result.
trait Kernel {
    fn step<S: Simd>(simd: S, sum: S::F32, x: S::F32, y: S::F32) -> S::F32;
    fn estimate<S: Simd>(simd: S, sum: S::F32, beta: S::F32) -> S::F32;
}

struct Product;
struct Sum;
struct Maximum;

impl Kernel for Product {
    #[inline(always)]
    fn step<S: Simd>(simd: S, sum: S::F32, x: S::F32, y: S::F32) -> S::F32 {
        simd.mul_add_f32(x, y, sum)
    }
    #[inline(always)]
    fn estimate<S: Simd>(simd: S, sum: S::F32, beta: S::F32) -> S::F32 {
        simd.sub_f32(beta, sum)
    }
}

impl Kernel for Sum {
    #[inline(always)]
    fn step<S: Simd>(simd: S, sum: S::F32, x: S::F32, y: S::F32) -> S::F32 {
        simd.add_f32(sum, simd.abs_f32(simd.sub_f32(x, y)))
    }
    #[inline(always)]
    fn estimate<S: Simd>(simd: S, sum: S::F32, beta: S::F32) -> S::F32 {
        simd.add_f32(sum, beta)
    }
}

impl Kernel for Maximum {
    #[inline(always)]
    fn step<S: Simd>(simd: S, sum: S::F32, x: S::F32, y: S::F32) -> S::F32 {
        simd.max_f32(sum, simd.abs_f32(simd.sub_f32(x, y)))
    }
    #[inline(always)]
    fn estimate<S: Simd>(simd: S, sum: S::F32, beta: S::F32) -> S::F32 {
        simd.add_f32(sum, beta)
    }
}

/// One feature of a tile.
#[inline(always)]
fn step<K: Kernel, S: Simd, const R: usize, const V: usize, const P: usize>(
    simd: S,
    acc: &mut [[S::F32; V]; R],
    x: &[f32; R],
    y: &[f32; P],
) {
    let width = S::F32_LANES;
    let mut loaded = [simd.splat_f32(0.0); V];
    for v in 0..V {
        loaded[v] = simd.load_f32(&y[v * width..][..width]);
    }
    for r in 0..R {
        let x = simd.splat_f32(x[r]);
        for v in 0..V {
            acc[r][v] = K::step(simd, acc[r][v], x, loaded[v]);
        }
    }
}

#[inline(always)]
fn store<S: Simd, const R: usize, const V: usize>(simd: S, acc: &[[S::F32; V]; R], sums: &mut [f32]) {
    let width = S::F32_LANES;
    for r in 0..R {
        for v in 0..V {
            simd.store_f32(acc[r][v], &mut sums[(r * V + v) * width..][..width]);
        }
    }
}

struct Scratch {
    wide: Vec<f64>,
    narrow: Vec<f32>,
}

impl Scratch {
    fn new(features: usize) -> Self {
        let length = padded(features);
        Self {
            wide: vec![0.0; length],
            narrow: vec![0.0; length],
        }
    }
}

/// The interval with the rounding of the last divisions, and NaN as unknown.
#[inline(always)]
fn outward(lower: f64, upper: f64) -> (f64, f64) {
    let lower = lower - lower.abs() * 2.0_f64.powi(-50);
    let upper = upper + upper.abs() * 2.0_f64.powi(-50);
    if lower.is_finite() && upper.is_finite() {
        (lower, upper)
    } else {
        (f64::NEG_INFINITY, f64::INFINITY)
    }
}

fn rounded_down(x: f64) -> f32 {
    -rounded_up(-x)
}

/// The smallest float32 that is not below `x`.
fn rounded_up(x: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "rounded outward below")]
    let single = x as f32;
    if f64::from(single) < x {
        single.next_up()
    } else {
        single
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests;
