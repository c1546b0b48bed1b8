//! The first thresholds.
//!
//! Without a threshold all pairs pass, and until it has fallen most do: to hold and to rank them costs far more than to
//! bound them. So the first panels are bounded before they are searched. Of their rows' upper bounds only the least of
//! each lane are kept, several lanes for each neighbour: the k-th least of those is hardly more than the k-th of all.

use std::ops::Range;

use crate::filter::{Filter, SPREAD, Uppers};

/// Lanes for each neighbour.
const LANES: usize = 4;

/// For each of the block's `queries` queries an upper bound that at least `wanted` keys of rows in the first panels do
/// not exceed, if `rows` of them are enough to say; else nothing.
pub(super) fn first_uppers<L: Filter>(
    filter: &L,
    block: &mut L::Block,
    chunk: &L::Chunk,
    queries: usize,
    panels: Range<usize>,
    rows: usize,
    wanted: usize,
) -> Vec<f64> {
    let sets = (LANES * wanted).div_ceil(SPREAD).max(LANES);
    let together = (rows / filter.panel_rows()).min(panels.len()) / sets;
    if together == 0 {
        return Vec::new();
    }
    let mut uppers: Vec<Uppers> = vec![[f64::INFINITY; SPREAD]; sets * queries];
    for (set, uppers) in uppers.chunks_exact_mut(queries).enumerate() {
        for panel in 0..together {
            filter.lower_uppers(block, chunk, panels.start + set * together + panel, uppers);
        }
    }
    let mut all = Vec::with_capacity(sets * SPREAD);
    (0..queries)
        .map(|query| {
            all.clear();
            all.extend(uppers.iter().skip(query).step_by(queries).flatten());
            *all.select_nth_unstable_by(wanted - 1, f64::total_cmp).1
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::first_uppers;
    use crate::distance::{Distance, Kind};
    use crate::filter::f32::Tiled;
    use crate::filter::{Filter, Form};
    use crate::isa::Portable;
    use crate::matrix::Rows;
    use crate::random::Random;
    use ndarray::Array2;

    #[test]
    fn as_many_keys_as_are_wanted_are_within_the_first_thresholds() {
        let mut random = Random(3);
        let rows = Array2::from_shape_fn((640, 3), |_| (random.next() >> 40) as f64);
        let distance = Distance::new(Kind::Lp(2.0), 2.0, None).expect("valid");
        let form = Form::fit(&distance, Rows::F64(rows.view())).expect("a filter");
        let filter = Portable::default().f32_filter(&form);
        let mut chunk = filter.chunk(640);
        for piece in &mut filter.pieces(&mut chunk, 640, 640 / filter.panel_rows()) {
            filter.pack(piece, Rows::F64(rows.view()));
        }
        let mut block = filter.block(5);
        filter.load(&mut block, Rows::F64(rows.view()).slice(0, 5));
        let panels = 0..640 / filter.panel_rows();
        let uppers = first_uppers(&filter, &mut block, &chunk, 5, panels.clone(), 512, 7);
        assert_eq!(uppers.len(), 5, "one for each query");
        for (query, upper) in uppers.into_iter().enumerate() {
            let key = |row: usize| (0..3).map(|i| (rows[[query, i]] - rows[[row, i]]).powi(2)).sum::<f64>();
            let within = |rows: usize| (0..rows).filter(|&row| key(row) <= upper).count();
            assert!(within(512) >= 7, "{} of {upper}", within(512));
            assert!(within(640) < 40, "hardly more than that: {}", within(640));
        }
        let none = first_uppers(&filter, &mut block, &chunk, 5, panels, 16, 7);
        assert!(none.is_empty(), "too few rows to say");
    }
}
