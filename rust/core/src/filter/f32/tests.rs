//! The bound against every pair's key, the scan against its threshold, and each term of the bound taken away.

use ndarray::Array2;
use proptest::prelude::*;

use super::Tiled;
use crate::distance::{Distance, Kind};
use crate::filter::terms::{Term, without};
use crate::filter::{Filter, Form, uppers_that_fail};
use crate::isa::{Simd, for_every_simd};
use crate::matrix::{F64, Rows};
use crate::refine::Exact;

/// Keys of all pairs as refinement computes them.
fn keys<S: Simd>(simd: S, distance: &Distance, query: &Array2<f64>, reference: &Array2<f64>) -> Vec<Vec<f64>> {
    let exact = Exact::new(distance, crate::matrix::Dtype::F64);
    let of = |x: &[f64]| {
        let x = exact.prepare_query(x);
        let rows = reference.rows().into_iter();
        rows.map(|y| exact.key::<S, F64>(simd, &x, y.as_slice().expect("adjacent"), None))
            .collect()
    };
    query
        .rows()
        .into_iter()
        .map(|x| of(x.as_slice().expect("adjacent")))
        .collect()
}

/// What is wrong with the bounds of a block against a chunk, if anything is.
fn fault<S: Tiled>(simd: S, distance: &Distance, query: &Array2<f64>, reference: &Array2<f64>) -> Option<String> {
    let form = Form::fit(distance, Rows::F64(reference.view())).expect("a distance with a filter");
    let filter = simd.f32_filter(&form);
    let n = reference.nrows();
    let mut chunk = filter.chunk(n);
    let panels = n.div_ceil(filter.panel_rows());
    for piece in &mut filter.pieces(&mut chunk, n, panels) {
        filter.pack(piece, Rows::F64(reference.view()));
    }
    let mut block = filter.block(query.nrows());
    filter.load(&mut block, Rows::F64(query.view()));
    let keys = keys(simd, distance, query, reference);
    let width = filter.panel_rows();
    let mut out = vec![(0.0, 0.0); query.nrows() * width];
    let mut hits = Vec::new();
    for panel in 0..panels {
        let failing = uppers_that_fail(&filter, &mut block, &chunk, panel, &keys);
        if failing > 0 {
            return Some(format!("{distance:?}, panel {panel}: {failing} upper bounds"));
        }
        filter.bounds(&mut block, &chunk, panel, &mut out);
        for (i, row) in keys.iter().enumerate() {
            for j in panel * width..((panel + 1) * width).min(n) {
                let ((lower, upper), key) = (out[i * width + j - panel * width], row[j]);
                if lower > key || upper < key || lower.is_nan() || upper.is_nan() {
                    return Some(format!(
                        "{distance:?}, pair {i}, {j}: {key:e} is not in {lower:e} ... {upper:e}"
                    ));
                }
            }
        }
    }
    for (i, row) in keys.iter().enumerate() {
        let mut sorted: Vec<f64> = row.iter().copied().filter(|key| !key.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        filter.set_threshold(
            &mut block,
            i,
            sorted.get(sorted.len() / 3).copied().unwrap_or(f64::INFINITY),
        );
    }
    (0..panels).for_each(|panel| filter.scan(&mut block, &chunk, panel, &mut hits));
    for (i, row) in keys.iter().enumerate().filter(|&(i, _)| filter.usable(&block, i)) {
        let mut sorted: Vec<f64> = row.iter().copied().filter(|key| !key.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let threshold = sorted.get(sorted.len() / 3).copied().unwrap_or(f64::INFINITY);
        for (j, &key) in row.iter().enumerate() {
            let hit = hits.iter().any(|hit| (hit.query as usize, hit.row as usize) == (i, j));
            if key <= threshold && !hit {
                return Some(format!(
                    "{distance:?}, pair {i}, {j}: {key:e} was not reported below {threshold:e}"
                ));
            }
        }
    }
    None
}

fn distances() -> Vec<Distance> {
    let kinds = [
        Kind::Lp(2.0),
        Kind::Lp(1.0),
        Kind::Lp(f64::INFINITY),
        Kind::Dot,
        Kind::Cosine,
        Kind::Snr,
    ];
    let of = |kind| [None, Some(2.0), Some(1.0)].map(|p| Distance::new(kind, 1.0, p).expect("valid parameters"));
    kinds.into_iter().flat_map(of).collect()
}

/// A number of one of the kinds that strain a bound.
fn element(style: u8) -> BoxedStrategy<f64> {
    let unit = -1.0..1.0_f64;
    match style {
        0 => unit.boxed(),
        1 => unit.prop_map(|x| 1e9 + x).boxed(),
        2 => unit.prop_map(|x| x * 1e15).boxed(),
        3 => unit.prop_map(|x| x * 1e-15).boxed(),
        4 => unit.prop_map(|x| x * 1e-41).boxed(),
        5 => unit.prop_map(|x| x * 1e-310).boxed(),
        6 => prop::sample::select(vec![0.0, 1.0, 2.0]).boxed(),
        7 => prop_oneof![30 => unit, 1 => Just(1e12)].boxed(),
        8 => unit.prop_map(|x| x * 1e-160).boxed(),
        9 => unit.prop_map(|x| x * 1e150).boxed(),
        10 => unit.prop_map(|x| 1e3 + x * 1e-4).boxed(),
        _ => Just(0.0).boxed(),
    }
}

fn rows(most: usize, features: usize) -> impl Strategy<Value = Array2<f64>> {
    prop::collection::vec(
        (0_u8..12).prop_flat_map(move |style| prop::collection::vec(element(style), features)),
        1..most,
    )
    .prop_map(move |rows| {
        let count = rows.len();
        Array2::from_shape_vec((count, features), rows.concat()).expect("as many numbers as there are places")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bounds_enclose_every_key_and_scans_miss_none(
        (query, reference) in prop_oneof![1_usize..20, 255_usize..260].prop_flat_map(|d| (rows(15, d), rows(40, d))),
    ) {
        for distance in &distances() {
            for_every_simd!(simd => {
                assert_eq!(fault(simd, distance, &query, &reference), None);
            });
        }
    }
}

/// Rows, and the same rows once more, that strain the bound of `kind`; whether it held.
fn held<S: Tiled>(simd: S, kind: Kind, values: &Array2<f64>, others: &Array2<f64>) -> bool {
    let distance = Distance::new(kind, 1.0, None).expect("valid parameters");
    fault(simd, &distance, values, others).is_none()
}

#[test]
fn the_accumulation_term_is_needed() {
    // Rows and their negatives, so that the mean is 0, with products that all add up.
    let values = Array2::from_shape_fn((8, 4096), |(i, j)| {
        #[expect(clippy::cast_possible_truncation, reason = "a float32 number is wanted")]
        let x = (1.0 + ((i / 2 * 4096 + j) as f64 * 0.73).sin() * 0.3) as f32;
        f64::from(x) * if i % 2 == 0 { 1.0 } else { -1.0 }
    });
    for_every_simd!(simd => {
        assert!(held(simd, Kind::Lp(2.0), &values, &values), "with all terms");
        assert!(!without(Term::Accumulation, || held(simd, Kind::Lp(2.0), &values, &values)), "without accumulation");
    });
}

#[test]
fn the_rounding_terms_are_needed() {
    // Near rows whose elements float32 does not hold: the difference is far smaller than what storing loses.
    let wide = Array2::from_shape_fn((24, 8), |(i, j)| 1.0 + ((i * 8 + j) as f64 * 0.37).sin() * 1e-9);
    let narrow = Array2::from_shape_fn((24, 8), |(i, j)| if (i + j) % 2 == 0 { 1.0 } else { -1.0 });
    let mixed = |n: usize| {
        Array2::from_shape_fn(
            (48, 8),
            |(i, j)| if i < n { wide[(i % 24, j)] } else { narrow[(i % 24, j)] },
        )
    };
    for_every_simd!(simd => {
        for kind in [Kind::Lp(1.0), Kind::Lp(f64::INFINITY)] {
            assert!(held(simd, kind, &wide, &mixed(24)), "with all terms");
            let both = |term| without(term, || held(simd, kind, &wide, &mixed(24)));
            assert!(!both(Term::QueryRounding), "{kind:?} without the query's");
            assert!(!both(Term::ReferenceRounding), "{kind:?} without the reference's");
        }
    });
}

#[test]
fn products_that_underflow_before_they_are_divided_are_covered() {
    // Their sum has few bits left, and the cosine divides it by norms of 1e-12.
    let rows = |phase: f64| Array2::from_shape_fn((40, 257), |(i, j)| ((i * 257 + j) as f64 + phase).sin() * 1e-161);
    for_every_simd!(simd => {
        let is_held = || held(simd, Kind::Cosine, &rows(0.0), &rows(0.3));
        assert!(is_held(), "with all terms");
        assert!(!without(Term::Underflow, is_held), "without underflow");
    });
}
