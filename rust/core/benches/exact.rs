//! The kernels behind exact values: one query against rows that lie in the first cache.
#![allow(missing_docs, reason = "criterion's macros write undocumented functions")]
#![expect(clippy::cast_possible_truncation, reason = "rounding to the format is meant")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use half::f16;
use nearwise_core::isa::{Level, Simd};
use nearwise_core::matrix::{Bf16, Dtype, F16, F32, F64, Format};
use nearwise_core::refine::{Exact, ExactQuery};
use nearwise_core::{Distance, Kind, dispatch};

/// Numbers without a pattern that a branch predictor or a cache could profit from.
fn numbers(count: usize) -> Vec<f64> {
    let mut state = 1_u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        f64::from((state >> 33) as u32) / f64::from(1_u32 << 30) - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn nearest<S: Simd, F: Format>(
    s: S,
    exact: &Exact,
    query: &ExactQuery,
    rows: &[F::Stored],
    scalars: &[Option<f64>],
) -> f64 {
    let features = query.row().len();
    let mut least = f64::INFINITY;
    for (row, &scalar) in rows.chunks_exact(features).zip(scalars) {
        let key = exact.key::<S, F>(s, query, row, scalar);
        least = if key < least { key } else { least };
    }
    least
}

fn keys<F: Format>(
    criterion: &mut Criterion,
    name: &str,
    distance: Distance,
    features: usize,
    store: impl Fn(f64) -> F::Stored,
) {
    let count = (16 * 1024 / size_of::<F::Stored>() / features).max(1);
    let exact = Exact::new(&distance, F::DTYPE);
    let query = exact.prepare_query(&numbers(features));
    let rows: Vec<F::Stored> = numbers(count * features).into_iter().map(store).collect();
    let mut group = criterion.benchmark_group("key");
    group.throughput(Throughput::Bytes((rows.len() * size_of::<F::Stored>()) as u64));
    for level in Level::available() {
        let scalars: Vec<_> = rows
            .chunks_exact(features)
            .map(|row| dispatch!(level, s => exact.reference_scalar::<_, F>(s, row)))
            .collect();
        let id = BenchmarkId::new(format!("{name}/{}/{features}", F::DTYPE), level);
        group.bench_function(id, |b| {
            b.iter(|| dispatch!(level, s => nearest::<_, F>(s, &exact, &query, &rows, &scalars)));
        });
    }
}

fn all(criterion: &mut Criterion) {
    let plain = |kind| Distance::new(kind, 1.0, None).expect("valid parameters");
    let unit = |kind| Distance::new(kind, 1.0, Some(2.0)).expect("valid parameters");
    for features in [128, 384, 768] {
        keys::<F32>(criterion, "euclidean", plain(Kind::Lp(2.0)), features, |v| v as f32);
    }
    let features = 384;
    keys::<F16>(criterion, "euclidean", plain(Kind::Lp(2.0)), features, f16::from_f64);
    keys::<Bf16>(criterion, "euclidean", plain(Kind::Lp(2.0)), features, |v| {
        ((v as f32).to_bits() >> 16) as u16
    });
    keys::<F64>(criterion, "euclidean", plain(Kind::Lp(2.0)), features, |v| v);
    for (name, kind) in [
        ("manhattan", Kind::Lp(1.0)),
        ("chebyshev", Kind::Lp(f64::INFINITY)),
        ("p=3", Kind::Lp(3.0)),
        ("p=2.5", Kind::Lp(2.5)),
        ("dot", Kind::Dot),
        ("cosine", Kind::Cosine),
        ("snr", Kind::Snr),
    ] {
        keys::<F32>(criterion, name, plain(kind), features, |v| v as f32);
    }
    keys::<F32>(criterion, "normalised euclidean", unit(Kind::Lp(2.0)), features, |v| {
        v as f32
    });
}

fn intervals(criterion: &mut Criterion) {
    let distance = Distance::new(Kind::Lp(2.0), 1.0, None).expect("valid parameters");
    for dtype in [Dtype::F32, Dtype::F64] {
        let exact = Exact::new(&distance, dtype);
        let values: Vec<f64> = numbers(64).into_iter().map(|v| exact.value(v.abs())).collect();
        criterion.bench_function(&format!("interval/{dtype}"), |b| {
            b.iter(|| values.iter().map(|&v| exact.interval(v).high).sum::<f64>());
        });
    }
}

criterion_group!(benches, all, intervals);
criterion_main!(benches);
