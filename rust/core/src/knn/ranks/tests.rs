//! Counted ranks against the naive ranking.

use ndarray::{Array2, ArrayView2};
use proptest::prelude::*;

use super::*;
use crate::distance::Kind;
use crate::reference;
use crate::retrieval::{Kind as Family, Neighborhoods, score_neighbors};

const METRICS: [Metric; 4] = [
    Metric {
        kind: Family::AveragePrecision,
        cutoff: None,
    },
    Metric {
        kind: Family::ReciprocalRank,
        cutoff: None,
    },
    Metric {
        kind: Family::RPrecision,
        cutoff: None,
    },
    Metric {
        kind: Family::Precision,
        cutoff: Some(3),
    },
];

/// Everything a case needs.
#[derive(Debug, Clone)]
struct Case {
    rows: Array2<f64>,
    queries: usize,
    classes: Vec<i64>,
    exclude_self: bool,
}

impl Case {
    fn classes(&self) -> (Vec<i64>, Vec<i64>) {
        (self.classes[..self.queries].to_vec(), self.classes.clone())
    }
}

/// Scores by ranking everything naively.
fn naive(query: Rows<'_>, reference: Rows<'_>, case: &Case, distance: &Distance) -> Scores {
    let available = reference.len() - usize::from(case.exclude_self);
    let ranked = reference::neighbors(distance, query, reference, available, case.exclude_self);
    let indices: Vec<i64> = ranked.iter().flatten().map(|&(_, row)| row as i64).collect();
    let (own, theirs) = case.classes();
    let relevant: Vec<u64> = own
        .iter()
        .map(|class| theirs.iter().filter(|&other| other == class).count() as u64 - u64::from(case.exclude_self))
        .collect();
    let neighborhoods = Neighborhoods {
        indices: &indices,
        k: available,
        query_classes: &own,
        reference_classes: &theirs,
        relevant: &relevant,
    };
    score_neighbors(&neighborhoods, &METRICS)
}

fn assert_counts_like_naive(
    query: Rows<'_>,
    reference: Rows<'_>,
    case: &Case,
    distance: &Distance,
    options: &Options<'_>,
) {
    let (own, theirs) = case.classes();
    let classes = Classes {
        query: &own,
        reference: &theirs,
    };
    let found = score(query, reference, classes, distance, &METRICS, options).expect("a valid call");
    let expected = naive(query, reference, case, distance);
    for metric in 0..METRICS.len() {
        for (query, (found, expected)) in found.values(metric).iter().zip(expected.values(metric)).enumerate() {
            let same = found.to_bits() == expected.to_bits();
            assert!(
                same,
                "{found} is not {expected}: query {query}, metric {metric}, {distance:?}, {options:?}"
            );
        }
    }
}

fn every_way(rows: ArrayView2<'_, f64>, case: &Case, distance: &Distance, single: bool) {
    #[expect(clippy::cast_possible_truncation, reason = "rows of float32 are wanted")]
    let narrow = rows.mapv(|x| x as f32);
    for level in Level::available() {
        for (threads, batch, chunk) in [(1, 0, 0), (2, 13, 70)] {
            let options = Options {
                exclude_self: case.exclude_self,
                threads,
                batch,
                chunk,
                level: Some(level),
                ..Options::default()
            };
            let all = if single {
                Rows::F32(narrow.view())
            } else {
                Rows::F64(rows)
            };
            assert_counts_like_naive(all.slice(0, case.queries), all, case, distance, &options);
        }
    }
}

fn distances() -> Vec<Distance> {
    let new = |kind, power, normalize| Distance::new(kind, power, normalize).expect("valid");
    vec![
        new(Kind::Lp(2.0), 1.0, None),
        new(Kind::Lp(2.0), 2.0, None),
        new(Kind::Lp(2.0), 1.0, Some(2.0)),
        new(Kind::Lp(1.0), 1.0, None),
        new(Kind::Lp(f64::INFINITY), 1.0, None),
        new(Kind::Lp(3.0), 1.0, None),
        new(Kind::Dot, 1.0, None),
        new(Kind::Dot, 3.0, None),
        new(Kind::Dot, 2.0, None),
        new(Kind::Cosine, 1.0, None),
        new(Kind::Snr, 1.0, None),
    ]
}

/// Rows that are close together, far apart, duplicated, huge, tiny or whole numbers.
fn elements() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-3_i32..4).prop_map(f64::from),
        4 => -1.0..1.0,
        1 => Just(0.0),
        1 => (-1.0..1.0).prop_map(|x: f64| 1.0 + x * 1e-7),
        1 => (-1.0..1.0).prop_map(|x: f64| x * 1e12),
        1 => (-1.0..1.0).prop_map(|x: f64| x * 1e-30),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    (1_usize..24, 64_usize..150, 1_usize..40, any::<bool>()).prop_flat_map(|(features, n, classes, exclude_self)| {
        let rows = prop::collection::vec(elements(), n * features);
        let classes = prop::collection::vec(0..i64::try_from(classes).expect("small"), n);
        (rows, classes, 8_usize..40).prop_map(move |(rows, classes, queries)| Case {
            rows: Array2::from_shape_vec((n, features), rows).expect("the shape fits"),
            queries,
            classes,
            exclude_self,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn counted_ranks_are_the_naive_ones(case in cases(), single in any::<bool>()) {
        for distance in distances() {
            every_way(case.rows.view(), &case, &distance, single);
        }
    }
}

/// Rows on a line, so that ranks are easy to think about.
fn line(n: usize, classes: impl Fn(usize) -> i64) -> Case {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let rows = Array2::from_shape_fn((n, 3), |(i, j)| ((i * 37 % n) as f64) * 0.25 + j as f64);
    Case {
        rows,
        queries: n,
        classes: (0..n).map(classes).collect(),
        exclude_self: true,
    }
}

#[test]
fn two_classes_and_classes_of_one_and_two() {
    for case in [
        line(300, |i| i64::from(i % 2 == 0)),
        line(300, |i| i64::try_from(i).expect("small")),
        line(300, |i| i64::try_from(i / 2).expect("small")),
        line(300, |_| 0),
    ] {
        for distance in &distances()[..2] {
            every_way(case.rows.view(), &case, distance, true);
        }
    }
}

#[test]
fn equal_rows_rank_by_index() {
    let mut case = line(200, |i| i64::try_from(i % 5).expect("small"));
    case.rows.fill(0.5);
    for distance in distances() {
        every_way(case.rows.view(), &case, &distance, true);
    }
}

#[test]
fn infinite_and_constant_rows_rank_where_the_search_has_them() {
    let mut case = line(200, |i| i64::try_from(i % 4).expect("small"));
    case.rows[[3, 1]] = f64::INFINITY;
    case.rows[[70, 2]] = f64::NEG_INFINITY;
    case.rows[[71, 2]] = f64::INFINITY;
    case.rows.row_mut(9).fill(4.0);
    for distance in distances() {
        every_way(case.rows.view(), &case, &distance, false);
        every_way(case.rows.view(), &case, &distance, true);
    }
}

#[test]
fn ladders_that_do_not_fit_together_are_taken_in_turns() {
    let case = line(400, |i| i64::from(i % 3 == 0));
    let counting_bytes = ladder::Ladder::bytes(200);
    assert!(counting_bytes > 200 * 32, "a ladder has a size");
    every_way(case.rows.view(), &case, &distances()[1], true);
}

#[test]
fn nan_is_refused_and_stopping_stops() {
    let mut case = line(100, |i| i64::from(i % 2 == 0));
    let (own, theirs) = case.classes();
    let classes = Classes {
        query: &own,
        reference: &theirs,
    };
    let distance = distances()[0];
    let stop = |_: u64, _: u64| false;
    let options = Options {
        poll: Some(&stop),
        ..Options::default()
    };
    let rows = Rows::F64(case.rows.view());
    let stopped = score(rows, rows, classes, &distance, &METRICS, &options);
    assert!(
        matches!(stopped, Ok(_) | Err(Error::Interrupted)),
        "small work may end before it is asked"
    );
    case.rows[[5, 0]] = f64::NAN;
    let rows = Rows::F64(case.rows.view());
    let refused = score(rows, rows, classes, &distance, &METRICS, &Options::default());
    assert_eq!(
        refused.err(),
        Some(Error::NanRow {
            argument: "query",
            row: 5
        }),
        "NaN has no rank"
    );
}
