//! Matrices against the naive ones, bit for bit, for every format and layout.

use half::f16;
use ndarray::{Array2, ArrayView2, s};

use crate::distance::{Distance, Kind};
use crate::error::Error;
use crate::isa::Level;
use crate::knn::{Options, matrix, pairwise};
use crate::matrix::{Rows, Values};
use crate::reference;

fn bits(values: &Values) -> Vec<u64> {
    match values {
        Values::F32(values) => values.iter().map(|v| u64::from(v.to_bits())).collect(),
        Values::F64(values) => values.iter().map(|v| v.to_bits()).collect(),
    }
}

fn distances() -> Vec<Distance> {
    let new = |kind, power, normalize| Distance::new(kind, power, normalize).expect("valid parameters");
    vec![
        new(Kind::Lp(2.0), 1.0, None),
        new(Kind::Lp(2.0), 2.0, Some(2.0)),
        new(Kind::Lp(1.0), 1.0, Some(1.0)),
        new(Kind::Lp(f64::INFINITY), 1.0, None),
        new(Kind::Lp(3.0), 1.0, None),
        new(Kind::Dot, 2.0, None),
        new(Kind::Cosine, 1.0, None),
        new(Kind::Snr, 1.0, Some(2.0)),
    ]
}

fn numbers(rows: usize, columns: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, columns), |(i, j)| ((i * 31 + j * 17) as f64 * 0.37).sin() * 8.0)
}

fn check(query: Rows<'_>, reference: Rows<'_>) {
    for (distance, threads) in distances().iter().zip([0, 1, 2, 3].into_iter().cycle()) {
        for level in Level::available() {
            let options = Options {
                threads,
                level: Some(level),
                ..Options::default()
            };
            check_with(query, reference, distance, &options);
        }
    }
}

fn check_with(query: Rows<'_>, reference: Rows<'_>, distance: &Distance, options: &Options<'_>) {
    let got = matrix(query, reference, distance, options).expect("sides fit");
    let want = reference::matrix(distance, query, reference);
    assert_eq!(bits(&got), bits(&want), "matrix of {distance:?}, {options:?}");
    let rows = query.len().min(reference.len());
    let (x, y) = (query.slice(0, rows), reference.slice(0, rows));
    let got = pairwise(x, y, distance, options).expect("sides fit");
    let want = reference::pairwise(distance, x, y);
    assert_eq!(bits(&got), bits(&want), "pairwise of {distance:?}, {options:?}");
}

#[test]
#[expect(clippy::cast_possible_truncation, reason = "any float32 will do")]
fn every_format_gives_the_naive_matrix() {
    for features in [0, 1, 15, 16, 33] {
        let (x, y) = (numbers(37, features), numbers(53, features) + 0.25);
        check(Rows::F64(x.view()), Rows::F64(y.view()));
        let single = |a: &Array2<f64>| a.mapv(|v| v as f32);
        check(Rows::F32(single(&x).view()), Rows::F32(single(&y).view()));
        let half = |a: &Array2<f64>| a.mapv(f16::from_f64);
        check(Rows::F16(half(&x).view()), Rows::F16(half(&y).view()));
        let brain = |a: &Array2<f64>| a.mapv(|v| (v as f32).to_bits().wrapping_shr(16) as u16);
        check(Rows::Bf16(brain(&x).view()), Rows::Bf16(brain(&y).view()));
    }
}

#[test]
fn any_strides_give_the_naive_matrix() {
    let all = numbers(90, 80);
    let first = all.slice(s![0..1, ..40]);
    let views: [ArrayView2<'_, f64>; 5] = [
        all.slice(s![..41, ..;2]),
        all.slice(s![..;-2, ..40]),
        all.slice(s![5..30, ..;-2]),
        all.t().slice_move(s![..50, ..40]),
        first.broadcast((20, 40)).expect("one row stands for twenty"),
    ];
    for x in views {
        for y in views {
            check(Rows::F64(x), Rows::F64(y));
        }
    }
}

#[test]
fn sides_large_enough_for_threads_give_the_naive_matrix() {
    let (x, y) = (numbers(150, 64), numbers(700, 64));
    check(Rows::F64(x.view()), Rows::F64(y.view()));
    check(Rows::F64(y.view()), Rows::F64(x.view()));
}

#[test]
fn empty_sides_give_empty_matrices() {
    let (none, some) = (numbers(0, 5), numbers(3, 5));
    check(Rows::F64(none.view()), Rows::F64(some.view()));
    check(Rows::F64(some.view()), Rows::F64(none.view()));
}

#[test]
fn a_matrix_stops_when_the_answer_is_no() {
    let (x, y) = (numbers(40, 300), numbers(60_000, 300));
    let no = |_: u64, _: u64| false;
    let distance = Distance::new(Kind::Lp(2.5), 1.0, None).expect("valid parameters");
    for threads in [1, 2] {
        let options = Options {
            threads,
            poll: Some(&no),
            ..Options::default()
        };
        let got = matrix(Rows::F64(x.view()), Rows::F64(y.view()), &distance, &options);
        assert!(matches!(got, Err(Error::Interrupted)), "{threads} threads");
        let got = pairwise(Rows::F64(y.view()), Rows::F64(y.view()), &distance, &options);
        assert!(matches!(got, Err(Error::Interrupted)), "{threads} threads");
    }
}
