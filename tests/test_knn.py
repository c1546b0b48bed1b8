"""The search call: order, self-exclusion, k, NaN, errors."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest
import torch

import nearwise
import oracle
from conftest import numpy_array, torch_tensor
from nearwise.distances import CosineSimilarity, DotProductSimilarity, LpDistance
from nearwise.evaluation import CustomKNN

NAN = float("nan")
ROWS = [[0.0, 1.0], [3.0, 0.5], [9.0, 9.0], [1.0, 1.0]]


def lists(found):
    return found.distances.tolist(), found.indices.tolist()


@pytest.mark.rule("K-1", "K-2", "G-9")
def test_the_four_positional_arguments_give_a_pair_of_matrices(make):
    query, reference = make([[0, 0], [3, 0]]), make(ROWS)
    distances, indices = CustomKNN(LpDistance())(query, 2, reference, False)
    assert distances.shape == indices.shape == (2, 2)
    distances, indices = CustomKNN(LpDistance())(reference, 3, reference, True)
    assert distances.shape == indices.shape == (4, 3)


@pytest.mark.rule("K-3", "C-2")
def test_similarities_descend(make):
    found = CustomKNN(CosineSimilarity())(make([[1, 0]]), 3, make([[1, 1], [5, 0], [-1, 0]]))
    assert found.indices.tolist() == [[1, 0, 2]]
    np.testing.assert_array_equal(np.asarray(found.distances), np.float32([[1, 0.70710678, -1]]))


@pytest.mark.rule("K-3")
def test_distances_ascend(make, rng):
    found = nearwise.knn(make(rng.standard_normal((5, 8))), make(rng.standard_normal((40, 8))), 40)
    assert (np.diff(np.asarray(found.distances), axis=1) >= 0).all()
    assert (np.sort(np.asarray(found.indices), axis=1) == np.arange(40)).all()


@pytest.mark.rule("K-3")
@pytest.mark.parametrize("batch_size", [None, 1, 2, 5])
def test_inner_products_keep_the_largest_in_every_batch(batch_size, make):
    """https://github.com/facebookresearch/faiss/issues/2205: the smallest inner products were kept."""
    rows = make([[1, 0], [10, 0], [20, 0], [-5, 0]])
    found = nearwise.knn(rows, rows, 4, distance="dot", batch_size=batch_size)
    assert found.indices.tolist() == [[2, 1, 0, 3], [2, 1, 0, 3], [2, 1, 0, 3], [3, 0, 1, 2]]


@pytest.mark.rule("K-4", "K-6")
def test_the_own_row_need_not_come_first(make):
    rows = make([[1, 0], [10, 0], [20, 0]])
    assert lists(CustomKNN(DotProductSimilarity())(rows, 1, rows, True)) == ([[20], [200], [200]], [[2], [2], [1]])


@pytest.mark.rule("K-4", "C-6", "G-4")
def test_among_equal_rows_only_the_own_index_is_removed(make):
    rows = make(np.zeros((4, 2)))
    assert lists(CustomKNN(LpDistance())(rows, 1, rows, True)) == ([[0]] * 4, [[1], [0], [0], [0]])
    for k in (1, 2, 3):
        found = nearwise.knn(rows, rows, k, ref_includes_query=True)
        assert found.indices.tolist() == [[j for j in range(4) if j != i][:k] for i in range(4)]


@pytest.mark.rule("K-4", "K-6")
@pytest.mark.parametrize("distance", oracle.NAMED)
def test_removing_one_of_k_plus_one_is_leaving_out_the_own_index(distance, make, rng):
    # Few distinct rows, so that own rows come late or not at all among k + 1.
    rows = rng.integers(0, 2, (9, 5)) * 1.0 + [0, 0, 0, 0, 0.5]
    query, reference = make(rows[:6]), make(rows)
    distances, indices = (np.asarray(part) for part in nearwise.knn(query, reference, 4, distance=distance))
    want_distances, want_indices = [], []
    for i in range(6):
        own = np.flatnonzero(indices[i] == i)
        drop = own[0] if len(own) else 3
        want_distances.append(np.delete(distances[i], drop))
        want_indices.append(np.delete(indices[i], drop))
    found = nearwise.knn(query, reference, 3, distance=distance, ref_includes_query=True)
    oracle.assert_same(found.indices, np.array(want_indices))
    oracle.assert_same(found.distances, np.array(want_distances))


@pytest.mark.rule("K-7")
@pytest.mark.parametrize("ref_includes_query", [False, True])
def test_indices_are_distinct_rows_of_the_reference(ref_includes_query, make, rng):
    """https://github.com/erikbern/ann-benchmarks/issues/519: repeated ids."""
    rows = make(rng.integers(0, 2, (30, 3)))
    k = 30 - ref_includes_query
    indices = np.asarray(nearwise.knn(rows, rows, k, ref_includes_query=ref_includes_query).indices)
    for i, row in enumerate(indices):
        assert sorted(row) == [j for j in range(30) if not (ref_includes_query and i == j)]


@pytest.mark.rule("K-10", "K-11", "G-5")
@pytest.mark.parametrize("k", [0, -1, 5, 10**9, 10**30])
def test_k_out_of_range_is_a_value_error(k, make):
    for call in (
        lambda: nearwise.knn(make(ROWS), make(ROWS), k),
        lambda: CustomKNN(LpDistance())(make(ROWS), k, make(ROWS)),
        lambda: CustomKNN(torch_euclidean)(torch_tensor(ROWS), k, torch_tensor(ROWS)),
    ):
        with pytest.raises(ValueError, match=r"^k must be (between 1 and 4|a positive integer)"):
            call()


@pytest.mark.rule("K-10", "G-5")
def test_the_own_row_does_not_count_as_available(make):
    with pytest.raises(ValueError, match=r"k must be between 1 and 3, .* other than the query's own, got 4"):
        nearwise.knn(make(ROWS), make(ROWS), 4, ref_includes_query=True)
    with pytest.raises(ValueError, match="k must be between 1 and 0"):
        nearwise.knn(make(ROWS)[:1], make(ROWS)[:1], 1, ref_includes_query=True)


@pytest.mark.rule("G-5")
@pytest.mark.parametrize(
    "k", [2, np.int64(2), np.uint8(2), np.array(2), torch.tensor(2)], ids=lambda k: type(k).__name__
)
def test_k_is_of_any_integral_type(k, make):
    assert nearwise.knn(make(ROWS), make(ROWS), k).indices.shape == (4, 2)


@pytest.mark.rule("G-5", "G-6")
@pytest.mark.parametrize("k", [True, np.True_, torch.tensor(True), 1.0, np.float32(1), "1", None, [1]])
def test_k_of_no_integral_type_is_a_type_error(k, make):
    with pytest.raises(TypeError, match=r"^k must be a positive integer"):
        nearwise.knn(make(ROWS), make(ROWS), k)


@pytest.mark.rule("G-5")
@pytest.mark.parametrize("queries", [0, 1, 19, 20, 600])
def test_no_reference_rows_is_a_value_error_for_any_number_of_queries(queries, make):
    """https://github.com/facebookresearch/faiss/issues/3830: -1 or 0 from an empty index, by the number of queries."""
    for distance in ("euclidean", torch_euclidean):
        with pytest.raises(ValueError, match="reference must have at least one row"):
            nearwise.knn(make(np.zeros((queries, 2))), make(np.zeros((0, 2))), 1, distance=distance)


@pytest.mark.rule("G-5")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("ref_includes_query", [False, True])
def test_no_queries_give_no_rows_of_the_right_width(dtype, ref_includes_query, make):
    found = nearwise.knn(make(np.zeros((0, 2)), dtype), make(ROWS, dtype), 3, ref_includes_query=ref_includes_query)
    assert found.distances.shape == found.indices.shape == (0, 3)
    assert str(found.distances.dtype).removeprefix("torch.") == ("float64" if dtype == "float64" else "float32")
    assert str(found.indices.dtype).removeprefix("torch.") == "int64"


@pytest.mark.rule("G-5", "K-6")
def test_more_queries_than_references_cannot_be_included(make):
    with pytest.raises(
        ValueError, match=r"reference must start with the rows of query .* 4 query rows and 3 reference"
    ):
        nearwise.knn(make(ROWS), make(ROWS)[:3], 1, ref_includes_query=True)


@pytest.mark.rule("G-3")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_is_refused_by_default_with_argument_and_row(dtype, make):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/738: NaN reported as something else."""
    bad = make([[0, 1], [NAN, 0], [1, NAN], [0, 0]], dtype)
    for call in (nearwise.knn, lambda q, r, k: CustomKNN(LpDistance())(q, k, r)):
        with pytest.raises(ValueError, match=r"^query must not contain NaN .*row 1"):
            call(bad, make(ROWS, dtype), 1)
        with pytest.raises(ValueError, match=r"^reference must not contain NaN .*row 1"):
            call(make(ROWS, dtype), bad, 1)


@pytest.mark.rule("G-3", "G-7")
def test_nan_is_refused_before_a_users_distance_is_called():
    def never(query, reference):
        raise AssertionError("called")

    never.is_inverted = False
    with pytest.raises(ValueError, match=r"^reference must not contain NaN .*row 3"):
        nearwise.knn(numpy_array(ROWS), numpy_array([[0, 0]] * 3 + [[0, NAN]]), 1, distance=never)


@pytest.mark.rule("G-3", "K-12")
def test_nan_ranks_after_every_number_in_both_directions(make):
    reference = make([[NAN, 0], [1, 0], [0, 1], [NAN, NAN], [-1, 0]])
    last = {"nan_policy": "last"}
    for distance, want in (("cosine", [1, 2, 4, 0, 3]), ("euclidean", [1, 2, 4, 0, 3]), ("dot", [1, 2, 4, 0, 3])):
        found = nearwise.knn(make([[1, 0]]), reference, 5, distance=distance, **last)
        assert found.indices.tolist() == [want]
        assert np.isnan(np.asarray(found.distances)).tolist() == [[False, False, False, True, True]]
    found = CustomKNN(CosineSimilarity(), nan_policy="last")(make([[1, 0]]), 2, reference)
    assert found.indices.tolist() == [[1, 2]]


@pytest.mark.rule("G-3", "K-12")
def test_a_nan_query_ranks_by_index(make):
    """https://github.com/facebookresearch/faiss/issues/1206: a NaN query gets -1."""
    for distance in oracle.NAMED:
        found = nearwise.knn(make([[NAN, 0], [0, 1]]), make(ROWS), 3, distance=distance, nan_policy="last")
        assert found.indices.tolist()[0] == [0, 1, 2]
        assert np.isnan(np.asarray(found.distances)[0]).all()
        assert not np.isnan(np.asarray(found.distances)[1]).any() or distance == "snr"


@pytest.mark.rule("G-3")
def test_infinite_input_is_no_error(make):
    reference = make([[np.inf, 0], [1, 0], [-np.inf, 0]])
    found = nearwise.knn(make([[0, 0]]), reference, 3)
    assert lists(found) == ([[1, np.inf, np.inf]], [[1, 0, 2]])
    # inf - inf is NaN, computed from input without NaN: it ranks last and raises nothing.
    found = nearwise.knn(make([[np.inf, 0]]), reference, 3)
    assert found.indices.tolist() == [[1, 2, 0]]
    assert np.isnan(np.asarray(found.distances)[0, 2])


@pytest.mark.rule("G-3", "D-14")
def test_nan_computed_from_numbers_ranks_last(make):
    found = nearwise.knn(make([[1, 1]]), make([[1, 1], [0, 2], [5, 5]]), 3, distance="snr")
    assert found.indices.tolist() == [[1, 0, 2]]


@pytest.mark.rule("G-6")
def test_wrong_values_name_their_argument(make):
    query, reference = make(ROWS), make(ROWS)
    for keyword, value in (
        ("nan_policy", "ignore"),
        ("backend", "cuda"),
        ("distance", "hamming"),
        ("batch_size", 0),
        ("batch_size", -1),
        ("threads", 0),
    ):
        with pytest.raises(ValueError, match=f"^{keyword} must be"):
            nearwise.knn(query, reference, 1, **{keyword: value})
    for keyword, value in (
        ("batch_size", 1.5),
        ("batch_size", True),
        ("threads", "2"),
        ("progress", "yes"),
        ("distance", 2),
    ):
        with pytest.raises(TypeError, match=f"^{keyword} must be"):
            nearwise.knn(query, reference, 1, **{keyword: value})


@pytest.mark.rule("G-6", "G-9")
def test_unknown_keywords_and_further_positionals_are_type_errors(make):
    with pytest.raises(TypeError):
        nearwise.knn(make(ROWS), make(ROWS), 1, metric="cosine")
    with pytest.raises(TypeError):
        nearwise.knn(make(ROWS), make(ROWS), 1, "cosine")
    with pytest.raises(TypeError):
        CustomKNN(LpDistance(), None, "last")


@pytest.mark.rule("D-16")
def test_sides_that_do_not_fit_are_errors(make):
    with pytest.raises(ValueError, match="query and reference must have the same number of features, got 2 and 1"):
        nearwise.knn(make(ROWS), make(ROWS)[:, :1], 1)
    with pytest.raises(ValueError, match="query and reference must have the same dtype"):
        nearwise.knn(make(ROWS), make(ROWS, "float64"), 1)


@pytest.mark.rule("G-2")
def test_the_names_of_distances_are_documented_formulas(make, rng):
    query, reference = make(rng.standard_normal((4, 19))), make(rng.standard_normal((30, 19)))
    for name, spec in oracle.NAMED.items():
        found = nearwise.knn(query, reference, 5, distance=name)
        distances, indices = oracle.neighbors(spec, query, reference, 5)
        oracle.assert_same(found.distances, distances)
        oracle.assert_same(found.indices, indices)


@pytest.mark.parametrize("features", [0, 1, 2, 3, 15, 16, 17, 33, 4097])
def test_any_number_of_features(features, make, rng):
    """https://github.com/getkeops/keops/issues/262: some dimensions failed."""
    query, reference = make(rng.standard_normal((2, features))), make(rng.standard_normal((5, features)))
    found = nearwise.knn(query, reference, 5)
    distances, indices = oracle.neighbors(oracle.EUCLIDEAN, query, reference, 5)
    oracle.assert_same(found.distances, distances)
    oracle.assert_same(found.indices, indices)


def test_a_search_is_logged_at_info_and_shown_only_if_asked(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="nearwise"):
        nearwise.knn(numpy_array(ROWS), numpy_array(ROWS), 2)
    assert [record.name for record in caplog.records] == ["nearwise.neighbors"]
    assert "2 nearest of 4 rows" in caplog.text
    assert capsys.readouterr() == ("", "")


def test_no_warning_is_raised_on_any_number(make):
    odd = make([[np.inf, 0], [0, 0], [1e-45, 3e38], [-np.inf, np.inf]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for distance in oracle.NAMED:
            nearwise.knn(odd, odd, 4, distance=distance)


def torch_euclidean(query, reference):
    return torch.cdist(query, reference)


torch_euclidean.is_inverted = False
