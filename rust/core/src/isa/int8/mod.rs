//! The 8-bit tile: exact integer products of a few queries with a panel of references, compared with a floor.
//!
//! A tile computes `start[row] + Σ a·b` in 32-bit integers for every query of a query panel (codes a) and every row
//! of a row panel (codes b), and says which of them reach the query's floor. All instruction sets use one scheme:
//! the multiplication wants one unsigned side, so rows are stored as `b + OFFSET` and the query panel carries, in
//! front of each group of its codes, what that offset adds to the sum, negated ([`Tile::head`]).
//!
//! With VNNI the products of four bytes go straight into 32-bit sums. Without it (`vpmaddubsw`) the sums have 16 bits
//! for a group of 32 features. They start at the negated offset, and wrap around on the way, so that only the true
//! `Σ a·b` of a group must fit: it does where the squares of the codes of each half group sum up to at most
//! [`Tile::SQUARES`] on either side (Cauchy-Schwarz). The sum of two products must not saturate, hence
//! `OFFSET + LIMIT` times [`Tile::PAIR`] must be at most 32,767: a rule for queries alone, so that codes can have a
//! larger limit than 90, at which no pair could break it. Few pairs do, and those become smaller.
//!
//! [`Model`] is the double of each tile in plain Rust, saturation and wrapping included.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod model;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vnni;

use std::fmt::Debug;

#[cfg(target_arch = "x86_64")]
pub use super::Avx2;
use super::Level;
pub use model::{Bytes, Model, Sixteen, ThirtyTwo};
#[cfg(target_arch = "x86_64")]
pub use vnni::{Avx512Vnni, AvxVnni};

/// Features of a step: the bytes that one 32-bit lane holds.
pub const STEP: usize = 4;
/// Most rows of a row panel.
pub const MAX_ROWS: usize = 64;
/// Most queries of a query panel.
pub const MAX_QUERIES: usize = 6;

/// A step of sixteen rows: four codes, offset, of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [u8; 64]);

/// One number for each row of a row panel; a tile uses the first [`Tile::ROWS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct PanelRow(pub [i32; MAX_ROWS]);

/// What a tile leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Verdict {
    /// `sums[query * ROWS + row]`; of use only after a tile that had a hit.
    pub sums: [i32; MAX_QUERIES * MAX_ROWS],
    /// Which sums reach their floor, as bits that [`Tile::place`] explains.
    pub hits: [u64; MAX_QUERIES],
}

impl Default for Verdict {
    fn default() -> Self {
        Self {
            sums: [0; MAX_QUERIES * MAX_ROWS],
            hits: [0; MAX_QUERIES],
        }
    }
}

/// The 8-bit tile of one instruction set.
pub trait Tile: Copy + Send + Sync + Debug + 'static {
    /// Queries of a query panel.
    const QUERIES: usize;
    /// Rows of a row panel; a multiple of 16.
    const ROWS: usize;
    /// Codes are whole numbers from `-LIMIT` to `LIMIT`.
    const LIMIT: i32;
    /// Two neighbouring codes of a query, of one sign, sum up to at most this; no less than `LIMIT`.
    const PAIR: i32;
    /// What is added to the codes of rows.
    const OFFSET: i32;
    /// Steps of a group; 0 if a row is one group.
    const GROUP: usize;
    /// The largest sum of squared codes of a half group.
    const SQUARES: i32;
    /// Words of [`Verdict::hits`] in use.
    const WORDS: usize;
    /// The level that this tile belongs to.
    const LEVEL: Level;

    /// Runs `f` compiled with the features of this instruction set.
    fn vectorize<R>(self, f: impl FnOnce() -> R) -> R;

    /// What stands in front of a group of a query's codes, given the sums of its even and odd half groups.
    fn head(even: i32, odd: i32) -> u32;

    /// Query and row that bit `bit` of word `word` of [`Verdict::hits`] speaks of.
    fn place(word: usize, bit: usize) -> (usize, usize);

    /// Whether any sum reaches its query's `floor`. See the module for the layouts: `query` has a head and
    /// [`Tile::GROUP`] steps for each group, of [`Tile::QUERIES`] words each, `rows` has [`Tile::ROWS`] / 16 lines
    /// for each step.
    fn tile(self, query: &[u32], rows: &[Line], start: &PanelRow, floor: &[i32; 8], verdict: &mut Verdict) -> bool;
}

/// Features are padded with zeros to a multiple of this.
#[must_use]
pub const fn padding<T: Tile>() -> usize {
    if T::GROUP == 0 { STEP } else { STEP * T::GROUP }
}

/// Groups of a row of `features` features, and steps of each.
#[must_use]
pub const fn groups<T: Tile>(features: usize) -> (usize, usize) {
    let padded = features.div_ceil(padding::<T>());
    if T::GROUP == 0 { (1, padded) } else { (padded, T::GROUP) }
}

/// Words of a query panel.
#[must_use]
pub const fn query_words<T: Tile>(features: usize) -> usize {
    let (groups, steps) = groups::<T>(features);
    groups * (steps + 1) * T::QUERIES
}

/// Lines of a row panel.
#[must_use]
pub const fn row_lines<T: Tile>(features: usize) -> usize {
    let (groups, steps) = groups::<T>(features);
    groups * steps * (T::ROWS / 16)
}

/// Which half of its group a feature belongs to: 0 or 1. Two neighbouring products are added first, and a 16-bit
/// lane sees every other such pair.
#[must_use]
pub const fn half(feature: usize) -> usize {
    feature / 2 % 2
}
