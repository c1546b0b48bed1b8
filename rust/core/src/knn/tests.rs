//! Searches of every kind against the naive ranking, bit for bit.

use half::{bf16, f16};
use ndarray::Array2;
use proptest::prelude::*;

use super::{Index, Method, NanPolicy, Options, run, search};
use crate::distance::{Distance, Kind};
use crate::error::Error;
use crate::filter::f32::Tiled;
use crate::isa::{Level, Model};
use crate::matrix::{Dtype, Rows, Values};
use crate::random::Random;
use crate::{reference, with_format};

/// An owned matrix in one of the formats.
#[derive(Debug, Clone)]
enum Owned {
    F16(Array2<f16>),
    Bf16(Array2<u16>),
    F32(Array2<f32>),
    F64(Array2<f64>),
}

impl Owned {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the format is meant")]
    fn new(dtype: Dtype, values: &Array2<f64>) -> Self {
        match dtype {
            Dtype::F16 => Self::F16(values.mapv(f16::from_f64)),
            Dtype::Bf16 => Self::Bf16(values.mapv(|x| bf16::from_f64(x).to_bits())),
            Dtype::F32 => Self::F32(values.mapv(|x| x as f32)),
            Dtype::F64 => Self::F64(values.clone()),
        }
    }

    fn rows(&self) -> Rows<'_> {
        match self {
            Self::F16(array) => Rows::F16(array.view()),
            Self::Bf16(array) => Rows::Bf16(array.view()),
            Self::F32(array) => Rows::F32(array.view()),
            Self::F64(array) => Rows::F64(array.view()),
        }
    }
}

/// Data of the kinds that break careless searches.
fn matrix(style: u8, rows: usize, features: usize, seed: u64) -> Array2<f64> {
    let mut random = Random(seed);
    let mut values = Array2::from_shape_fn((rows, features), |_| random.normal());
    match style {
        0 => {}
        1 => values.mapv_inplace(|x| 1e9 + x),
        2 => values.mapv_inplace(|x| x * 1e15),
        3 => values.mapv_inplace(|x| x * 1e-15),
        4 => values.mapv_inplace(|x| x * 1e-41),
        5 => values.mapv_inplace(|x| x * 1e-310),
        // Few points, many ties.
        6 => values.mapv_inplace(|x| x.round().clamp(-1.0, 1.0)),
        7 => {
            let distinct = values.clone();
            for mut row in values.rows_mut() {
                row.assign(&distinct.row((random.next() % 3) as usize % rows));
            }
        }
        8 => values.column_mut(0).mapv_inplace(|x| x * 1e12),
        9 => {
            for mut row in values.rows_mut() {
                match random.next() % 4 {
                    0 => row.fill(0.0),
                    1 => row.fill(0.3),
                    _ => {}
                }
            }
        }
        10 => {
            for mut row in values.rows_mut() {
                let scale = 10.0_f64.powf(random.unit() * 40.0 - 20.0);
                row.mapv_inplace(|x| x * scale);
            }
        }
        11 => values.mapv_inplace(|x| if x > 1.8 { f64::NAN } else { x }),
        12 => values.mapv_inplace(|x| {
            if x > 1.8 {
                f64::INFINITY
            } else if x < -1.9 {
                f64::NEG_INFINITY
            } else {
                x
            }
        }),
        13 => values.mapv_inplace(|x| x * 1e18),
        14 => values.mapv_inplace(|x| x * 1e-160),
        // Tight clusters far apart.
        15 => {
            for mut row in values.rows_mut() {
                let centre = f64::from(u32::try_from(random.next() % 5).expect("small"));
                row.mapv_inplace(|x| centre + x * 1e-4);
            }
        }
        _ => values.mapv_inplace(|x| 1e3 + x * 1e-4),
    }
    values
}

const STYLES: u8 = 17;

fn distances() -> Vec<Distance> {
    let mut all = Vec::new();
    let kinds = [
        Kind::Lp(2.0),
        Kind::Lp(1.0),
        Kind::Lp(f64::INFINITY),
        Kind::Dot,
        Kind::Cosine,
        Kind::Snr,
    ];
    for kind in kinds {
        for power in [1.0, 2.0] {
            for normalize in [None, Some(2.0), Some(1.0)] {
                all.push(Distance::new(kind, power, normalize).expect("valid parameters"));
            }
        }
    }
    for (kind, power) in [
        (Kind::Lp(3.0), 1.0),
        (Kind::Lp(0.7), 1.0),
        (Kind::Dot, 3.0),
        (Kind::Lp(2.0), -1.0),
    ] {
        all.push(Distance::new(kind, power, None).expect("valid parameters"));
    }
    all
}

/// The result as (value, row) by query.
fn found(neighbors: &super::Neighbors, queries: usize) -> Vec<Vec<(u64, i64)>> {
    let values: Vec<f64> = match &neighbors.distances {
        Values::F32(values) => values.iter().map(|&v| f64::from(v)).collect(),
        Values::F64(values) => values.clone(),
    };
    let pairs: Vec<_> = values
        .iter()
        .map(|v| v.to_bits())
        .zip(neighbors.indices.iter().copied())
        .collect();
    let k = pairs.len() / queries.max(1);
    pairs.chunks(k.max(1)).map(<[_]>::to_vec).collect()
}

fn wanted(
    distance: &Distance,
    query: Rows<'_>,
    reference: Rows<'_>,
    k: usize,
    exclude_self: bool,
) -> Vec<Vec<(u64, i64)>> {
    reference::neighbors(distance, query, reference, k, exclude_self)
        .into_iter()
        .map(|row| {
            let bits = |v: f64| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() };
            row.into_iter()
                .map(|(v, j)| (bits(v), i64::try_from(j).expect("small")))
                .collect()
        })
        .collect()
}

fn by_model<S: Tiled>(
    simd: S,
    query: &Rows<'_>,
    reference: &Rows<'_>,
    k: usize,
    distance: &Distance,
    options: &Options<'_>,
) -> super::Neighbors {
    let (query, reference) = (query.view(), reference.view());
    with_format!(reference, F, view => {
        run::search::<S, F>(simd, (query, reference), view, k, distance, (options, None)).expect("the search succeeds")
    })
}

/// One search by every instruction set and method.
fn check(query: Rows<'_>, reference: Rows<'_>, k: usize, distance: &Distance, options: &Options<'_>) {
    let want = wanted(distance, query, reference, k, options.exclude_self);
    let queries = query.len();
    let say = |what: &str| format!("{what}: {distance:?} {} k={k} {options:?}", query.dtype());
    for method in [Method::Auto, Method::F32, Method::I8, Method::Direct] {
        let options = Options { method, ..*options };
        for level in Level::available() {
            let options = Options {
                level: Some(level),
                ..options
            };
            let got = search(query, reference, k, distance, &options);
            let got = got.unwrap_or_else(|error| panic!("{}: {error}", say(level.name())));
            assert_eq!(found(&got, queries), want, "{}", say(level.name()));
        }
        if matches!(method, Method::F32 | Method::I8) {
            let got = by_model(Model::<8, true>, &query, &reference, k, distance, &options);
            assert_eq!(found(&got, queries), want, "{}", say("8 lanes"));
            let got = by_model(Model::<16, true>, &query, &reference, k, distance, &options);
            assert_eq!(found(&got, queries), want, "{}", say("16 lanes"));
        }
    }
}

prop_compose! {
    fn shapes()(queries in 1_usize..30, references in 1_usize..120, features in prop_oneof![1_usize..40, 250_usize..300])
        (k in prop_oneof![1..=references, 1..=references.min(5), Just(references)], queries in Just(queries), references in Just(references), features in Just(features))
        -> (usize, usize, usize, usize) { (queries, references, features, k) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn every_search_equals_the_naive_ranking(
        (queries, references, features, k) in shapes(),
        style in 0..STYLES, query_style in 0..STYLES, same in any::<bool>(),
        dtype in prop::sample::select(vec![Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64]),
        seed in any::<u64>(), threads in 1_usize..5, batch in 0_usize..20, chunk in prop_oneof![Just(0), 1_usize..100],
        pick in 0_usize..1000, exclude in any::<bool>(),
    ) {
        let reference = Owned::new(dtype, &matrix(style, references, features, seed));
        let query = Owned::new(dtype, &matrix(if same { style } else { query_style }, queries, features, seed ^ u64::from(!same)));
        let exclude_self = exclude && queries <= references && k < references;
        let options = Options { exclude_self, nan: NanPolicy::Last, threads, batch, chunk, ..Options::default() };
        let all = distances();
        check(query.rows(), reference.rows(), k, &all[pick % all.len()], &options);
    }
}

#[test]
fn many_references_in_many_chunks_for_every_distance() {
    let reference = Owned::new(Dtype::F32, &matrix(0, 3000, 24, 1));
    let query = Owned::new(Dtype::F32, &matrix(0, 50, 24, 2));
    for distance in &distances() {
        let options = Options {
            threads: 2,
            chunk: 512,
            batch: 12,
            ..Options::default()
        };
        check(query.rows(), reference.rows(), 7, distance, &options);
        check(
            query.rows(),
            reference.rows(),
            7,
            distance,
            &Options {
                threads: 3,
                ..Options::default()
            },
        );
    }
}

#[test]
fn thousands_of_equal_rows_keep_the_smallest_indices() {
    let mut values = matrix(0, 6000, 16, 3);
    let twin = values.row(0).to_owned();
    for i in (0..6000).filter(|i| i % 3 != 1) {
        values.row_mut(i).assign(&twin);
    }
    let reference = Owned::new(Dtype::F32, &values);
    let query = reference.rows().slice(0, 40);
    for exclude_self in [false, true] {
        let options = Options {
            exclude_self,
            threads: 2,
            ..Options::default()
        };
        check(query, reference.rows(), 20, &distances()[0], &options);
    }
}

#[test]
fn strided_and_reversed_rows_are_searched_as_they_are() {
    let values = Array2::from_shape_fn((200, 33), {
        let mut random = Random(5);
        move |_| random.normal()
    });
    let strided = values.slice(ndarray::s![..;-2, ..;3]);
    let owned = strided.to_owned();
    let options = Options::default();
    for distance in &distances() {
        let got = search(Rows::F64(strided), Rows::F64(strided), 5, distance, &options).expect("searches");
        let want = wanted(distance, Rows::F64(owned.view()), Rows::F64(owned.view()), 5, false);
        assert_eq!(found(&got, strided.nrows()), want, "{distance:?}");
    }
}

#[test]
fn nan_is_refused_with_the_first_row_that_has_it() {
    let mut values = matrix(0, 300, 8, 6);
    values[(217, 3)] = f64::NAN;
    values[(130, 7)] = f64::NAN;
    let bad = Owned::new(Dtype::F32, &values);
    let good = Owned::new(Dtype::F32, &matrix(0, 30, 8, 7));
    for method in [Method::F32, Method::I8, Method::Direct] {
        for k in [1, 299] {
            let options = Options {
                method,
                threads: 2,
                chunk: 64,
                ..Options::default()
            };
            let error = search(good.rows(), bad.rows(), k, &distances()[0], &options).unwrap_err();
            assert_eq!(
                error,
                Error::NanRow {
                    argument: "reference",
                    row: 130
                }
            );
            let error = search(bad.rows(), good.rows(), 1, &distances()[0], &options).unwrap_err();
            assert_eq!(
                error,
                Error::NanRow {
                    argument: "query",
                    row: 130
                }
            );
        }
    }
}

#[test]
fn rows_whose_squares_overflow_are_refused_where_squares_are_taken() {
    let mut values = matrix(0, 100, 8, 8);
    values[(40, 2)] = 1e160;
    let bad = Owned::new(Dtype::F64, &values);
    for method in [Method::F32, Method::I8, Method::Direct] {
        let options = Options {
            method,
            ..Options::default()
        };
        for kind in [Kind::Lp(2.0), Kind::Dot, Kind::Cosine, Kind::Snr] {
            let distance = Distance::new(kind, 1.0, None).expect("valid");
            let error = search(bad.rows().slice(0, 20), bad.rows(), 3, &distance, &options).unwrap_err();
            assert_eq!(
                error,
                Error::RowTooLarge {
                    argument: "reference",
                    row: 40
                }
            );
        }
        let manhattan = Distance::new(Kind::Lp(1.0), 1.0, None).expect("valid");
        check(bad.rows().slice(0, 60), bad.rows(), 3, &manhattan, &options);
    }
}

#[test]
fn a_search_stops_when_told_to() {
    let reference = Owned::new(Dtype::F32, &matrix(0, 4000, 512, 9));
    let rows = reference.rows();
    let no = |_: u64, _: u64| false;
    for (threads, method) in [(1, Method::Direct), (2, Method::F32), (2, Method::Direct)] {
        let options = Options {
            threads,
            method,
            level: Some(Level::Portable),
            poll: Some(&no),
            ..Options::default()
        };
        let error = search(rows, rows, 3, &distances()[0], &options).unwrap_err();
        assert_eq!(error, Error::Interrupted);
    }
}

#[test]
fn no_queries_give_no_neighbours() {
    let reference = Owned::new(Dtype::F32, &matrix(0, 40, 8, 10));
    let got = search(
        reference.rows().slice(0, 0),
        reference.rows(),
        3,
        &distances()[0],
        &Options::default(),
    );
    assert!(got.is_ok_and(|got| got.indices.is_empty()), "an empty result");
}

#[test]
fn rows_without_features_tie() {
    let empty = Array2::<f32>::zeros((5, 0));
    let rows = Rows::F32(empty.view());
    let got = search(rows, rows, 3, &distances()[0], &Options::default()).expect("searches");
    assert_eq!(got.indices, [0, 1, 2].repeat(5));
}

#[test]
fn a_prepared_reference_answers_as_the_rows_do_at_every_level() {
    let mut random = Random(11);
    let values = Array2::from_shape_fn((2500, 20), |_| random.normal());
    let (reference, query) = (Rows::F64(values.view()), Rows::F64(values.view()).slice(0, 7));
    for kind in [Kind::Lp(2.0), Kind::Dot, Kind::Cosine, Kind::Snr, Kind::Lp(1.0)] {
        let distance = Distance::new(kind, 1.0, None).expect("valid parameters");
        for level in Level::available() {
            let options = Options {
                method: Method::I8,
                level: Some(level),
                threads: 2,
                ..Options::default()
            };
            let index = Index::new(reference, &distance, &options).expect("rows that are taken");
            assert_eq!(index.bytes() > 0, kind != Kind::Lp(1.0), "codes of what has products");
            let got = index
                .search(query, reference, 9, &options)
                .expect("the search succeeds");
            let direct = Options {
                method: Method::Direct,
                ..options
            };
            let want = search(query, reference, 9, &distance, &direct).expect("the search succeeds");
            assert_eq!(
                (got.distances, got.indices),
                (want.distances, want.indices),
                "{kind:?} {level:?}"
            );
        }
        let index = Index::new(reference, &distance, &Options::default()).expect("rows that are taken");
        let fewer = index.search(query, reference.slice(0, 2499), 9, &Options::default());
        assert!(
            matches!(
                fewer,
                Err(Error::Parameter {
                    argument: "reference",
                    ..
                })
            ),
            "other rows"
        );
    }
}
