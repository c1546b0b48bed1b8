//! Cheap estimates of every pair's key, with bounds that are proven.
//!
//! A filter packs references into panels and queries into blocks, multiplies one with the other in cheap arithmetic
//! and reports the pairs whose lower bound does not exceed the query's threshold. What is reported is refined in
//! float64, so a filter never changes a result: it only decides how much work is left.
//!
//! [`Form`] turns rows into the operands of a product (or of a difference) with the part of the error that belongs to
//! preparation and float64 evaluation. A filter adds the error of its own arithmetic. For every pair, in key units,
//! `interval(..).0 <= key <= interval(..).1`, where `key` is what refinement computes.

pub mod aligned;
pub mod f32;
pub mod form;
pub mod i8;
pub mod terms;

pub use aligned::Aligned;
pub use form::{Fate, Form, Operand, Shape};

use crate::matrix::Rows;

/// A pair that may be among the nearest: `lower <= key <= upper`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Row within the block of queries.
    pub query: u32,
    /// Row within the chunk of references.
    pub row: u32,
    /// What the key is at least.
    pub lower: f64,
    /// What the key is at most.
    pub upper: f64,
}

/// Lanes of [`Uppers`].
pub const SPREAD: usize = 16;

/// Upper bounds of keys of one query; those that are not infinite belong to different rows.
pub type Uppers = [f64; SPREAD];

/// One kind of estimate: how rows are packed, multiplied and bounded.
pub trait Filter: Sync {
    /// Packed references.
    type Chunk: Send + Sync + 'static;
    /// A run of panels of a chunk, to be packed by one worker.
    type Piece<'a>: Send
    where
        Self: 'a;
    /// Packed queries, their thresholds and the scratch of one worker.
    type Block: Send;

    /// References in a panel.
    fn panel_rows(&self) -> usize;

    /// Bytes that one packed reference takes.
    fn row_bytes(&self) -> usize;

    /// Query rows that a tile takes at once; blocks are best whole multiples of it.
    fn tile_rows(&self) -> usize;

    /// Room for `rows` packed references.
    fn chunk(&self, rows: usize) -> Self::Chunk;

    /// The chunk cut into pieces of `panels` panels, in order; the chunk then holds `rows` rows.
    fn pieces<'a>(&self, chunk: &'a mut Self::Chunk, rows: usize, panels: usize) -> Vec<Self::Piece<'a>>;

    /// Packs `rows`, all rows of this piece. Returns what rows did not go into the arithmetic as they are.
    fn pack(&self, piece: &mut Self::Piece<'_>, rows: Rows<'_>) -> Exceptions;

    /// Room for `queries` packed queries.
    fn block(&self, queries: usize) -> Self::Block;

    /// Packs `rows` as the queries of the block, thresholds at infinity.
    fn load(&self, block: &mut Self::Block, rows: Rows<'_>);

    /// Whether query `query` of the block can be filtered; if not, it is never reported and must be searched directly.
    fn usable(&self, block: &Self::Block, query: usize) -> bool;

    /// From now on pairs of this query with lower bounds above `key` need not be reported.
    fn set_threshold(&self, block: &mut Self::Block, query: usize, key: f64);

    /// Appends to `hits` every pair of the panel whose lower bound is not above its query's threshold.
    fn scan(&self, block: &mut Self::Block, chunk: &Self::Chunk, panel: usize, hits: &mut Vec<Hit>);

    /// Lowers the upper bounds of each query of the block, as far as rows of the panel can: a row goes to one lane.
    fn lower_uppers(&self, block: &mut Self::Block, chunk: &Self::Chunk, panel: usize, uppers: &mut [Uppers]);

    /// Bounds of every pair of the panel, NaN-free, row-major (queries of the block × [`Filter::panel_rows`]):
    /// (lower, upper). Unusable queries, unknown and padded references get (−∞, ∞).
    fn bounds(&self, block: &mut Self::Block, chunk: &Self::Chunk, panel: usize, out: &mut [(f64, f64)]);
}

/// How many of the upper bounds of the panel from row `first` on do not hold: the least of a query's must be no less
/// than the least key, the second than the second, and so on. `keys` has a row for each query.
#[cfg(test)]
fn uppers_that_fail<L: Filter>(
    filter: &L,
    block: &mut L::Block,
    chunk: &L::Chunk,
    panel: usize,
    keys: &[Vec<f64>],
) -> usize {
    let width = filter.panel_rows();
    let mut uppers = vec![[f64::INFINITY; SPREAD]; keys.len()];
    filter.lower_uppers(block, chunk, panel, &mut uppers);
    let failing = |(uppers, keys): (&mut Uppers, &Vec<f64>)| {
        let mut keys: Vec<f64> = keys.iter().skip(panel * width).take(width).copied().collect();
        keys.sort_by(f64::total_cmp);
        uppers.sort_by(f64::total_cmp);
        let finite = uppers.iter().filter(|upper| **upper < f64::INFINITY);
        finite
            .zip(keys.iter().chain(std::iter::repeat(&f64::NAN)))
            .filter(|(upper, key)| key.is_nan() || key > upper)
            .count()
    };
    uppers.iter_mut().zip(keys).map(failing).sum()
}

/// What was found among packed rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exceptions {
    /// First row, counted from the piece's first, that holds NaN.
    pub nan: Option<usize>,
    /// First finite row whose sum of squares is out of range.
    pub large: Option<usize>,
}

impl Exceptions {
    /// Notes row `row` with its fate.
    pub fn note(&mut self, row: usize, fate: &Fate) {
        match fate {
            Fate::Nan => self.nan = self.nan.or(Some(row)),
            Fate::TooLarge => self.large = self.large.or(Some(row)),
            Fate::Usable(_) | Fate::Unknown => {}
        }
    }
}
