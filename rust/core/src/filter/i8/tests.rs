//! The bound against every pair's key, the scan against its threshold, and each term of the bound taken away.

use ndarray::Array2;
use proptest::prelude::*;

use super::quantize::{code_length, quantize};
use super::{Basis, I8, MOST_FEATURES};
use crate::distance::{Distance, Kind};
use crate::filter::terms::{Term, without};
use crate::filter::{Filter, Form, uppers_that_fail};
use crate::isa::Portable;
use crate::isa::int8::{Model as TileModel, Sixteen, ThirtyTwo, Tile, half, padding};
use crate::matrix::{F64, Rows};
use crate::random::Random;
use crate::refine::Exact;

/// Runs `$body` with `$tile` as every tile that this CPU has and every model.
macro_rules! for_every_tile {
    ($tile:ident => $body:expr) => {{
        {
            let $tile = TileModel::<Sixteen, 16>::default();
            $body
        }
        {
            let $tile = TileModel::<ThirtyTwo, 64>::default();
            $body
        }
        #[cfg(target_arch = "x86_64")]
        {
            if let Some($tile) = crate::isa::Avx2::detect() {
                $body
            }
            if let Some($tile) = crate::isa::int8::AvxVnni::detect() {
                $body
            }
            if let Some($tile) = crate::isa::int8::Avx512Vnni::detect() {
                $body
            }
        }
    }};
}

fn distances() -> Vec<Distance> {
    let kinds = [Kind::Lp(2.0), Kind::Dot, Kind::Cosine, Kind::Snr];
    let all = kinds
        .into_iter()
        .flat_map(|kind| [None, Some(2.0), Some(1.0)].map(|p| Distance::new(kind, 1.0, p).expect("valid parameters")));
    all.collect()
}

const STYLES: usize = 16;

/// Data that is easy, and data that strains the bound: offsets, scales, outliers, whole numbers, copies.
fn data(style: usize, rows: usize, features: usize, random: &mut Random) -> Array2<f64> {
    let mut values = Array2::from_shape_fn((rows, features), |_| random.normal());
    let scale = |values: &mut Array2<f64>, s: f64| values.mapv_inplace(|x| x * s);
    match style {
        0 => {}
        1 => values.mapv_inplace(|x| 1e9 + x),
        2 => scale(&mut values, 1e15),
        3 => scale(&mut values, 1e-15),
        4 => scale(&mut values, 1e-41),
        5 => scale(&mut values, 1e-310),
        6 => values.mapv_inplace(|x| (x * 40.0).round().clamp(-127.0, 127.0)),
        7 => values.mapv_inplace(|_| random.below(256)),
        8 => values.column_mut(0).mapv_inplace(|x| x * 1e6),
        9 => values
            .iter_mut()
            .for_each(|x| *x = if random.next().is_multiple_of(50) { *x * 1e4 } else { *x }),
        10 => {
            for mut row in values.rows_mut() {
                let s = 10.0_f64.powf(random.unit() * 20.0 - 10.0);
                row.mapv_inplace(|x| x * s);
            }
        }
        11 => {
            let first = values.row(0).to_owned();
            values
                .rows_mut()
                .into_iter()
                .for_each(|mut row| row.zip_mut_with(&first, |x, f| *x = f + *x * 1e-3));
        }
        12 => values
            .rows_mut()
            .into_iter()
            .step_by(2)
            .for_each(|mut row| row.fill(0.25)),
        13 => scale(&mut values, 1e150),
        14 => values.mapv_inplace(|x| x * x * x * x * x),
        _ => values.mapv_inplace(|x| if x > 0.0 { 1.0 } else { -1.0 }),
    }
    values
}

/// Keys of all pairs as refinement computes them.
fn keys(distance: &Distance, query: &Array2<f64>, reference: &Array2<f64>) -> Vec<Vec<f64>> {
    let rows = Rows::F64(reference.view());
    let exact = Exact::new(distance, rows.dtype());
    let simd = Portable::default();
    let key_of = |x: &[f64], y: &[f64]| exact.key::<_, F64>(simd, &exact.prepare_query(x), y, None);
    let rows_of = |a: &Array2<f64>| a.rows().into_iter().map(|row| row.to_vec()).collect::<Vec<_>>();
    let references = rows_of(reference);
    rows_of(query)
        .iter()
        .map(|x| references.iter().map(|y| key_of(x, y)).collect())
        .collect()
}

/// What a filter says: pairs outside their interval, pairs missing from a scan, and pairs that a scan let pass.
#[derive(Debug, Default)]
struct Verdict {
    pairs: usize,
    outside: usize,
    missing: usize,
    passed: usize,
    wanted: usize,
}

impl Verdict {
    fn add(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.outside += other.outside;
        self.missing += other.missing;
        self.passed += other.passed;
        self.wanted += other.wanted;
    }

    fn is_sound(&self) -> bool {
        self.outside == 0 && self.missing == 0
    }
}

/// Holds every pair to its interval; then gives each query the key of rank `rank` as threshold and counts what is
/// reported.
fn judge<T: Tile>(tile: T, distance: &Distance, query: &Array2<f64>, reference: &Array2<f64>, rank: usize) -> Verdict {
    let keys = keys(distance, query, reference);
    judge_keys(tile, distance, query, reference, &keys, rank)
}

fn judge_keys<T: Tile>(
    tile: T,
    distance: &Distance,
    query: &Array2<f64>,
    reference: &Array2<f64>,
    keys: &[Vec<f64>],
    rank: usize,
) -> Verdict {
    let rows = Rows::F64(reference.view());
    let form = Form::fit(distance, rows).expect("a filter");
    let filter = I8::new(tile, &form, Basis::Rows(rows));
    let mut chunk = filter.chunk(rows.len());
    for (i, mut piece) in filter.pieces(&mut chunk, rows.len(), 2).into_iter().enumerate() {
        let first = i * 2 * T::ROWS;
        filter.pack(&mut piece, rows.slice(first, (first + 2 * T::ROWS).min(rows.len())));
    }
    let queries = query.nrows();
    let mut block = filter.block(queries);
    filter.load(&mut block, Rows::F64(query.view()));
    let mut verdict = Verdict {
        pairs: queries * rows.len(),
        ..Verdict::default()
    };
    let panels = rows.len().div_ceil(T::ROWS);
    let mut bounds = vec![(0.0, 0.0); queries * T::ROWS];
    for panel in 0..panels {
        verdict.outside += uppers_that_fail(&filter, &mut block, &chunk, panel, keys);
        filter.bounds(&mut block, &chunk, panel, &mut bounds);
        for (i, bounds) in bounds.chunks(T::ROWS).enumerate() {
            for (row, &(lower, upper)) in (panel * T::ROWS..rows.len()).zip(bounds) {
                let key = keys[i][row];
                verdict.outside += usize::from(!(key.is_nan() || lower <= key && key <= upper));
            }
        }
    }
    let mut hits = Vec::new();
    let mut thresholds = Vec::new();
    for (i, keys) in keys.iter().enumerate() {
        let mut sorted: Vec<f64> = keys.iter().copied().filter(|key| !key.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let threshold = sorted
            .get(rank.min(sorted.len().saturating_sub(1)))
            .copied()
            .unwrap_or(f64::INFINITY);
        filter.set_threshold(&mut block, i, threshold);
        thresholds.push(threshold);
    }
    for panel in 0..panels {
        filter.scan(&mut block, &chunk, panel, &mut hits);
    }
    let mut seen = vec![vec![false; rows.len()]; queries];
    for hit in &hits {
        let seen = &mut seen[hit.query as usize][hit.row as usize];
        assert!(!std::mem::replace(seen, true), "a pair is reported once");
        verdict.passed += 1;
    }
    for (i, keys) in keys.iter().enumerate().filter(|&(i, _)| filter.usable(&block, i)) {
        for (row, _) in keys.iter().enumerate().filter(|&(_, &key)| key <= thresholds[i]) {
            verdict.wanted += 1;
            verdict.missing += usize::from(!seen[i][row]);
        }
    }
    verdict
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_key_lies_in_its_interval_and_no_near_pair_is_missed(
        style in 0..STYLES, other in 0..STYLES, same in any::<bool>(), seed in any::<u64>(),
        queries in 1_usize..14, references in 1_usize..100, features in prop_oneof![1_usize..70, 200_usize..300],
        rank in 0_usize..20, pick in 0_usize..1000,
    ) {
        let mut random = Random(seed);
        let reference = data(style, references, features, &mut random);
        let query = data(if same { style } else { other }, queries, features, &mut random);
        let all = distances();
        let distance = &all[pick % all.len()];
        let keys = keys(distance, &query, &reference);
        for_every_tile!(tile => {
            let verdict = judge_keys(tile, distance, &query, &reference, &keys, rank);
            prop_assert!(verdict.is_sound(), "{tile:?} {distance:?} {verdict:?}");
        });
    }
}

#[test]
fn few_pairs_of_normal_data_pass() {
    let mut random = Random(1);
    let reference = data(0, 2000, 128, &mut random);
    let query = data(0, 12, 128, &mut random);
    for distance in [Kind::Lp(2.0), Kind::Dot, Kind::Cosine].map(|kind| Distance::new(kind, 1.0, None).expect("valid"))
    {
        for_every_tile!(tile => {
            let verdict = judge(tile, &distance, &query, &reference, 9);
            assert_eq!(verdict.wanted, 120, "{verdict:?}");
            assert!(verdict.is_sound() && verdict.passed < 12 * 60, "{tile:?} {distance:?} {verdict:?}");
        });
    }
}

#[test]
fn whole_numbers_lose_nothing() {
    let mut random = Random(2);
    let mut codes = vec![0; code_length(64)];
    let row: Vec<f64> = (0..64).map(|_| random.below(61) - 30.0).collect();
    assert!(
        quantize::<TileModel<Sixteen, 16>, true>(&row, 1.0, &mut codes).lost < 1e-100,
        "all codes are exact"
    );
    let values = data(6, 300, 64, &mut random).mapv(|x| (x / 4.0).round());
    let distance = Distance::new(Kind::Lp(2.0), 2.0, None).expect("valid");
    for_every_tile!(tile => {
        let verdict = judge(tile, &distance, &values.slice(ndarray::s![..12, ..]).to_owned(), &values, 9);
        assert!(verdict.is_sound() && verdict.passed == verdict.wanted, "{tile:?} {verdict:?}");
    });
}

/// Judges data on which the bounds are nearly reached: rounding errors of query and reference that point the same
/// way, and offsets that float32 does not hold.
fn strained<T: Tile>(tile: T) -> Verdict {
    let features = 2048;
    let mut all = Verdict::default();
    let distance = Distance::new(Kind::Lp(2.0), 2.0, None).expect("valid");
    let sign = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
    // All codes at their limit or 0, all errors 0.4 of a step, all products of one sign.
    let slanted = |error: f64| {
        Array2::from_shape_fn((16, features), |(r, i)| {
            if (i + r) % 41 == 0 {
                sign(i / 41) * 63.0
            } else {
                sign(i + r) * error
            }
        })
    };
    for (x, y) in [(0.4, 0.0), (0.0, 0.4), (0.4, 0.4), (0.4, -0.4)] {
        all.add(&judge(tile, &distance, &slanted(x), &slanted(y), 3));
    }
    // Squares that need more than 24 bits, without any other error.
    let mut random = Random(3);
    let whole = Array2::from_shape_fn((16, 2 * features), |_| random.below(255) - 127.0);
    all.add(&judge(tile, &distance, &whole, &whole, 3));
    all
}

#[test]
fn every_term_of_the_bound_is_needed() {
    let tile = TileModel::<ThirtyTwo, 16>::default();
    let whole = strained(tile);
    assert!(whole.is_sound(), "{whole:?}");
    for term in [Term::QueryRounding, Term::ReferenceRounding, Term::Comparison] {
        let verdict = without(term, || strained(tile));
        assert!(!verdict.is_sound(), "{term:?} is not needed: {verdict:?}");
    }
}

#[test]
fn a_reference_far_out_of_scale_is_always_reported() {
    let mut random = Random(4);
    let mut reference = data(0, 200, 32, &mut random);
    // Its bound is worthless, and β out of range.
    reference.row_mut(7).fill(1e9);
    let query = data(0, 6, 32, &mut random);
    let distance = Distance::new(Kind::Dot, 1.0, None).expect("valid");
    for_every_tile!(tile => {
        let verdict = judge(tile, &distance, &query, &reference, 0);
        assert!(verdict.is_sound() && verdict.wanted >= 6, "{tile:?} {verdict:?}");
    });
}

#[test]
fn codes_obey_the_rules_whatever_the_row() {
    type T = TileModel<Sixteen, 16>;
    let mut random = Random(5);
    for style in 0..STYLES {
        let rows = data(style, 20, 96, &mut random);
        for row in rows.rows() {
            let row = row.to_vec();
            for scale in [1e-3, 0.01, 0.1, 1.0] {
                let mut codes = vec![0; code_length(96)];
                let norms = quantize::<T, true>(&row, scale, &mut codes);
                for pair in codes.as_chunks::<2>().0 {
                    let sum: i32 = pair.iter().map(|&c| i32::from(c)).sum();
                    assert!(sum.abs() <= T::PAIR, "style {style}");
                }
                for group in codes.chunks(padding::<T>()) {
                    for h in 0..2 {
                        let squares = group
                            .iter()
                            .enumerate()
                            .filter(|&(i, _)| half(i) == h)
                            .map(|(_, &c)| i32::from(c) * i32::from(c));
                        assert!(squares.sum::<i32>() <= T::SQUARES, "style {style}");
                    }
                }
                let lost: f64 = row
                    .iter()
                    .zip(&codes)
                    .map(|(x, &c)| (x - scale * f64::from(c)).powi(2))
                    .sum();
                assert!(
                    norms.lost >= lost.sqrt() || !lost.is_finite(),
                    "style {style}: what is lost is computed after all"
                );
            }
        }
    }
}

#[test]
fn sums_of_the_most_features_fit() {
    let largest = super::quantize::largest_product::<TileModel<ThirtyTwo, 16>>(MOST_FEATURES);
    assert!(largest < f64::from(1 << 30) * 1.01, "half of the range is left for β");
}

#[test]
#[ignore = "takes minutes: a hundred million pairs against the bound"]
fn a_hundred_million_pairs_keep_to_the_bound() {
    let mut random = Random(6);
    let all = distances();
    let mut total = Verdict::default();
    let mut round = 0;
    while total.pairs < 100_000_000 {
        let style = round % STYLES;
        let distance = &all[round / STYLES % all.len()];
        let features = 1 + usize::try_from(random.next() % 300).expect("small");
        let reference = data(style, 2000, features, &mut random);
        let query_style = if round % 3 == 0 {
            usize::try_from(random.next()).expect("64 bits") % STYLES
        } else {
            style
        };
        let query = data(query_style, 24, features, &mut random);
        let keys = keys(distance, &query, &reference);
        for_every_tile!(tile => {
            let verdict = judge_keys(tile, distance, &query, &reference, &keys, 9);
            assert!(verdict.is_sound(), "round {round}: {tile:?} {distance:?} {verdict:?}");
            total.add(&verdict);
        });
        round += 1;
    }
    assert!(total.pairs >= 100_000_000, "{total:?}");
}
