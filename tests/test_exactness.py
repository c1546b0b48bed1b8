"""Search against the oracle, bit for bit, on numbers that break other libraries."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nearwise
import oracle
from nearwise.distances import CosineSimilarity, DotProductSimilarity, LpDistance, SNRDistance

INF = float("inf")
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}

BITWISE = [
    *(
        (LpDistance(normalize_embeddings=n, p=p, power=power), oracle.Spec("lp", p, power, p if n else None))
        for n in (False, True)
        for p in (1, 2, INF)
        for power in (1, 2)
    ),
    *(
        (DotProductSimilarity(normalize_embeddings=n, power=power), oracle.Spec("dot", 2, power, 2 if n else None))
        for n in (False, True)
        for power in (1, 2)
    ),
    *((CosineSimilarity(power=power), oracle.Spec("cosine", 2, power)) for power in (1, 2)),
    *(
        (SNRDistance(normalize_embeddings=n, power=power), oracle.Spec("snr", 2, power, 2 if n else None))
        for n in (False, True)
        for power in (1, 2)
    ),
]


def normal(rng, rows, features):
    return rng.standard_normal((rows, features))


def few_points(rng, rows, features):
    return rng.standard_normal((3, features))[rng.integers(0, 3, rows)]


def few_values(rng, rows, features):
    return rng.integers(-1, 2, (rows, features)).astype(float)


def far_from_the_origin(rng, rows, features):
    return normal(rng, rows, features) + 10.0 ** rng.integers(2, 10)


def scaled(rng, rows, features):
    return normal(rng, rows, features) * 10.0 ** rng.integers(-15, 16)


def rows_of_every_size(rng, rows, features):
    return normal(rng, rows, features) * 10.0 ** rng.integers(-15, 16, (rows, 1))


def some_zero_rows(rng, rows, features):
    return normal(rng, rows, features) * rng.integers(0, 2, (rows, 1))


def subnormal(rng, rows, features):
    smallest = rng.choice([2.0**-24, 2.0**-149, 2.0**-133, 2.0**-1074])
    return rng.integers(-40, 41, (rows, features)) * smallest


def one_huge_coordinate(rng, rows, features):
    values = normal(rng, rows, features)
    values[:, rng.integers(features)] *= 10.0 ** rng.integers(3, 15)
    return values


def nearly_equal_rows(rng, rows, features):
    steps = rng.integers(0, 3, (rows, features)) * 2.0 ** -float(rng.choice([10, 23, 30, 52]))
    return 1.0 + steps


def whole_numbers(rng, rows, features):
    return rng.integers(0, 256, (rows, features)).astype(float)


DATA = (
    normal,
    few_points,
    few_values,
    far_from_the_origin,
    scaled,
    rows_of_every_size,
    some_zero_rows,
    subnormal,
    one_huge_coordinate,
    nearly_equal_rows,
    whole_numbers,
)


SMALL = ([1, 2, 3, 8, 15, 16, 17, 31, 33, 70], (1, 9), (2, 60))
# So many rows that pairs are filtered before they are computed.
LARGE = ([1, 2, 7, 16, 33, 70], (8, 40), (64, 1000))


@st.composite
def searches(draw, shapes=SMALL):
    """(query, reference, k, self-excluding) with data of one kind in one element type."""
    widths, counts, lengths = shapes
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    data = draw(st.sampled_from(DATA), label="data")
    dtype = DTYPES[draw(st.sampled_from(list(DTYPES)), label="dtype")]
    features = draw(st.sampled_from(widths), label="features")
    queries, references = draw(st.integers(*counts), label="queries"), draw(st.integers(*lengths), label="references")
    own = draw(st.booleans(), label="own")
    with np.errstate(over="ignore", invalid="ignore"):
        rows = data(rng, queries + references, features).astype(dtype)
    reference = rows[queries:]
    query = reference[:queries] if own else rows[:queries]
    most = len(reference) - own if shapes is SMALL else (len(reference) - 1) // 4
    k = draw(st.integers(1, most), label="k")
    return query, reference, k, own


def assert_exact(query, reference, k, own, distance, spec, **options):
    got = nearwise.knn(query, reference, k, distance=distance, ref_includes_query=own, nan_policy="last", **options)
    distances, indices = oracle.neighbors(spec, query, reference, k, exclude_self=own)
    oracle.assert_same(got.distances, distances)
    oracle.assert_same(got.indices, indices)


@pytest.mark.rule("D-19", "G-4", "K-3", "K-4")
@given(search=searches(), which=st.sampled_from(BITWISE))
@settings(max_examples=300, deadline=None)
def test_distances_and_indices_are_the_oracles_to_the_bit(search, which):
    assert_exact(*search, *which)


@pytest.mark.rule("D-19", "G-4", "K-3", "K-4")
@given(search=searches(LARGE), which=st.sampled_from(BITWISE))
@settings(max_examples=200, deadline=None)
def test_filtered_searches_are_the_oracles_to_the_bit(search, which):
    assert_exact(*search, *which)


@pytest.mark.rule("G-4", "C-4")
@given(search=searches(LARGE), which=st.sampled_from(BITWISE), data=st.data())
@settings(max_examples=100, deadline=None)
def test_no_way_of_running_changes_a_bit(search, which, data):
    options = {
        "threads": data.draw(st.sampled_from([1, 2, 3, 5]), label="threads"),
        "batch_size": data.draw(st.sampled_from([1, 2, 7, 64]), label="batch_size"),
    }
    assert_exact(*search, *which, **options)


GENERAL = [
    *(
        (LpDistance(normalize_embeddings=False, p=p, power=power), oracle.Spec("lp", p, power))
        for p, power in ((3, 1), (1.5, 1), (0.5, 1), (2, 3), (1, 1.7), (2, -1))
    ),
    # Rows divided by a general norm are left out: their difference may cancel down to that norm's last bit.
    *(
        (LpDistance(p=p, power=power), oracle.Spec("lp", p, power, p))
        for p, power in ((2, 3), (1, 1.7), (2, -1), (INF, 0.3))
    ),
]


@pytest.mark.rule("D-7", "D-8")
@given(search=searches(), which=st.sampled_from(GENERAL))
@settings(max_examples=100, deadline=None)
def test_general_powers_are_the_oracles_to_the_last_place(search, which):
    query, reference, k, own = search
    distance, spec = which
    got = nearwise.knn(query, reference, k, distance=distance, ref_includes_query=own, nan_policy="last")
    distances, _ = oracle.neighbors(spec, query, reference, k, exclude_self=own)
    # Two libraries' powers differ in the last bit of float64. A float32 result hides that but for one unit; a float64
    # one shows it, in every term and once more in the root.
    oracle.assert_same(got.distances, distances, ulps=4 if query.dtype == np.float64 else 1)
    # The order is that of the values returned, whatever their last bit.
    matrix = distance(query, reference)
    want = oracle.ranked(matrix, k, largest=False, exclude_self=own)
    oracle.assert_same(got.distances, want[0])
    oracle.assert_same(got.indices, want[1])


@pytest.mark.rule("G-4")
@given(search=searches(SMALL) | searches(LARGE), which=st.sampled_from(BITWISE))
@settings(max_examples=100, deadline=None)
def test_flushing_of_subnormal_numbers_in_the_caller_changes_nothing(search, which):
    query, reference, k, own = search
    distance, spec = which
    want = oracle.neighbors(spec, query, reference, k, exclude_self=own)
    torch.set_flush_denormal(True)
    try:
        options = {"ref_includes_query": own, "nan_policy": "last"}
        one = nearwise.knn(query, reference, k, distance=distance, threads=1, **options)
        more = nearwise.knn(query, reference, k, distance=distance, threads=3, **options)
        flushing = np.float32(2.0**-149) * np.ones(1, np.float32)
        still_on = not (flushing * np.float32(1)).any()
    finally:
        torch.set_flush_denormal(False)
    for got in (one, more):
        oracle.assert_same(got.distances, want[0])
        oracle.assert_same(got.indices, want[1])
    assert still_on, "the caller's own mode must be left as it was"


@pytest.mark.rule("G-4")
def test_a_subnormal_difference_survives_flushing():
    query, reference = np.float32([[0]]), np.float32([[3e-40], [2e-40], [1e-40]])
    torch.set_flush_denormal(True)
    try:
        found = nearwise.knn(query, reference, 3)
        matrix = LpDistance(normalize_embeddings=False)(query, reference)
        pairs = LpDistance(normalize_embeddings=False).pairwise(reference, reference[::-1])
    finally:
        torch.set_flush_denormal(False)
    assert found.indices.tolist() == [[2, 1, 0]]
    np.testing.assert_array_equal(found.distances, np.float32([[1e-40, 2e-40, 3e-40]]))
    np.testing.assert_array_equal(matrix, reference.T)
    assert (pairs > 0).tolist() == [True, False, True]


@pytest.mark.rule("G-4")
@pytest.mark.parametrize("k", [1, 2, 4])
def test_products_too_small_for_float32_are_ties_at_zero_of_either_sign(k):
    query, reference = np.float32([[-1e-44]]), np.float32([[3e-44], [0], [-3e-45], [2e-44]])
    found = nearwise.knn(query, reference, k, distance="dot")
    assert found.indices.tolist() == [[0, 1, 2, 3][:k]]
    assert not np.signbit(found.distances).any()
    assert not np.signbit(DotProductSimilarity()(query, reference)).any()
    assert not np.signbit(DotProductSimilarity().pairwise(query, reference[:1])).any()


@pytest.mark.rule("G-4")
@pytest.mark.parametrize("which", BITWISE[:1] + BITWISE[12:18], ids=lambda pair: repr(pair[0]))
def test_ties_keep_the_smaller_index_among_many_rows(which, rng):
    points = rng.standard_normal((4, 24)).astype(np.float32)
    reference = points[rng.integers(0, 4, 3000)]
    assert_exact(points, reference, 1500, False, *which)
    assert_exact(reference[:5], reference, 1500, True, *which)


@pytest.mark.parametrize("dtype", DTYPES)
def test_real_embeddings_have_exact_neighbours(dtype):
    embeddings = nearwise.load_example().embeddings[:600].astype(DTYPES[dtype])
    for name in ("euclidean", "cosine", "dot"):
        assert_exact(embeddings[:40], embeddings, 10, True, name, oracle.NAMED[name])
