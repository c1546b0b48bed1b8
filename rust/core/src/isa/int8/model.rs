//! The tiles in plain Rust: for CPUs without the instructions, and to test the others against.

use super::super::Level;
use super::{Line, PanelRow, STEP, Tile, Verdict};

/// How the bytes of a step are multiplied and summed up.
pub trait Bytes: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// See [`Tile::LIMIT`].
    const LIMIT: i32;
    /// See [`Tile::PAIR`].
    const PAIR: i32;
    /// See [`Tile::OFFSET`].
    const OFFSET: i32;
    /// See [`Tile::GROUP`].
    const GROUP: usize;
    /// See [`Tile::SQUARES`].
    const SQUARES: i32;
    /// See [`Tile::head`].
    fn head(even: i32, odd: i32) -> u32;
    /// The sum of a group that starts at `head`, over pairs of (offset codes of a row, codes of a query).
    fn group(head: u32, steps: impl Iterator<Item = ([u8; STEP], [u8; STEP])>) -> i32;
}

/// Sums of 16 bits, as `vpmaddubsw`, `vpaddw` and `vpmaddwd` make them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sixteen;
/// Sums of 32 bits, as `vpdpbusd` makes them.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThirtyTwo;

fn product(b: u8, a: u8) -> i32 {
    i32::from(b) * i32::from(a.cast_signed())
}

impl Bytes for Sixteen {
    const LIMIT: i32 = 115;
    const PAIR: i32 = 142;
    const OFFSET: i32 = 115;
    const GROUP: usize = 8;
    const SQUARES: i32 = 32_767;

    #[inline(always)]
    fn head(even: i32, odd: i32) -> u32 {
        let low = (-Self::OFFSET * even).cast_unsigned() & 0xffff;
        let high = (-Self::OFFSET * odd).cast_unsigned() & 0xffff;
        low | high << 16
    }

    fn group(head: u32, steps: impl Iterator<Item = ([u8; STEP], [u8; STEP])>) -> i32 {
        let lanes = [head & 0xffff, head >> 16];
        let mut lanes = lanes.map(|lane| u16::try_from(lane).map_or(0, u16::cast_signed));
        for (b, a) in steps {
            for (i, lane) in lanes.iter_mut().enumerate() {
                let pair = product(b[2 * i], a[2 * i]) + product(b[2 * i + 1], a[2 * i + 1]);
                let pair = pair.clamp(i16::MIN.into(), i16::MAX.into());
                *lane = lane.wrapping_add(i16::try_from(pair).unwrap_or(0));
            }
        }
        lanes.map(i32::from).iter().sum()
    }
}

impl Bytes for ThirtyTwo {
    const LIMIT: i32 = 127;
    const PAIR: i32 = i32::MAX;
    const OFFSET: i32 = 128;
    const GROUP: usize = 0;
    const SQUARES: i32 = i32::MAX;

    #[inline(always)]
    fn head(even: i32, odd: i32) -> u32 {
        (-Self::OFFSET).wrapping_mul(even + odd).cast_unsigned()
    }

    fn group(head: u32, steps: impl Iterator<Item = ([u8; STEP], [u8; STEP])>) -> i32 {
        steps.fold(head.cast_signed(), |sum, (b, a)| {
            let products: i32 = (0..STEP).map(|i| product(b[i], a[i])).sum();
            sum.wrapping_add(products)
        })
    }
}

/// The tile with `B`'s arithmetic for row panels of `ROWS` rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Model<B, const ROWS: usize>(B);

impl<B: Bytes, const ROWS: usize> Tile for Model<B, ROWS> {
    const QUERIES: usize = 6;
    const ROWS: usize = ROWS;
    const LIMIT: i32 = B::LIMIT;
    const PAIR: i32 = B::PAIR;
    const OFFSET: i32 = B::OFFSET;
    const GROUP: usize = B::GROUP;
    const SQUARES: i32 = B::SQUARES;
    const WORDS: usize = 6;
    const LEVEL: Level = Level::Portable;

    #[inline(always)]
    fn vectorize<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }

    #[inline(always)]
    fn head(even: i32, odd: i32) -> u32 {
        B::head(even, odd)
    }

    #[inline(always)]
    fn place(word: usize, bit: usize) -> (usize, usize) {
        (word, bit)
    }

    fn tile(self, query: &[u32], rows: &[Line], start: &PanelRow, floor: &[i32; 8], verdict: &mut Verdict) -> bool {
        let lines = ROWS / 16;
        let steps = if B::GROUP == 0 { rows.len() / lines } else { B::GROUP };
        let query_group = (steps + 1) * Self::QUERIES;
        verdict.hits = [0; 6];
        for i in 0..Self::QUERIES {
            for j in 0..ROWS {
                let mut sum = start.0[j];
                for (a, b) in query.chunks_exact(query_group).zip(rows.chunks_exact(steps * lines)) {
                    let pairs = (0..steps).map(|step| {
                        let line = &b[step * lines + j / 16].0;
                        let row: [u8; STEP] = std::array::from_fn(|byte| line[j % 16 * STEP + byte]);
                        (row, a[(step + 1) * Self::QUERIES + i].to_le_bytes())
                    });
                    sum = sum.wrapping_add(B::group(a[i], pairs));
                }
                verdict.sums[i * ROWS + j] = sum;
                verdict.hits[i] |= u64::from(sum >= floor[i]) << j;
            }
        }
        verdict.hits != [0; 6]
    }
}
