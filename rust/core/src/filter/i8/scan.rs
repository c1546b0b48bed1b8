//! A block of queries against a panel.

use super::bound::{Panel, Query};
use super::{Block, Chunk, I8};
use crate::filter::terms::{Term, amount};
use crate::filter::{SPREAD, Uppers};
use crate::isa::int8::{MAX_ROWS, PanelRow, Tile, query_words, row_lines};

/// Gets (query, its row in the block, row in the chunk, threshold, interval of the scaled key).
pub(super) type Report<'r> = &'r mut dyn FnMut(&Query, usize, usize, f64, (f64, f64));

impl<T: Tile> I8<'_, T> {
    /// Makes the floors those for panels within `panel`.
    #[inline(always)]
    pub(super) fn renew_floors(&self, block: &mut Block, panel: Panel) {
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
    pub(super) fn panel(&self, block: &mut Block, chunk: &Chunk, panel: usize, all: bool, report: Report<'_>) {
        let size = row_lines::<T>(self.form.features());
        let lines = &chunk.lines[panel * size..][..size];
        let rows = &chunk.rows[panel * T::ROWS..][..T::ROWS];
        let shared = chunk.panels[panel];
        if let Some(wider) = block.panel.widened(&shared) {
            self.renew_floors(block, wider);
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

impl<T: Tile> I8<'_, T> {
    /// See [`Filter::lower_uppers`](crate::filter::Filter::lower_uppers).
    #[inline(always)]
    pub(super) fn panel_uppers(&self, block: &mut Block, chunk: &Chunk, panel: usize, uppers: &mut [Uppers]) {
        let size = row_lines::<T>(self.form.features());
        let lines = &chunk.lines[panel * size..][..size];
        let product = block.scale * f64::from(chunk.panels[panel].scale);
        let mut shares = [f64::INFINITY; MAX_ROWS];
        for (share, row) in shares.iter_mut().zip(&chunk.rows[panel * T::ROWS..][..T::ROWS]) {
            *share = row.upper(&block.most);
        }
        let (shares, _) = shares.as_chunks::<SPREAD>();
        let size = query_words::<T>(self.form.features());
        let queries = block.queries.chunks(T::QUERIES).zip(uppers.chunks_mut(T::QUERIES));
        for (words, (queries, uppers)) in block.words.chunks_exact(size).zip(queries) {
            let start = PanelRow([0; MAX_ROWS]);
            self.tile.tile(words, lines, &start, &[i32::MIN; 8], &mut block.verdict);
            let sums = block.verdict.sums.chunks_exact(T::ROWS);
            for ((query, uppers), sums) in queries.iter().zip(uppers).zip(sums) {
                let Some(query) = query else { continue };
                let mut least = [f64::INFINITY; SPREAD];
                for (sums, shares) in sums.as_chunks::<SPREAD>().0.iter().zip(shares) {
                    for j in 0..SPREAD {
                        let upper = shares[j] - product * f64::from(sums[j]);
                        // NaN lowers nothing.
                        least[j] = if upper < least[j] { upper } else { least[j] };
                    }
                }
                for j in 0..SPREAD {
                    let (_, upper) = outward(0.0, (query.upper() + least[j]) * query.inverse);
                    uppers[j] = uppers[j].min(upper);
                }
            }
        }
    }
}

/// The interval with the rounding of the last divisions, and NaN as unknown.
#[inline(always)]
pub(super) fn outward(lower: f64, upper: f64) -> (f64, f64) {
    let rounding = |x: f64| amount(Term::Comparison, x.abs() * 2.0_f64.powi(-50));
    let (lower, upper) = (lower - rounding(lower), upper + rounding(upper));
    if lower.is_finite() && upper.is_finite() {
        (lower, upper)
    } else {
        (f64::NEG_INFINITY, f64::INFINITY)
    }
}
