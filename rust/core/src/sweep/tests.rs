use proptest::prelude::*;

use super::*;

const F1: Metric = Metric::FBeta {
    numerator: 1,
    denominator: 1,
};
const METRICS: [Metric; 5] = [
    Metric::Accuracy,
    Metric::BalancedAccuracy,
    Metric::Youden,
    F1,
    Metric::Mcc,
];
const ORDERS: [Order; 2] = [Order::Ascending, Order::Descending];

/// The candidate that a loop over all of them chooses, straight from the definition.
fn naive(scores: &[f64], labels: &[u8], order: Order, metric: Metric) -> Point {
    let mut distinct = scores.to_vec();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup_by(|a, b| a == b);
    if order == Order::Descending {
        distinct.reverse();
    }
    let total = tally(labels, |_| true);
    distinct.iter().fold(Point::default(), |best, &end| {
        let at = tally(labels, |i| {
            if order == Order::Ascending {
                scores[i] <= end
            } else {
                scores[i] >= end
            }
        });
        if metric.better(at, best, total) { at } else { best }
    })
}

fn tally(labels: &[u8], matches: impl Fn(usize) -> bool) -> Point {
    let count = |positive| {
        (0..labels.len())
            .filter(|&i| (labels[i] != 0) == positive && matches(i))
            .count() as u64
    };
    Point {
        tp: count(true),
        fp: count(false),
    }
}

/// A cheap generator; its seed is its state.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[expect(clippy::cast_precision_loss, reason = "test data")]
fn unit(state: &mut u64) -> f64 {
    (random(state) >> 11) as f64 / (1u64 << 53) as f64
}

/// Enough scores for buckets, in several shapes.
fn shapes(n: usize) -> Vec<(&'static str, Vec<f32>, Vec<u8>)> {
    let mut state = 0x9E37_79B9_7F4A_7C15;
    let labels: Vec<u8> = (0..n).map(|_| u8::from(random(&mut state).is_multiple_of(3))).collect();
    let mut make = |shape: &dyn Fn(f64, f64) -> f64| -> Vec<f32> {
        #[expect(clippy::cast_possible_truncation, reason = "test data")]
        labels
            .iter()
            .map(|&label| shape(unit(&mut state), f64::from(label)) as f32)
            .collect()
    };
    let shapes = vec![
        ("separated by half", make(&|u, label| u + 0.5 * label)),
        ("no signal", make(&|u, _| u - 0.5)),
        ("two decimals", make(&|u, label| ((u + label) * 100.0).round() / 100.0)),
        ("constant", make(&|_, _| 0.25)),
        ("many scales", make(&|u, label| (u * 60.0 - 30.0 + label).exp())),
        (
            "one giant",
            make(&|u, label| if u > 0.999_99 { 3e38 } else { -u - label }),
        ),
        ("whole range", make(&|u, label| (u + label - 1.0) * 3.4e38)),
        ("subnormal", make(&|u, label| (u + label) * 1e-42)),
        (
            "zeros of both signs",
            make(&|u, label| {
                if u < 0.3 {
                    -0.0
                } else if u < 0.7 {
                    0.0
                } else {
                    u - label
                }
            }),
        ),
    ];
    shapes
        .into_iter()
        .map(|(name, scores)| (name, scores, labels.clone()))
        .collect()
}

#[test]
fn buckets_choose_what_sorting_everything_chooses() {
    for (name, scores, labels) in shapes(70_000) {
        for order in ORDERS {
            let scores = Scores::F32(&scores);
            let all = Candidates::new(scores, &labels, order, &Options::default()).expect("valid input");
            let (counts, thresholds) = (all.counts(), all.thresholds());
            for metric in METRICS {
                let selection = select(scores, &labels, order, metric, &Options::default()).expect("valid input");
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "counts are whole"
                )]
                let points: Vec<Point> = (0..all.len())
                    .map(|i| Point {
                        tp: counts.true_positives[i] as u64,
                        fp: counts.false_positives[i] as u64,
                    })
                    .collect();
                let best = (0..points.len()).fold(0, |best, i| {
                    if metric.better(points[i], points[best], selection.total) {
                        i
                    } else {
                        best
                    }
                });
                assert_eq!(selection.at, points[best], "{name}, {order:?}, {metric:?}");
                assert_eq!(
                    selection.threshold.to_bits(),
                    thresholds[best].to_bits(),
                    "{name}, {order:?}, {metric:?}"
                );
                assert_eq!(
                    all.threshold(best).expect("exists").to_bits(),
                    thresholds[best].to_bits(),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn threads_and_the_order_of_rows_change_nothing() {
    for (name, scores, labels) in shapes(300_000) {
        for metric in METRICS {
            let options = |threads| Options { threads, poll: None };
            let one =
                select(Scores::F32(&scores), &labels, Order::Descending, metric, &options(1)).expect("valid input");
            let four =
                select(Scores::F32(&scores), &labels, Order::Descending, metric, &options(4)).expect("valid input");
            let (mut scores, mut labels) = (scores.clone(), labels.clone());
            scores.reverse();
            labels.reverse();
            scores.rotate_left(12_345);
            labels.rotate_left(12_345);
            let moved =
                select(Scores::F32(&scores), &labels, Order::Descending, metric, &options(3)).expect("valid input");
            assert_eq!((one, one), (four, moved), "{name}, {metric:?}");
        }
    }
}

#[test]
fn every_threshold_gives_back_its_counts_in_every_format() {
    let mut state = 77;
    for _ in 0..300 {
        let bits: Vec<u16> = (0..12)
            .map(|_| {
                u16::try_from(0x3c00 + random(&mut state) % 6 + ((random(&mut state) & 1) << 15)).expect("16 bits")
            })
            .collect();
        let labels: Vec<u8> = (0..12).map(|i| u8::from(i % 3 == 0)).collect();
        let half: Vec<f16> = bits.iter().map(|&b| f16::from_bits(b)).collect();
        let single: Vec<f32> = bits
            .iter()
            .map(|&b| f32::from_bits(u32::from(b) | (u32::from(b & 0x8000) << 16)))
            .collect();
        let wide = |kind: usize, i: usize| match kind {
            0 => half[i].to_f64(),
            1 => bf16::from_bits(bits[i]).to_f64(),
            _ => f64::from(single[i]),
        };
        for (kind, scores) in [Scores::F16(&half), Scores::Bf16(&bits), Scores::F32(&single)]
            .into_iter()
            .enumerate()
        {
            for order in ORDERS {
                let all = Candidates::new(scores, &labels, order, &Options::default()).expect("valid input");
                let counts = all.counts();
                for (i, threshold) in all.thresholds().into_iter().enumerate() {
                    let at = tally(&labels, |j| {
                        if order == Order::Ascending {
                            wide(kind, j) <= threshold
                        } else {
                            wide(kind, j) >= threshold
                        }
                    });
                    #[expect(clippy::cast_precision_loss, reason = "small counts")]
                    let at = (at.tp as f64, at.fp as f64);
                    assert_eq!(
                        at,
                        (counts.true_positives[i], counts.false_positives[i]),
                        "{scores:?} {order:?} {i}"
                    );
                }
            }
        }
    }
}

#[test]
fn midpoints_are_rounded_once() {
    use super::order::Score;
    let (a, b) = (2f64.powi(127) + 2f64.powi(104), 2f64.powi(-149));
    assert_eq!(
        <f32 as Score>::midpoint(a, b),
        a / 2.0,
        "the tiny number pulls nothing across"
    );
    assert_eq!(
        <f32 as Score>::midpoint(2f64.powi(-149), 2f64.powi(-148)),
        2f64.powi(-148),
        "a tie of subnormals goes to even"
    );
    assert_eq!(<f64 as Score>::midpoint(1e308, 1.7e308), 1.35e308, "no overflow");
    assert_eq!(<f64 as Score>::midpoint(5e-324, 1.5e-323), 1e-323, "subnormal");
    assert_eq!(<f64 as Score>::midpoint(-1e308, 1.5e308), 2.5e307, "signs differ");
    // In float32, 1 + 2^-11 + 2^-24 would first round down to a tie of float16 and then to even.
    let (a, b) = (f16::from_f32(2.0 + 2f32.powi(-9)).to_f64(), f16::from_bits(1).to_f64());
    let exact = (a + b) / 2.0;
    assert!(exact > 1.0 + 2f64.powi(-10), "above the number");
    assert_eq!(<f16 as Score>::midpoint(a, b), 1.0 + 2f64.powi(-10), "nearest float16");
}

#[test]
fn a_poll_that_says_no_interrupts() {
    let asked = std::cell::Cell::new(0);
    let poll = |_, _| {
        asked.set(asked.get() + 1);
        false
    };
    let workers = Workers {
        threads: 1,
        poll: Some(&poll),
    };
    let start = std::time::Instant::now();
    let outcome = workers.run(vec![()], |(), alive| {
        while alive() {
            assert!(start.elapsed().as_secs() < 60, "the poll is asked in time");
        }
        None::<()>
    });
    assert_eq!(
        (outcome.err(), asked.get()),
        (Some(Error::Interrupted), 1),
        "stopped at the first no"
    );
}

#[test]
fn wrong_input_is_named() {
    let message = |scores: &[f32], labels: &[u8]| {
        select(Scores::F32(scores), labels, Order::Ascending, F1, &Options::default())
            .expect_err("wrong input")
            .to_string()
    };
    assert_eq!(message(&[], &[]), "scores must be at least one number, got none");
    assert_eq!(
        message(&[1.0, 2.0], &[1]),
        "labels must be as many as the scores, got 1 labels for 2 scores"
    );
    assert_eq!(
        message(&[1.0, f32::NAN], &[1, 0]),
        "scores must be finite, got NaN at index 1"
    );
    assert_eq!(
        message(&[1.0, 2.0], &[1, 1]),
        "labels must be partly True and partly False, got 2 True and 0 False"
    );
    let mut many = vec![0.5; 100_000];
    (many[70_000], many[99_999]) = (f32::INFINITY, f32::NAN);
    assert_eq!(
        message(&many, &vec![1; 100_000]),
        "scores must be finite, got inf at index 70000"
    );
}

proptest! {
    #[test]
    fn selections_agree_with_a_loop_over_all_candidates(rows in prop::collection::vec((-4i8..5, any::<bool>()), 2..30)) {
        let scores: Vec<f64> = rows.iter().map(|&(s, _)| f64::from(s) / 4.0).collect();
        let labels: Vec<u8> = rows.iter().map(|&(_, label)| u8::from(label)).collect();
        let total = tally(&labels, |_| true);
        prop_assume!(total.tp > 0 && total.fp > 0);
        for order in ORDERS {
            for metric in METRICS {
                let selection = select(Scores::F64(&scores), &labels, order, metric, &Options::default()).expect("valid input");
                prop_assert_eq!(selection.at, naive(&scores, &labels, order, metric), "{:?} {:?}", order, metric);
                let t = selection.threshold;
                let again = tally(&labels, |i| if order == Order::Ascending { scores[i] <= t } else { scores[i] >= t });
                prop_assert_eq!(again, selection.at, "recounted");
            }
        }
    }
}
