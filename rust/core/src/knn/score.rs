//! Exact values of one query against the stored references.

use ndarray::ArrayView2;

use crate::isa::{Simd, prefetch};
use crate::matrix::Format;
use crate::refine::{Exact, ExactQuery};
use crate::select::Score;

/// The exact side of a query.
#[derive(Debug)]
pub(super) struct Scorer<'a, S, F: Format> {
    pub(super) simd: S,
    pub(super) exact: &'a Exact,
    pub(super) query: &'a ExactQuery,
    pub(super) view: ArrayView2<'a, F::Stored>,
    /// 1, or −1 where larger is nearer.
    pub(super) sign: f64,
    /// For rows whose elements do not lie side by side.
    pub(super) gathered: &'a mut Vec<F::Stored>,
}

impl<S: Simd, F: Format> Score for Scorer<'_, S, F> {
    #[inline]
    fn key(&mut self, row: u64) -> f64 {
        #[expect(clippy::cast_possible_truncation, reason = "row numbers come from usize")]
        let row = self.view.row(row as usize);
        match row.to_slice() {
            Some(row) => self.exact.key::<S, F>(self.simd, self.query, row, None),
            None => {
                self.gathered.clear();
                self.gathered.extend(row.iter().copied());
                self.exact.key::<S, F>(self.simd, self.query, self.gathered, None)
            }
        }
    }

    #[inline]
    fn prefetch(&self, row: u64) {
        /// Bytes after which the processor goes on by itself.
        const AHEAD: usize = 4096;
        const LINE: usize = 64;
        #[expect(clippy::cast_possible_truncation, reason = "row numbers come from usize")]
        if let Some(row) = self.view.row(row as usize).to_slice() {
            let size = size_of::<F::Stored>();
            row.iter().take(AHEAD / size).step_by(LINE / size).for_each(prefetch);
        }
    }

    #[inline]
    fn rank(&self, key: f64) -> f64 {
        self.sign * self.exact.value(key)
    }

    #[inline]
    fn widest(&self, rank: f64) -> f64 {
        self.exact.interval(self.sign * rank).high
    }
}
