//! Rows into panels and tiles, narrowed to float32.

use super::{Block, F32, Piece, Shape, depth};
use crate::filter::Exceptions;
use crate::filter::form::{Fate, padded, widen_into};
use crate::isa::Simd;
use crate::matrix::Rows;

impl<S: Simd, const R: usize, const V: usize, const P: usize> F32<'_, S, R, V, P> {
    /// Narrows `row` to float32 and returns the norm of what is lost.
    #[inline(always)]
    pub(super) fn narrow(&self, row: &[f64], to: &mut [f32]) -> f64 {
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
    pub(super) fn pack_panel(
        &self,
        piece: &mut Piece<'_>,
        panel: usize,
        rows: Rows<'_>,
        scratch: &mut Scratch,
    ) -> Exceptions {
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
    pub(super) fn load_all(&self, block: &mut Block, rows: Rows<'_>) {
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
                for (slice, from) in scratch.narrow[..self.features].chunks(depth(P)).enumerate() {
                    let start = slice * depth(P) * block.tile_count * R + i / R * from.len() * R;
                    let tile = &mut block.tiles[start..][..from.len() * R];
                    for (to, &x) in tile.chunks_exact_mut(R).zip(from) {
                        to[i % R] = x;
                    }
                }
            }
            block.scalars.push(scalars);
        }
    }
}

/// Scratch of one worker.
pub(super) struct Scratch {
    wide: Vec<f64>,
    narrow: Vec<f32>,
}

impl Scratch {
    pub(super) fn new(features: usize) -> Self {
        let length = padded(features);
        Self {
            wide: vec![0.0; length],
            narrow: vec![0.0; length],
        }
    }
}
