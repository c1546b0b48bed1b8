//! The 8-bit filter: products of whole numbers, exact, of rows rounded to 8 bits.
//!
//! Rows become `scale × codes` (`quantize`); the scale is the one that loses least, and what is lost is computed, so
//! the bound (`bound`) holds however bad the fit is. The tile ([`int8`](crate::isa::int8)) compares whole numbers, and
//! only pairs that pass are looked at in float64. It pays where the data are of one scale: a few large coordinates or
//! heavy tails loosen the bound until the float32 filter is the better one.

mod bound;
mod engine;
mod quantize;
#[cfg(test)]
mod tests;

use super::form::{Fate, Form, Operand, Shape, count, widen_into};
use super::terms::{Term, amount};
use super::{Exceptions, Filter, Hit};
use crate::isa::int8::{Line, MAX_ROWS, PanelRow, STEP, Tile, Verdict, half, query_words, row_lines};
use crate::matrix::Rows;
pub use engine::{Int8, Visit};

use bound::{Least, Panel, Query, Row, up};
use quantize::{code_length, fit, largest_product, quantize};

/// Rows that a scale is fitted to.
const SAMPLE: usize = 48;

/// Queries of a block that its scale is fitted to, starting from the references'.
const BLOCK_SAMPLE: usize = 16;

/// A panel whose rows' norm is off the sample's by more than this factor has a scale of its own.
const ALIKE: f64 = 1.3;

/// The 8-bit filter on the tile `T`.
#[derive(Debug)]
pub struct I8<'a, T> {
    tile: T,
    form: &'a Form,
    /// What a panel is expected to be like.
    usual: Panel,
    /// Root of the mean square of the sample's norms.
    norm: f64,
    /// B
    range: f64,
}

/// Gets (query, its row in the block, row in the chunk, threshold, interval of the scaled key).
type Report<'r> = &'r mut dyn FnMut(&Query, usize, usize, f64, (f64, f64));

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
    /// T of every query, for panels like `panel`.
    floors: Vec<[i32; 8]>,
    panel: Panel,
    least: Least,
    /// s
    scale: f64,
    verdict: Verdict,
}

/// Rows with more features could make a sum of 32 bits wrap around, with room for β as large as the products.
pub const MOST_FEATURES: usize = 1 << 16;

impl<'a, T: Tile> I8<'a, T> {
    /// The filter for `form`, which is of a product, fitted to a sample of `reference`.
    #[must_use]
    pub fn new(tile: T, form: &'a Form, reference: Rows<'_>) -> Self {
        let range = f64::from(i32::MAX) - largest_product::<T>(form.features());
        assert!(
            range >= 0.0,
            "rows with more than [`MOST_FEATURES`] features have no 8-bit filter"
        );
        let mut filter = Self {
            tile,
            form,
            usual: Panel {
                scale: 1.0,
                lost: 0.0,
                norm: 0.0,
            },
            norm: 1.0,
            range,
        };
        tile.vectorize(
            #[inline(always)]
            || filter.fit(reference),
        );
        filter
    }

    #[inline(always)]
    fn fit(&mut self, reference: Rows<'_>) {
        let padded = self.form.padded();
        let mut sample = vec![0.0; SAMPLE * padded];
        let mut operands = Vec::new();
        let stride = reference.len().div_ceil(SAMPLE).max(1);
        for i in (0..reference.len()).step_by(stride) {
            let row = &mut sample[operands.len() * padded..][..padded];
            widen_into(reference, i, row);
            if let Fate::Usable(operand) = self.form.reference(row) {
                operands.push(operand);
            }
        }
        if operands.is_empty() {
            return;
        }
        let sample = &sample[..operands.len() * padded];
        let scale = fit::<T>(sample, padded, 0.0);
        let mut codes = vec![0; code_length(padded)];
        let (mut lost, mut norm, mut square) = (0.0_f64, 0.0_f64, 0.0);
        for (row, operand) in sample.chunks_exact(padded.max(1)).zip(&operands) {
            lost = lost.max(quantize::<T>(row, scale, &mut codes).lost + operand.drift);
            norm = norm.max(operand.norm);
            square += operand.norm * operand.norm / count(operands.len());
        }
        // Nearly all panels then have the same extent, and floors need not be computed anew.
        #[expect(clippy::cast_possible_truncation, reason = "a scale has 24 bits")]
        let scale = scale as f32;
        self.usual = Panel {
            scale,
            lost: up(1.1 * lost),
            norm: up(1.1 * norm),
        };
        self.norm = square.sqrt();
    }

    #[inline(always)]
    fn pack_panel(
        &self,
        piece: &mut Piece<'_>,
        panel: usize,
        rows: Rows<'_>,
        scratch: &mut Scratch,
        note: &mut dyn FnMut(usize, &Fate),
    ) {
        let padded = self.form.padded();
        let first = panel * T::ROWS;
        let size = row_lines::<T>(self.form.features());
        let lines = &mut piece.lines[panel * size..][..size];
        let len = rows.len().saturating_sub(first).min(T::ROWS);
        let mut fates = [Fate::Nan; MAX_ROWS];
        let (mut square, mut usable) = (0.0, 0.0);
        for (lane, fate) in fates.iter_mut().enumerate().take(len) {
            let row = &mut scratch.wide[lane * padded..][..padded];
            widen_into(rows, first + lane, row);
            *fate = self.form.reference(row);
            note(first + lane, fate);
            if let Fate::Usable(operand) = fate {
                square += operand.norm * operand.norm;
                usable += 1.0;
            }
        }
        let mut shared = self.usual;
        let ratio = (square / f64::max(usable, 1.0)).sqrt() / self.norm;
        if usable > 0.0 && !(1.0 / ALIKE..=ALIKE).contains(&ratio) && ratio > 1e-9 && ratio < 1e9 {
            // A coarse grid of scales, so that neighbours share theirs.
            let ratio = libm::exp2((libm::log2(ratio) * 4.0).round() / 4.0);
            #[expect(clippy::cast_possible_truncation, reason = "a scale has 24 bits")]
            let scale = (f64::from(self.usual.scale) * ratio) as f32;
            shared = Panel {
                scale,
                lost: 0.0,
                norm: 0.0,
            };
        }
        for (lane, fate) in fates.iter().enumerate().take(T::ROWS) {
            let row = match fate {
                Fate::Usable(operand) if lane < len => {
                    let wide = &scratch.wide[lane * padded..][..padded];
                    let norms = quantize::<T>(wide, f64::from(shared.scale), &mut scratch.codes);
                    write_row::<T>(lines, lane, &scratch.codes);
                    Row::new(operand, &norms)
                }
                Fate::Unknown | Fate::TooLarge if lane < len => {
                    scratch.codes.fill(0);
                    write_row::<T>(lines, lane, &scratch.codes);
                    Row::UNKNOWN
                }
                _ => {
                    scratch.codes.fill(0);
                    write_row::<T>(lines, lane, &scratch.codes);
                    Row::NEVER
                }
            };
            let (lost, norm) = row.extent();
            shared.lost = shared.lost.max(lost);
            shared.norm = shared.norm.max(norm);
            piece.rows[first + lane] = row;
        }
        piece.panels[panel] = shared;
    }

    #[inline(always)]
    fn load_all(&self, block: &mut Block, rows: Rows<'_>) {
        let padded = self.form.padded();
        let mut wide = vec![0.0; rows.len() * padded];
        let mut operands = Vec::with_capacity(rows.len());
        for (i, row) in wide.chunks_exact_mut(padded.max(1)).enumerate() {
            widen_into(rows, i, row);
            let fate = self.form.query(row);
            operands.push(match fate {
                Fate::Usable(operand) if self.form.shape() == Shape::Products => Some(unit(row, operand)),
                Fate::Usable(operand) => Some(operand),
                Fate::Unknown | Fate::Nan | Fate::TooLarge => None,
            });
        }
        block.scale = self.block_scale(&wide, &operands);
        block.queries.clear();
        block.words.fill(0);
        block.floors.fill([i32::MAX; 8]);
        block.thresholds.fill(f64::INFINITY);
        block.least = Least {
            kept: f64::INFINITY,
            lost: f64::INFINITY,
        };
        let mut codes = vec![0; code_length(padded)];
        let size = query_words::<T>(self.form.features());
        for (i, operand) in operands.iter().enumerate() {
            let query = operand.map(|operand| {
                let norms = quantize::<T>(&wide[i * padded..][..padded], block.scale, &mut codes);
                write_query::<T>(
                    &mut block.words[i / T::QUERIES * size..][..size],
                    i % T::QUERIES,
                    &codes,
                );
                let query = Query::new(&operand, &norms);
                block.least.kept = block.least.kept.min(query.kept);
                block.least.lost = block.least.lost.min(query.lost);
                query
            });
            block.queries.push(query);
        }
        self.renew_floors(block, self.usual);
    }

    #[inline(always)]
    fn block_scale(&self, wide: &[f64], operands: &[Option<Operand>]) -> f64 {
        let padded = self.form.padded();
        let usable: Vec<usize> = (0..operands.len()).filter(|&i| operands[i].is_some()).collect();
        let stride = usable.len().div_ceil(BLOCK_SAMPLE).max(1);
        let mut sample = Vec::with_capacity(BLOCK_SAMPLE * padded);
        let (mut square, mut n) = (0.0, 0.0);
        for &i in usable.iter().step_by(stride) {
            sample.extend_from_slice(&wide[i * padded..][..padded]);
            let norm = operands[i].map_or(0.0, |operand| operand.norm);
            square += norm * norm;
            n += 1.0;
        }
        let norm = if n > 0.0 { f64::sqrt(square / n) } else { 0.0 };
        let guess = f64::from(self.usual.scale) * norm / self.norm;
        fit::<T>(&sample, padded, if guess.is_normal() { guess } else { 0.0 })
    }

    /// Makes the floors those for panels like `panel`.
    #[inline(always)]
    fn renew_floors(&self, block: &mut Block, panel: Panel) {
        block.panel = panel;
        let product = block.scale * f64::from(panel.scale);
        for (i, query) in block.queries.iter().enumerate() {
            if let Some(query) = query {
                block.floors[i / T::QUERIES][i % T::QUERIES] =
                    query.floor(block.thresholds[i], &block.least, &panel, product);
            }
        }
    }

    /// Every tile of the block against a panel; `report` gets the pairs that pass the test of whole numbers, or all.
    #[inline(always)]
    fn panel(&self, block: &mut Block, chunk: &Chunk, panel: usize, all: bool, report: Report<'_>) {
        let size = row_lines::<T>(self.form.features());
        let lines = &chunk.lines[panel * size..][..size];
        let rows = &chunk.rows[panel * T::ROWS..][..T::ROWS];
        let shared = chunk.panels[panel];
        if shared != block.panel {
            self.renew_floors(block, shared);
        }
        let product = block.scale * f64::from(shared.scale);
        let mut start = PanelRow([0; MAX_ROWS]);
        let mut kept = all;
        for (start, row) in start.0.iter_mut().zip(rows) {
            let (beta, keep) = row.start(&block.least, product, self.range);
            *start = beta;
            kept |= keep;
        }
        let size = query_words::<T>(self.form.features());
        let tiles = block.queries.len().div_ceil(T::QUERIES);
        for (tile, words) in block.words.chunks_exact(size).take(tiles).enumerate() {
            let floors = if kept { &[i32::MIN; 8] } else { &block.floors[tile] };
            if !self.tile.tile(words, lines, &start, floors, &mut block.verdict) {
                continue;
            }
            for word in 0..T::WORDS {
                let mut bits = block.verdict.hits[word];
                while bits != 0 {
                    let bit = bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let (i, lane) = T::place(word, bit);
                    let (i, row) = (tile * T::QUERIES + i, &rows[lane]);
                    let Some(Some(query)) = block.queries.get(i) else {
                        continue;
                    };
                    if row.is_never() {
                        continue;
                    }
                    let dot = block.verdict.sums[(i % T::QUERIES) * T::ROWS + lane].wrapping_sub(start.0[lane]);
                    let interval = query.interval(row, product, dot);
                    report(query, i, panel * T::ROWS + lane, block.thresholds[i], interval);
                }
            }
        }
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
        Chunk {
            lines: vec![Line([0; 64]); panels * row_lines::<T>(self.form.features())],
            rows: vec![Row::NEVER; panels * T::ROWS],
            panels: vec![self.usual; panels],
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
            panel: self.usual,
            least: Least { kept: 0.0, lost: 0.0 },
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
                        let (lower, upper) = outward(lower / query.scale, upper / query.scale);
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

    fn bounds(&self, block: &mut Block, chunk: &Chunk, panel: usize, out: &mut [(f64, f64)]) {
        out.fill((f64::NEG_INFINITY, f64::INFINITY));
        self.tile.vectorize(
            #[inline(always)]
            || {
                self.panel(block, chunk, panel, true, &mut |query, i, row, _, (lower, upper)| {
                    if chunk.rows[row].is_known() {
                        out[i * T::ROWS + row % T::ROWS] = outward(lower / query.scale, upper / query.scale);
                    }
                });
            },
        );
    }
}

struct Scratch {
    /// Operands of a panel.
    wide: Vec<f64>,
    codes: Vec<i16>,
}

impl Scratch {
    fn new(rows: usize, padded: usize) -> Self {
        Self {
            wide: vec![0.0; rows * padded],
            codes: vec![0; code_length(padded)],
        }
    }
}

/// Writes the codes of row `lane` of a panel.
#[inline(always)]
fn write_row<T: Tile>(lines: &mut [Line], lane: usize, codes: &[i16]) {
    let (quads, _) = codes.as_chunks::<STEP>();
    for (step, quad) in lines.chunks_exact_mut(T::ROWS / 16).zip(quads) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "codes with their offset are bytes"
        )]
        let bytes = quad.map(|code| (i32::from(code) + T::OFFSET) as u8);
        step[lane / 16].0[lane % 16 * STEP..][..STEP].copy_from_slice(&bytes);
    }
}

/// Writes the codes of query `lane` of a query panel, and what stands in front of each group.
#[inline(always)]
fn write_query<T: Tile>(words: &mut [u32], lane: usize, codes: &[i16]) {
    let steps = if T::GROUP == 0 {
        words.len() / T::QUERIES - 1
    } else {
        T::GROUP
    };
    for (group, codes) in words
        .chunks_exact_mut((steps + 1) * T::QUERIES)
        .zip(codes.chunks(steps * STEP))
    {
        let mut sums = [0; 2];
        for (i, &code) in codes.iter().enumerate() {
            sums[half(i)] += i32::from(code);
        }
        group[lane] = T::head(sums[0], sums[1]);
        let (quads, _) = codes.as_chunks::<STEP>();
        for (step, quad) in group.chunks_exact_mut(T::QUERIES).skip(1).zip(quads) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "codes are signed bytes"
            )]
            let bytes = quad.map(|code| code as u8);
            step[lane] = u32::from_le_bytes(bytes);
        }
    }
}

/// Brings a query of a product to norm 1, so that one scale fits a block; the ranking stays.
#[inline(always)]
fn unit(row: &mut [f64], operand: Operand) -> Operand {
    let factor = 1.0 / operand.norm;
    if operand.norm <= 1e-9 {
        return operand;
    }
    row.iter_mut().for_each(|x| *x *= factor);
    let rounding = amount(Term::Drift, 2.0_f64.powi(-52));
    Operand {
        offset: operand.offset * factor,
        slack: (operand.slack + operand.offset.abs() * rounding) * factor * (1.0 + 1e-9),
        norm: operand.norm * factor * (1.0 + 1e-9),
        drift: (operand.drift + operand.norm * rounding) * factor * (1.0 + 1e-9),
        scale: operand.scale * factor,
    }
}

/// The interval with the rounding of the last divisions, and NaN as unknown.
#[inline(always)]
fn outward(lower: f64, upper: f64) -> (f64, f64) {
    let rounding = |x: f64| amount(Term::Comparison, x.abs() * 2.0_f64.powi(-50));
    let (lower, upper) = (lower - rounding(lower), upper + rounding(upper));
    if lower.is_finite() && upper.is_finite() {
        (lower, upper)
    } else {
        (f64::NEG_INFINITY, f64::INFINITY)
    }
}
