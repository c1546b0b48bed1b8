"""Faults that users of other libraries reported, one test for each kind, with the smallest input that shows it.

Kinds that fit another file's subject are tested there; each test names the report.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nearwise
import oracle
from conftest import numpy_array, torch_tensor
from nearwise.distances import CosineSimilarity, LpDistance, SNRDistance
from nearwise.evaluation import CustomKNN

PLAIN = LpDistance(normalize_embeddings=False)


@pytest.mark.rule("D-19", "D-6")
def test_one_column_of_high_variance_gives_no_negative_distance(make, rng):
    """https://github.com/facebookresearch/faiss/issues/297: about -1000 for a row against itself."""
    rows = rng.standard_normal((1000, 32))
    rows[:, 0] *= 1e4
    found = nearwise.knn(make(rows[:20]), make(rows), 5, distance="sqeuclidean")
    assert found.indices.tolist() == oracle.neighbors(oracle.SQEUCLIDEAN, make(rows[:20]), make(rows), 5)[1].tolist()
    assert (np.asarray(found.distances)[:, 0] == 0).all()


@pytest.mark.rule("D-19")
def test_the_answer_for_a_row_does_not_depend_on_the_number_of_queries(rng):
    """https://github.com/facebookresearch/faiss/issues/563, https://github.com/pytorch/pytorch/issues/37734."""
    rows, reference = numpy_array(rng.standard_normal((1024, 24))), numpy_array(rng.standard_normal((300, 24)))
    want = nearwise.knn(rows[:1], reference, 7)
    for queries in (2, 5, 26, 1024):
        got = nearwise.knn(rows[:queries], reference, 7)
        oracle.assert_same(got.distances[:1], want.distances)
        oracle.assert_same(got.indices[:1], want.indices)
    full = PLAIN(rows[:40], reference[:40])
    np.testing.assert_array_equal(full[3, 5], PLAIN(rows[3:4], reference[5:6])[0, 0])


@pytest.mark.rule("D-19")
@pytest.mark.parametrize("rows", [1, 30])
def test_large_numbers_keep_their_difference(rows, make):
    """https://github.com/pytorch/pytorch/issues/42479: 512695 against 512804 is 109, with more than 25 rows too."""
    query, reference = make([[512695]] * rows), make([[512804]] * rows)
    assert np.unique(np.asarray(PLAIN(query, reference))).tolist() == [109]
    assert np.unique(np.asarray(nearwise.knn(query, reference, 1).distances)).tolist() == [109]


@pytest.mark.rule("D-6", "D-19")
def test_equal_rows_are_at_zero_without_nan_for_every_size(make, rng):
    """https://github.com/pytorch/pytorch/issues/123082, https://github.com/rapidsai/raft/pull/411."""
    rows = rng.standard_normal((60, 40)) * 10.0 ** rng.integers(-3, 4, (60, 1))
    for distance in (PLAIN, LpDistance(), SNRDistance()):
        diagonal = np.asarray(distance(make(rows))).diagonal()
        assert (diagonal == 0).all()
        assert not np.isnan(np.asarray(distance(make(rows)))).any()


@pytest.mark.rule("D-19")
def test_float64_at_large_offsets_keeps_unit_distances():
    """https://github.com/scikit-learn/scikit-learn/issues/13905: offsets of 1e9 give 0 for a true distance of 1."""
    rows = np.arange(40.0)[:, None] + 1e9
    found = nearwise.knn(rows, rows, 2, ref_includes_query=True)
    assert found.distances[1:-1].tolist() == [[1, 1]] * 38


@pytest.mark.rule("D-19")
def test_zeros_and_huge_values_side_by_side(rng):
    """https://github.com/scikit-learn/scikit-learn/issues/13905: float32 rows of zeros and huge values in chunks."""
    rows = numpy_array(np.where(rng.random((40, 3000)) < 0.5, 0, 1e15 * rng.standard_normal((40, 3000))))
    oracle.assert_same(nearwise.knn(rows, rows, 40).indices, oracle.neighbors(oracle.EUCLIDEAN, rows, rows, 40)[1])


@pytest.mark.rule("D-19")
def test_few_features_and_many_close_rows(rng):
    """https://github.com/NVIDIA/cuvs/issues/1632: brute force wrong on two interleaved half circles."""
    angle = np.linspace(0, np.pi, 1000)
    moons = np.concatenate(
        [np.stack([np.cos(angle), np.sin(angle)], 1), np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], 1)]
    )
    rows = numpy_array(moons)
    found = nearwise.knn(rows[::50], rows, 15)
    want = oracle.neighbors(oracle.EUCLIDEAN, rows[::50], rows, 15)
    oracle.assert_same(found.distances, want[0])
    oracle.assert_same(found.indices, want[1])


@pytest.mark.rule("D-6")
def test_outliers_leave_the_distance_of_a_row_to_itself_at_zero(rng):
    """https://github.com/rapidsai/cuml/issues/6683: 0.044 for training rows beside two outliers."""
    rows = rng.standard_normal((200, 8))
    rows[:2] *= 100
    assert (nearwise.knn(numpy_array(rows), numpy_array(rows), 1).distances == 0).all()


@pytest.mark.rule("D-11")
def test_cosine_of_short_rows_is_right_to_the_last_digit():
    """https://github.com/ashvardanian/NumKong/issues/43: differs from SciPy in the third digit."""
    x, y = np.array([[1.0, 2.0]]), np.array([[1.0, 2.000001]])
    want = (1 + 2 * 2.000001) / np.sqrt(5 * (1 + 2.000001**2))
    np.testing.assert_allclose(CosineSimilarity().pairwise(x, y), [want], rtol=1e-15)


@pytest.mark.rule("D-11", "C-2")
def test_cosine_normalises_query_and_reference():
    """https://github.com/nmslib/hnswlib/issues/592: the query of a brute-force search was not normalised."""
    found = nearwise.knn(numpy_array([[100, 0]]), numpy_array([[0.1, 0], [5, 5]]), 2, distance="cosine")
    np.testing.assert_array_equal(found.distances, np.float32([[1, np.sqrt(0.5)]]))


@pytest.mark.rule("G-4")
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(oracle.NAMED)))
@settings(max_examples=30, deadline=None)
def test_fewer_neighbours_are_the_first_of_more(seed, distance):
    """https://github.com/facebookresearch/faiss/issues/808: the top 100 are not the first 100 of the top 10000."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (50, 4)).astype(np.float32)
    longest = nearwise.knn(rows, rows, 49, distance=distance, ref_includes_query=True)
    for k in (1, 2, 10, 48):
        shorter = nearwise.knn(rows, rows, k, distance=distance, ref_includes_query=True)
        oracle.assert_same(shorter.indices, longest.indices[:, :k])
        oracle.assert_same(shorter.distances, longest.distances[:, :k])


@pytest.mark.rule("G-4")
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_ties_of_a_short_list_do_not_move_with_k(k, make):
    """https://github.com/pytorch/pytorch/issues/27542: the order of topk of [1, 2, 5, 4, 5] changes with k."""
    found = nearwise.knn(make([[1]]), make([[1], [2], [5], [4], [5]]), k, distance="dot")
    assert found.indices.tolist() == [[2, 4, 3, 1, 0][:k]]


@pytest.mark.rule("G-4", "K-4")
@pytest.mark.parametrize("copies", [2, 100, 902])
def test_many_copies_of_one_row_come_in_index_order(copies, make, rng):
    """https://github.com/facebookresearch/faiss/issues/904, https://github.com/zilliztech/VectorDBBench/issues/357."""
    rows = np.concatenate([rng.standard_normal((30, 6)) + 9, np.zeros((copies, 6)), rng.standard_normal((30, 6)) + 9])
    k = min(10, copies - 1)
    found = nearwise.knn(make(rows), make(rows), k, ref_includes_query=True)
    for i in (30, 30 + copies // 2, 29 + copies):
        assert found.indices[i].tolist() == [j for j in range(30, 30 + copies) if j != i][:k]
        assert found.distances[i].tolist() == [0] * k


@pytest.mark.rule("K-4")
def test_a_twin_is_a_neighbour_and_the_row_itself_is_not(make):
    """https://github.com/scikit-learn/scikit-learn/issues/16512: dropping the first column keeps the row itself."""
    found = nearwise.knn(make([[1, 1], [1, 1], [5, 5]]), make([[1, 1], [1, 1], [5, 5]]), 1, ref_includes_query=True)
    assert found.indices.tolist() == [[1], [0], [0]]


@pytest.mark.rule("K-4")
def test_self_search_looks_for_one_more(make):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/453: k neighbours came without one."""
    rows = make([[0], [1], [3]])
    assert CustomKNN(PLAIN)(rows, 2, rows, True).indices.tolist() == [[1, 2], [0, 2], [1, 0]]


@pytest.mark.rule("D-10", "D-11")
@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e-10, 1e30])
def test_cosine_of_tiny_and_huge_rows_is_finite_and_documented(scale, make):
    """https://github.com/unum-cloud/USearch/issues/320: unstable for norms from 1e-10 to 1e-29."""
    query, reference = make(np.array([[3, 4]]) * scale), make(np.array([[3, 0], [6, 8], [-4, 3]]) * scale)
    values = CosineSimilarity()(query, reference)
    oracle.assert_same(values, oracle.matrix(oracle.COSINE, query, reference))
    if scale > 1e-12:
        np.testing.assert_allclose(np.asarray(values), [[0.6, 1, 0]], atol=1e-6)
    assert np.isfinite(np.asarray(values)).all()


@pytest.mark.rule("D-10")
def test_zero_rows_leave_the_others_in_order(make):
    """https://github.com/vlasky/sqlite-vec/issues/8, https://github.com/huggingface/sentence-transformers/issues/589."""
    reference = make([[1, 0], [0, 0], [1, 1], [-1, 0]])
    found = nearwise.knn(make([[1, 0], [0, 0]]), reference, 4, distance="cosine")
    assert found.indices.tolist() == [[0, 2, 1, 3], [0, 1, 2, 3]]
    assert np.isfinite(np.asarray(found.distances)).all()


@pytest.mark.rule("K-10")
@pytest.mark.parametrize("k", [101, 2049, 5000])
def test_k_has_no_cap_but_the_references(k, rng):
    """https://github.com/facebookresearch/faiss/issues/2103, https://github.com/rusty1s/pytorch_cluster/issues/199."""
    query, reference = numpy_array(rng.standard_normal((2, 3))), numpy_array(rng.standard_normal((5000, 3)))
    oracle.assert_same(
        nearwise.knn(query, reference, k).indices, oracle.neighbors(oracle.EUCLIDEAN, query, reference, k)[1]
    )


@pytest.mark.rule("G-4")
def test_a_constant_column_and_equal_coordinates_are_ordinary(make):
    """https://github.com/sdd-org/kiddo/issues/475: a panic at 33 equal coordinates."""
    rows = np.ones((100, 2))
    rows[:, 1] = np.arange(100) // 50
    found = nearwise.knn(make(rows), make(rows), 60)
    assert found.indices.tolist()[99] == [*range(50, 100), *range(10)]


@pytest.mark.rule("C-13")
def test_concurrent_callers_get_what_serial_ones_do(rng):
    """https://github.com/scikit-learn/scikit-learn/pull/34878: concurrent searches corrupted each other."""
    knn = CustomKNN(LpDistance(), batch_size=16)
    user = CustomKNN(Squared(), batch_size=16)
    reference = torch_tensor(rng.standard_normal((400, 16)))
    queries = [torch_tensor(rng.standard_normal((50, 16))) for _ in range(16)]
    for searcher in (knn, user):
        want = [searcher(query, 5, reference) for query in queries]
        with ThreadPoolExecutor(8) as pool:
            got = list(pool.map(lambda query, search=searcher: search(query, 5, reference), queries))
        for one, other in zip(got, want, strict=True):
            oracle.assert_same(one.distances, other.distances)
            oracle.assert_same(one.indices, other.indices)


class Squared:
    is_inverted = False

    def __call__(self, query, reference):
        return ((query[:, None] - reference[None]) ** 2).sum(-1)


@pytest.mark.rule("G-1")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_autocast_changes_nothing(dtype, rng):
    rows = torch_tensor(rng.standard_normal((30, 16)))
    want = nearwise.knn(rows, rows, 3)
    with torch.autocast("cpu", dtype=getattr(torch, dtype)):
        got = nearwise.knn(rows, rows, 3)
        matrix = LpDistance()(rows, rows)
    oracle.assert_same(got.distances, want.distances)
    oracle.assert_same(got.indices, want.indices)
    assert matrix.dtype == torch.float32


@pytest.mark.rule("C-7")
def test_inputs_that_require_grad_give_plain_results(rng):
    rows = torch_tensor(rng.standard_normal((6, 4))).requires_grad_()
    found = nearwise.knn(rows * 2, rows, 2)
    assert not found.distances.requires_grad
    assert rows.grad is None


@pytest.mark.rule("K-4", "G-4", "C-6")
@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_equal_rows_never_find_themselves_for_any_k(batch_size, make):
    """https://github.com/pytorch/pytorch/issues/88227: the order of ties of topk changes with k and device."""
    rows = make(np.zeros((4, 2)))
    for k in (1, 2, 3):
        found = CustomKNN(PLAIN, batch_size)(rows, k, rows, True).indices.tolist()
        assert found == [[j for j in range(4) if j != i][:k] for i in range(4)]


@pytest.mark.rule("K-3")
@pytest.mark.parametrize("batch_size", [None, 1, 2])
def test_similarities_descend_in_every_batch_size(batch_size, make, rng):
    """https://github.com/facebookresearch/faiss/issues/2205: the smallest inner products were kept."""
    query, reference = make(rng.standard_normal((5, 3))), make(rng.standard_normal((20, 3)))
    found = np.asarray(CustomKNN("dot", batch_size)(query, 20, reference).distances)
    assert (np.diff(found, axis=1) <= 0).all()
