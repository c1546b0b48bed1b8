//! Keys and values of every instruction set and every model against the naive formulas, bit for bit.

use half::{bf16, f16};
use proptest::prelude::*;

use super::panel::{Panel, ReadyRows};
use super::{Exact, ordinal};
use crate::distance::{Distance, Kind};
use crate::isa::{Simd, for_every_simd};
use crate::matrix::{Bf16, Dtype, F16, F32, F64, Format};
use crate::reference;

/// How a number is stored in each format.
trait Store: Format {
    fn store(value: f64) -> Self::Stored;
}
impl Store for F64 {
    fn store(value: f64) -> f64 {
        value
    }
}
#[expect(clippy::cast_possible_truncation, reason = "rounding to the format is meant")]
impl Store for F32 {
    fn store(value: f64) -> f32 {
        value as f32
    }
}
impl Store for F16 {
    fn store(value: f64) -> f16 {
        f16::from_f64(value)
    }
}
impl Store for Bf16 {
    fn store(value: f64) -> u16 {
        bf16::from_f64(value).to_bits()
    }
}

/// Rows of every kind that breaks careless arithmetic.
fn element(style: u8) -> BoxedStrategy<f64> {
    match style {
        0 => (-4.0..4.0).boxed(),
        1 => (-1.0..1.0).prop_map(|v: f64| 1e9 + v).boxed(),
        2 => (-1.0..1.0).prop_map(|v: f64| v * 1e15).boxed(),
        3 => (-1.0..1.0).prop_map(|v: f64| v * 1e-15).boxed(),
        4 => (-1.0..1.0).prop_map(|v: f64| v * 1e-41).boxed(),
        5 => (-1.0..1.0).prop_map(|v: f64| v * 1e-310).boxed(),
        6 => prop::sample::select(vec![0.0, -0.0, 1.0, 2.0]).boxed(),
        7 => prop_oneof![40 => -1.0..1.0, 1 => Just(1e30)].boxed(),
        8 => prop_oneof![20 => -1.0..1.0, 1 => Just(f64::NAN)].boxed(),
        9 => prop_oneof![20 => -1.0..1.0, 1 => Just(f64::INFINITY), 1 => Just(f64::NEG_INFINITY)].boxed(),
        10 => Just(0.0).boxed(),
        11 => Just(0.3).boxed(),
        _ => any::<f64>().boxed(),
    }
}

const STYLES: u8 = 13;

fn two_rows() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    let features = prop_oneof![9 => 0_usize..70, 1 => 127_usize..130];
    (features, 0..STYLES, 0..STYLES).prop_flat_map(|(features, x, y)| {
        let row = |style| prop::collection::vec(element(style), features);
        (row(x), row(y))
    })
}

fn distances() -> Vec<Distance> {
    let kinds = [
        Kind::Lp(2.0),
        Kind::Lp(1.0),
        Kind::Lp(f64::INFINITY),
        Kind::Lp(3.0),
        Kind::Lp(0.5),
        Kind::Lp(2.5),
        Kind::Dot,
        Kind::Cosine,
        Kind::Snr,
    ];
    let mut all = Vec::new();
    for kind in kinds {
        for power in [1.0, 2.0, 3.0, 0.5, -1.0, 1.7] {
            for normalize in [None, Some(2.0), Some(1.0), Some(f64::INFINITY), Some(3.0)] {
                all.push(Distance::new(kind, power, normalize).expect("valid parameters"));
            }
        }
    }
    all
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits()
}

/// The value of one pair by `s`, with and without a kept scalar of the reference row, against the formula.
fn check<S: Simd, F: Store>(s: S, distance: &Distance, x: &[f64], y: &[f64]) {
    let x: Vec<f64> = x.iter().map(|&v| F::widen(F::store(v))).collect();
    let stored: Vec<F::Stored> = y.iter().map(|&v| F::store(v)).collect();
    let y: Vec<f64> = stored.iter().map(|&v| F::widen(v)).collect();
    let want = reference::rounded(reference::value(distance, &x, &y), F::DTYPE.returns_f64());

    let exact = Exact::new(distance, F::DTYPE);
    let mut query = exact.prepare_query(&[1.0; 33]);
    exact.prepare_query_into(s, &x, &mut query);
    let portable = exact.prepare_query(&x);
    assert!(
        query
            .row()
            .iter()
            .zip(portable.row())
            .all(|(&a, &b)| same(a, b) || (a.is_nan() && b.is_nan()))
    );
    for scalar in [None, exact.reference_scalar::<S, F>(s, &stored)] {
        let got = exact.value(exact.key::<S, F>(s, &query, &stored, scalar));
        assert!(
            same(got, want),
            "{distance:?} {s:?} {}: {got:e} is not {want:e}",
            F::DTYPE
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_formula((x, y) in two_rows()) {
        for distance in &distances() {
            for_every_simd!(s => {
                check::<_, F64>(s, distance, &x, &y);
                check::<_, F32>(s, distance, &x, &y);
                check::<_, F16>(s, distance, &x, &y);
                check::<_, Bf16>(s, distance, &x, &y);
            });
        }
    }

    #[test]
    fn an_interval_ends_where_values_change(key in any::<f64>(), near in -2.0..2.0) {
        for key in [key, near, key.abs(), 0.0] {
            for distance in &distances() {
                for dtype in [Dtype::F32, Dtype::F64] {
                    check_interval(&Exact::new(distance, dtype), distance.is_inverted(), key);
                }
            }
        }
    }
}

/// Holds the interval of the value of `key` to its definition, at its ends and one step beyond them.
fn check_interval(exact: &Exact, inverted: bool, key: f64) {
    let key = if exact.filterable() && !inverted {
        key.abs()
    } else {
        key
    };
    let value = exact.value(key);
    if value.is_nan() {
        return;
    }
    let interval = exact.interval(value);
    let nearness = |key: f64| if inverted { -exact.value(key) } else { exact.value(key) };
    let at = nearness(key);
    let place = format!("{exact:?}, key {key:e}, value {value:e}, {interval:?}");
    assert!(
        interval.low <= key && key <= interval.high,
        "the key is inside: {place}"
    );
    assert!(nearness(interval.high) <= at, "the upper end is not farther: {place}");
    if interval.high < f64::INFINITY {
        assert!(nearness(interval.high.next_up()) > at, "beyond the upper end: {place}");
    }
    if interval.low > f64::NEG_INFINITY {
        assert!(nearness(interval.low) >= at, "the lower end is not nearer: {place}");
        // Below zero there are no raw distances.
        if ordinal(interval.low) != 0 || inverted || !exact.filterable() {
            assert!(nearness(interval.low.next_down()) < at, "before the lower end: {place}");
        }
    }
}

#[test]
fn keys_order_as_values_do() {
    let rows: Vec<Vec<f64>> = (0..40).map(|i| vec![f64::from(i - 20) * 0.3, 1.0, -0.5]).collect();
    for distance in &distances() {
        let exact = Exact::new(distance, Dtype::F64);
        for x in &rows {
            let query = exact.prepare_query(x);
            let mut keys: Vec<f64> = rows
                .iter()
                .map(|y| exact.key::<_, F64>(crate::isa::Portable::default(), &query, y, None))
                .filter(|key| !key.is_nan())
                .collect();
            keys.sort_by(f64::total_cmp);
            let values: Vec<f64> = keys.iter().map(|&key| exact.value(key)).collect();
            let sorted = values.is_sorted_by(|a, b| if distance.is_inverted() { a >= b } else { a <= b });
            assert!(sorted, "{distance:?}: {values:?}");
        }
    }
}

#[test]
fn a_tie_of_rounded_values_spans_many_keys() {
    let euclidean = Distance::new(Kind::Lp(2.0), 1.0, None).expect("valid");
    let interval = Exact::new(&euclidean, Dtype::F32).interval(1.0);
    assert!(interval.low < 1.0 - 1e-8 && interval.high > 1.0 + 1e-8, "{interval:?}");
    let exactly = Exact::new(&euclidean, Dtype::F64).interval(1.0);
    assert!(exactly.high < 1.0 + 1e-15, "{exactly:?}");
}

#[test]
fn nothing_loses_to_nan_by_its_key() {
    let cosine = Distance::new(Kind::Cosine, 1.0, None).expect("valid");
    let interval = Exact::new(&cosine, Dtype::F32).interval(f64::NAN);
    assert!(interval.low.is_nan() && interval.high == f64::INFINITY, "{interval:?}");
}

#[test]
fn equal_rows_at_distance_zero_lose_by_index_alone() {
    let euclidean = Distance::new(Kind::Lp(2.0), 1.0, None).expect("valid");
    let interval = Exact::new(&euclidean, Dtype::F32).interval(0.0);
    assert_eq!(interval.low, f64::NEG_INFINITY);
}

#[test]
fn even_powers_of_similarities_are_not_filtered() {
    let of = |kind, power| Exact::new(&Distance::new(kind, power, None).expect("valid"), Dtype::F32).filterable();
    assert!(of(Kind::Dot, 1.0) && of(Kind::Dot, 3.0) && of(Kind::Lp(2.0), 2.0) && of(Kind::Lp(1.0), 4.0));
    assert!(!of(Kind::Dot, 2.0) && !of(Kind::Cosine, 0.5) && !of(Kind::Lp(2.0), 1.7) && !of(Kind::Lp(2.0), -1.0));
}

#[test]
fn what_rounds_to_zero_has_no_sign() {
    let dot = Distance::new(Kind::Dot, 1.0, None).expect("valid");
    let exact = Exact::new(&dot, Dtype::F32);
    let query = exact.prepare_query(&[-1e-40]);
    let key = exact.key::<_, F32>(crate::isa::Portable::default(), &query, &[1e-40], None);
    assert!(same(exact.value(key), 0.0), "{:e}", exact.value(key));
}

/// A panel of `queries` against `rows`, pair by pair against the formula.
fn check_panel<S: Simd, F: Store>(s: S, distance: &Distance, queries: &[Vec<f64>], rows: &[Vec<f64>]) {
    let stored = |row: &[f64]| -> Vec<F::Stored> { row.iter().map(|&v| F::store(v)).collect() };
    let widened = |row: &[f64]| -> Vec<f64> { row.iter().map(|&v| F::widen(F::store(v))).collect() };
    let exact = Exact::new(distance, F::DTYPE);
    let prepared: Vec<_> = queries.iter().map(|x| exact.prepare_query(&widened(x))).collect();
    let mut panel = Panel::default();
    exact.panel_into(&prepared, &mut panel);
    let mut ready = ReadyRows::default();
    rows.iter().for_each(|row| ready.push::<S, F>(s, &exact, &stored(row)));
    let mut keys = vec![[0.0; 16]; rows.len()];
    let mut values = keys.clone();
    exact.keys(s, &panel, &ready, &mut keys);
    exact.values(s, &panel, &ready, &mut values);
    for (j, y) in rows.iter().enumerate() {
        for (i, x) in queries.iter().enumerate() {
            let place = format!("{distance:?} {s:?} {} ({i}, {j})", F::DTYPE);
            let value = reference::value(distance, &widened(x), &widened(y));
            let want = reference::rounded(value, F::DTYPE.returns_f64());
            let got = values[j][i];
            assert!(same(got, want), "{place}: {got:e} is not {want:e}");
            let want = exact.key::<S, F>(s, &prepared[i], &stored(y), None);
            let got = keys[j][i];
            assert!(
                same(got, want) || got.is_nan() && want.is_nan(),
                "{place}: key {got:e} is not {want:e}"
            );
        }
    }
}

fn two_sides() -> impl Strategy<Value = (Vec<Vec<f64>>, Vec<Vec<f64>>)> {
    let features = prop_oneof![9 => 0_usize..40, 1 => 63_usize..66];
    (features, 0..STYLES, 0..STYLES, 1_usize..=16, 0_usize..4).prop_flat_map(|(features, x, y, queries, rows)| {
        let row = |style| prop::collection::vec(element(style), features);
        (
            prop::collection::vec(row(x), queries),
            prop::collection::vec(row(y), rows),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sixteen_queries_at_once_give_the_bits_of_the_formula((queries, rows) in two_sides()) {
        for distance in &distances() {
            for_every_simd!(s => {
                check_panel::<_, F64>(s, distance, &queries, &rows);
                check_panel::<_, F32>(s, distance, &queries, &rows);
                check_panel::<_, F16>(s, distance, &queries, &rows);
                check_panel::<_, Bf16>(s, distance, &queries, &rows);
            });
        }
    }
}
