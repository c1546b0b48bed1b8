//! Rows into panels and blocks: the scales, the codes, what they lose.

use super::bound::{Extent, Panel, Query, Row, up};
use super::quantize::{code_length, fit, quantize};
use super::{Block, I8, Piece};
use crate::filter::form::{Fate, Operand, Shape, count, widen_into};
use crate::filter::terms::{Term, amount};
use crate::isa::int8::{Line, MAX_ROWS, STEP, Tile, half, query_words, row_lines};
use crate::matrix::Rows;

/// Rows that a scale is fitted to.
const SAMPLE: usize = 48;

/// Queries of a block that its scale is fitted to, starting from the references'.
const BLOCK_SAMPLE: usize = 16;

/// A panel whose rows' norm is off the sample's by more than this factor has a scale of its own.
const ALIKE: f64 = 1.3;

impl<T: Tile> I8<'_, T> {
    #[inline(always)]
    pub(super) fn fit(&mut self, reference: Rows<'_>) {
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
        let scale = fit::<T, false>(sample, padded, 0.0);
        let mut codes = vec![0; code_length(padded)];
        let (mut lost, mut norm, mut square) = (0.0_f64, 0.0_f64, 0.0);
        for (row, operand) in sample.chunks_exact(padded.max(1)).zip(&operands) {
            lost = lost.max(quantize::<T, false>(row, scale, &mut codes).lost + operand.drift);
            norm = norm.max(operand.norm);
            square += operand.norm * operand.norm / count(operands.len());
        }
        // Nearly all panels then have the same extent, and floors need not be computed anew.
        #[expect(clippy::cast_possible_truncation, reason = "a scale has 24 bits")]
        let scale = scale as f32;
        self.fit.usual = Panel {
            scale,
            lost: up(1.1 * lost),
            norm: up(1.1 * norm),
        };
        self.fit.norm = square.sqrt();
    }

    #[inline(always)]
    pub(super) fn pack_panel(
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
        let mut shared = self.fit.usual;
        let ratio = (square / f64::max(usable, 1.0)).sqrt() / self.fit.norm;
        if usable > 0.0 && !(1.0 / ALIKE..=ALIKE).contains(&ratio) && ratio > 1e-9 && ratio < 1e9 {
            // A coarse grid of scales, so that neighbours share theirs.
            let ratio = libm::exp2((libm::log2(ratio) * 4.0).round() / 4.0);
            #[expect(clippy::cast_possible_truncation, reason = "a scale has 24 bits")]
            let scale = (f64::from(self.fit.usual.scale) * ratio) as f32;
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
                    let norms = quantize::<T, false>(wide, f64::from(shared.scale), &mut scratch.codes);
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
    pub(super) fn load_all(&self, block: &mut Block, rows: Rows<'_>) {
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
        block.least = Extent {
            kept: f64::INFINITY,
            lost: f64::INFINITY,
        };
        block.most = Extent::default();
        let mut codes = vec![0; code_length(padded)];
        let size = query_words::<T>(self.form.features());
        for (i, operand) in operands.iter().enumerate() {
            let query = operand.map(|operand| {
                let norms = quantize::<T, true>(&wide[i * padded..][..padded], block.scale, &mut codes);
                write_query::<T>(
                    &mut block.words[i / T::QUERIES * size..][..size],
                    i % T::QUERIES,
                    &codes,
                );
                let query = Query::new(&operand, &norms);
                block.least.kept = block.least.kept.min(query.kept);
                block.least.lost = block.least.lost.min(query.lost);
                block.most.kept = block.most.kept.max(query.kept);
                block.most.lost = block.most.lost.max(query.lost);
                query
            });
            block.queries.push(query);
        }
        self.renew_floors(block, self.fit.usual);
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
        let guess = f64::from(self.fit.usual.scale) * norm / self.fit.norm;
        fit::<T, true>(&sample, padded, if guess.is_normal() { guess } else { 0.0 })
    }
}

/// Scratch of one worker.
pub(super) struct Scratch {
    /// Operands of a panel.
    wide: Vec<f64>,
    codes: Vec<i16>,
}

impl Scratch {
    pub(super) fn new(rows: usize, padded: usize) -> Self {
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
