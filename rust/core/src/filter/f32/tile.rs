//! Tiles of queries against a panel of references.

use super::{Block, Chunk, F32, Shape, depth};
use crate::filter::Hit;
use crate::isa::{Simd, prefetch};

/// Features per round of the inner loop.
const UNROLLED: usize = 4;

/// Numbers in a cache line.
const LINE: usize = 16;

impl<S: Simd, const R: usize, const V: usize, const P: usize> F32<'_, S, R, V, P> {
    /// Every tile of the block against a panel. With `hits`, reports them; the last slice of features leaves the
    /// estimates in `block.sums` where there was a hit, and everywhere without.
    pub(super) fn panel(&self, block: &mut Block, chunk: &Chunk, panel: usize, hits: Option<&mut Vec<Hit>>) {
        self.simd.vectorize(
            #[inline(always)]
            || match self.form.shape() {
                Shape::Squares | Shape::Products => self.panel_of::<Product>(block, chunk, panel, hits),
                Shape::Absolute => self.panel_of::<Sum>(block, chunk, panel, hits),
                Shape::Largest => self.panel_of::<Maximum>(block, chunk, panel, hits),
            },
        );
    }

    #[inline(always)]
    fn panel_of<K: Kernel>(&self, block: &mut Block, chunk: &Chunk, panel: usize, mut hits: Option<&mut Vec<Hit>>) {
        let simd = self.simd;
        let width = S::F32_LANES;
        let all = &chunk.panels[panel * self.features * P..];
        let tiles = block.scalars.len().div_ceil(R);
        let mut first = 0;
        while first < self.features {
            let depth = depth(P).min(self.features - first);
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
                let acc = accumulate::<K, S, R, V, P>(simd, acc, queries, references);
                if last {
                    let beta = &chunk.beta[panel * P..][..P];
                    let mut estimates = acc;
                    let mut masks = [0_u32; R];
                    let mut any = 0;
                    for r in 0..R {
                        let threshold = simd.splat_f32(block.thresholds[tile * R + r]);
                        for v in 0..V {
                            let beta = simd.load_f32(&beta[v * width..][..width]);
                            estimates[r][v] = K::estimate(simd, acc[r][v], beta);
                            masks[r] |= simd.not_gt_f32(estimates[r][v], threshold) << (v * width);
                        }
                        any |= masks[r];
                    }
                    if any == 0 && hits.is_some() {
                        continue;
                    }
                    store(simd, &estimates, sums);
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

/// Adds the products of all `queries` and `references`, feature by feature, to `acc`.
///
/// Sums come and go by value: a reference to them, as the code around it needs, would keep them in memory.
#[inline(always)]
fn accumulate<K: Kernel, S: Simd, const R: usize, const V: usize, const P: usize>(
    simd: S,
    mut acc: [[S::F32; V]; R],
    queries: &[[f32; R]],
    references: &[[f32; P]],
) -> [[S::F32; V]; R] {
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
    acc
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
