//! The 8-bit filter: products of whole numbers, exact, of rows rounded to 8 bits.
//!
//! Rows become `scale × codes` (`quantize`); the scale is the one that loses least, and what is lost is computed, so
//! the bound (`bound`) holds however bad the fit is. The tile ([`int8`](crate::isa::int8)) compares whole numbers, and
//! only pairs that pass are looked at in float64. It pays where the data are of one scale: a few large coordinates or
//! heavy tails loosen the bound until the float32 filter is the better one.

mod bound;
mod engine;
mod pack;
mod quantize;
mod scan;
#[cfg(test)]
mod tests;

use super::form::Form;
use super::{Exceptions, Filter, Hit, Uppers};
use crate::isa::int8::{Line, Tile, Verdict, query_words, row_lines};
use crate::isa::on_huge_pages;
use crate::matrix::Rows;
pub use engine::{Int8, Packs, Visit};

use bound::{Extent, Panel, Query, Row};
use pack::Scratch;
use quantize::largest_product;
use scan::outward;

/// The 8-bit filter on the tile `T`.
#[derive(Debug)]
pub struct I8<'a, T> {
    tile: T,
    form: &'a Form,
    fit: Fit,
    /// B
    range: f64,
}

/// What a filter learnt from a sample of the references. It decides how tight the bound is, not whether it holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// What a panel is expected to be like.
    usual: Panel,
    /// Root of the mean square of the sample's norms.
    norm: f64,
}

/// What a filter is fitted to.
#[derive(Debug, Clone, Copy)]
pub enum Basis<'a> {
    /// A sample of these rows.
    Rows(Rows<'a>),
    /// As an earlier filter was.
    Fit(Fit),
}

/// Packed references.
#[derive(Debug)]
pub struct Chunk {
    lines: Vec<Line>,
    rows: Vec<Row>,
    panels: Vec<Panel>,
    len: usize,
}

/// A run of panels.
#[derive(Debug)]
pub struct Piece<'a> {
    lines: &'a mut [Line],
    rows: &'a mut [Row],
    panels: &'a mut [Panel],
}

/// Packed queries.
#[derive(Debug)]
pub struct Block {
    words: Vec<u32>,
    queries: Vec<Option<Query>>,
    /// In scaled keys.
    thresholds: Vec<f64>,
    /// T of every query, for panels within `panel`.
    floors: Vec<[i32; 8]>,
    panel: Panel,
    least: Extent,
    most: Extent,
    /// s
    scale: f64,
    verdict: Verdict,
}

/// Rows with more features could make a sum of 32 bits wrap around, with room for β as large as the products.
pub const MOST_FEATURES: usize = 1 << 16;

impl<'a, T: Tile> I8<'a, T> {
    /// The filter for `form`, which is of a product, fitted to `basis`.
    #[must_use]
    pub fn new(tile: T, form: &'a Form, basis: Basis<'_>) -> Self {
        let range = f64::from(i32::MAX) - largest_product::<T>(form.features());
        assert!(
            range >= 0.0,
            "rows with more than [`MOST_FEATURES`] features have no 8-bit filter"
        );
        let mut filter = Self {
            tile,
            form,
            fit: Fit {
                usual: Panel {
                    scale: 1.0,
                    lost: 0.0,
                    norm: 0.0,
                },
                norm: 1.0,
            },
            range,
        };
        match basis {
            Basis::Fit(fit) => filter.fit = fit,
            Basis::Rows(rows) => tile.vectorize(
                #[inline(always)]
                || filter.fit(rows),
            ),
        }
        filter
    }
}

impl<T: Tile> Packs for I8<'_, T> {
    fn fitted(&self) -> Fit {
        self.fit
    }
}

impl<T: Tile> Filter for I8<'_, T> {
    type Chunk = Chunk;
    type Piece<'b>
        = Piece<'b>
    where
        Self: 'b;
    type Block = Block;

    fn panel_rows(&self) -> usize {
        T::ROWS
    }

    fn row_bytes(&self) -> usize {
        row_lines::<T>(self.form.features()) * size_of::<Line>() / T::ROWS + size_of::<Row>()
    }

    fn tile_rows(&self) -> usize {
        T::QUERIES
    }

    fn chunk(&self, rows: usize) -> Chunk {
        let panels = rows.div_ceil(T::ROWS);
        let lines = panels * row_lines::<T>(self.form.features());
        let mut untouched = on_huge_pages(Vec::with_capacity(lines));
        untouched.resize(lines, Line([0; 64]));
        Chunk {
            lines: untouched,
            rows: vec![Row::NEVER; panels * T::ROWS],
            panels: vec![self.fit.usual; panels],
            len: 0,
        }
    }

    fn pieces<'b>(&self, chunk: &'b mut Chunk, rows: usize, panels: usize) -> Vec<Piece<'b>> {
        chunk.len = rows;
        let all = rows.div_ceil(T::ROWS);
        let size = row_lines::<T>(self.form.features());
        chunk.lines[..all * size]
            .chunks_mut(panels * size)
            .zip(chunk.rows[..all * T::ROWS].chunks_mut(panels * T::ROWS))
            .zip(chunk.panels[..all].chunks_mut(panels))
            .map(|((lines, rows), panels)| Piece { lines, rows, panels })
            .collect()
    }

    fn pack(&self, piece: &mut Piece<'_>, rows: Rows<'_>) -> Exceptions {
        self.tile.vectorize(
            #[inline(always)]
            || {
                let mut scratch = Scratch::new(T::ROWS, self.form.padded());
                let mut all = Exceptions::default();
                for panel in 0..piece.panels.len() {
                    self.pack_panel(piece, panel, rows, &mut scratch, &mut |row, fate| all.note(row, fate));
                }
                all
            },
        )
    }

    fn block(&self, queries: usize) -> Block {
        let tiles = queries.div_ceil(T::QUERIES);
        Block {
            words: vec![0; tiles * query_words::<T>(self.form.features())],
            queries: Vec::with_capacity(queries),
            thresholds: vec![f64::INFINITY; queries],
            floors: vec![[i32::MAX; 8]; tiles],
            panel: self.fit.usual,
            least: Extent::default(),
            most: Extent::default(),
            scale: 1.0,
            verdict: Verdict::default(),
        }
    }

    fn load(&self, block: &mut Block, rows: Rows<'_>) {
        self.tile.vectorize(
            #[inline(always)]
            || self.load_all(block, rows),
        );
    }

    fn usable(&self, block: &Block, query: usize) -> bool {
        block.queries[query].is_some()
    }

    fn set_threshold(&self, block: &mut Block, query: usize, key: f64) {
        let Some(scalars) = &block.queries[query] else { return };
        let threshold = scalars.threshold(key);
        let product = block.scale * f64::from(block.panel.scale);
        block.thresholds[query] = threshold;
        block.floors[query / T::QUERIES][query % T::QUERIES] =
            scalars.floor(threshold, &block.least, &block.panel, product);
    }

    fn scan(&self, block: &mut Block, chunk: &Chunk, panel: usize, hits: &mut Vec<Hit>) {
        self.tile.vectorize(
            #[inline(always)]
            || {
                self.panel(
                    block,
                    chunk,
                    panel,
                    false,
                    &mut |query, i, row, threshold, (lower, upper)| {
                        // Written so that NaN stays.
                        if lower > threshold {
                            return;
                        }
                        let (lower, upper) = outward(lower * query.inverse, upper * query.inverse);
                        #[expect(clippy::cast_possible_truncation, reason = "blocks and chunks have far fewer rows")]
                        hits.push(Hit {
                            query: i as u32,
                            row: row as u32,
                            lower,
                            upper,
                        });
                    },
                );
            },
        );
    }

    fn lower_uppers(&self, block: &mut Block, chunk: &Chunk, panel: usize, uppers: &mut [Uppers]) {
        self.tile.vectorize(
            #[inline(always)]
            || self.panel_uppers(block, chunk, panel, uppers),
        );
    }

    fn bounds(&self, block: &mut Block, chunk: &Chunk, panel: usize, out: &mut [(f64, f64)]) {
        out.fill((f64::NEG_INFINITY, f64::INFINITY));
        self.tile.vectorize(
            #[inline(always)]
            || {
                self.panel(block, chunk, panel, true, &mut |query, i, row, _, (lower, upper)| {
                    if chunk.rows[row].is_known() {
                        out[i * T::ROWS + row % T::ROWS] = outward(lower * query.inverse, upper * query.inverse);
                    }
                });
            },
        );
    }
}
