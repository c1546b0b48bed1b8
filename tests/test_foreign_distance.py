"""Distances of others: pytorch-metric-learning's, and any callable with `is_inverted`."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from pytorch_metric_learning import distances as theirs
from pytorch_metric_learning.distances import BatchedDistance

import nearwise
import oracle
from conftest import numpy_array, torch_tensor
from nearwise.distances import CosineSimilarity, DotProductSimilarity, LpDistance, SNRDistance, resolve
from nearwise.evaluation import CustomKNN


class Counting:
    """A user's distance that writes down what it is called with."""

    def __init__(self, is_inverted=False, dtype=None):
        self.is_inverted = is_inverted
        self.dtype = dtype
        self.calls = []

    def __call__(self, query, reference):
        self.calls.append((query, reference, torch.is_grad_enabled()))
        matrix = ((query[:, None] - reference[None]) ** 2).sum(-1)
        return matrix if self.dtype is None else matrix.to(self.dtype)


class Fixed:
    """A user's distance with one answer."""

    is_inverted = False

    def __init__(self, result):
        self.result = result

    def __call__(self, query, reference):
        return self.result


@pytest.mark.rule("G-7")
@pytest.mark.parametrize(
    ("given", "ours"),
    [
        (theirs.LpDistance(), LpDistance()),
        (
            theirs.LpDistance(normalize_embeddings=False, p=1, power=3),
            LpDistance(normalize_embeddings=False, p=1, power=3),
        ),
        (theirs.SNRDistance(), SNRDistance()),
        (theirs.SNRDistance(normalize_embeddings=False), SNRDistance(normalize_embeddings=False)),
        (theirs.DotProductSimilarity(), DotProductSimilarity(normalize_embeddings=True)),
        (theirs.DotProductSimilarity(normalize_embeddings=False), DotProductSimilarity()),
        (theirs.CosineSimilarity(), CosineSimilarity()),
        (theirs.CosineSimilarity(power=2), CosineSimilarity(power=2)),
        (theirs.CosineSimilarity(p=1), DotProductSimilarity(normalize_embeddings=True, p=1)),
    ],
    ids=lambda distance: type(distance).__name__,
)
def test_the_four_exact_types_get_our_formulas(given, ours, rng):
    assert resolve(given) == ours
    query, reference = torch_tensor(rng.standard_normal((3, 8))), torch_tensor(rng.standard_normal((9, 8)))
    oracle.assert_same(nearwise.knn(query, reference, 4, distance=given)[0], CustomKNN(ours)(query, 4, reference)[0])


@pytest.mark.rule("G-7", "C-12")
def test_a_subclass_or_a_changed_object_is_called():
    class Mine(theirs.LpDistance):
        def compute_mat(self, query, reference):
            return -super().compute_mat(query, reference)

    class Named(theirs.LpDistance):
        pass

    changed = theirs.LpDistance()
    changed.compute_mat = lambda query, reference: query @ reference.T
    inverted = theirs.LpDistance()
    inverted.is_inverted = True
    for distance in (Mine(), Named(), changed, inverted, BatchedDistance(theirs.LpDistance())):
        assert resolve(distance).formula is None
    rows = torch_tensor([[0, 1], [1, 1], [5, 1]])
    found = CustomKNN(Mine(normalize_embeddings=False))(rows, 1, rows)
    assert found.indices.tolist() == [[2], [2], [0]]


@pytest.mark.rule("G-7")
def test_a_subclass_of_our_own_is_called():
    class Mine(LpDistance):
        def __call__(self, query, ref=None):
            return -super().__call__(query, ref)

    rows = numpy_array([[0, 1], [1, 1], [5, 1]])
    assert Mine().formula is None
    assert resolve(Mine()).formula is None
    assert nearwise.knn(rows, rows, 1, distance=Mine(normalize_embeddings=False)).indices.tolist() == [[2], [2], [0]]


@pytest.mark.rule("C-3", "G-7")
@pytest.mark.parametrize(("batch_size", "blocks"), [(None, [5]), (2, [2, 2, 1]), (5, [5]), (9, [5])])
def test_it_is_called_once_or_once_for_each_block_of_queries(batch_size, blocks, make, rng):
    distance = Counting()
    query, reference = make(rng.standard_normal((5, 3))), make(rng.standard_normal((7, 3)))
    CustomKNN(distance, batch_size)(query, 2, reference)
    assert [len(block) for block, _, _ in distance.calls] == blocks
    assert all(type(block) is type(query) and len(whole) == 7 for block, whole, _ in distance.calls)


@pytest.mark.rule("C-4", "G-4", "K-4")
@pytest.mark.parametrize("is_inverted", [False, True])
@pytest.mark.parametrize("ref_includes_query", [False, True])
def test_its_matrix_ranks_by_value_and_index_in_any_batch(is_inverted, ref_includes_query, make, rng):
    rows = make(rng.integers(0, 3, (40, 3)))
    values = np.asarray(Counting()(rows, rows))
    want = oracle.ranked(values, 9, largest=is_inverted, exclude_self=ref_includes_query)
    for batch_size in (None, 1, 2, 7, 25, 26, 64):
        got = CustomKNN(Counting(is_inverted), batch_size)(rows, 9, rows, ref_includes_query)
        oracle.assert_same(got.distances, want[0])
        oracle.assert_same(got.indices, want[1])


@pytest.mark.rule("K-12", "G-3")
@pytest.mark.parametrize("is_inverted", [False, True])
def test_nan_in_its_matrix_ranks_last(is_inverted, make):
    def distance(query, reference):
        return make([[float("nan"), 2, -0.0, float("inf"), 0, -float("inf"), float("nan")]])

    distance.is_inverted = is_inverted
    found = nearwise.knn(make([[0]]), make(np.zeros((7, 1))), 7, distance=distance)
    assert found.indices.tolist() == [[3, 1, 2, 4, 5, 0, 6] if is_inverted else [5, 2, 4, 1, 3, 0, 6]]


@pytest.mark.rule("C-5", "G-1")
@pytest.mark.parametrize("batch_size", [None, 1])
@pytest.mark.parametrize(
    ("dtype", "returned"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.int64, torch.float64),
    ],
)
def test_its_dtype_is_kept_and_halves_are_widened(dtype, returned, batch_size):
    rows = torch_tensor([[0, 0], [1, 0], [200, 0]])
    found = CustomKNN(Counting(dtype=dtype), batch_size)(rows, 1, rows, True)
    assert found.distances.dtype == returned
    assert found.indices.tolist() == [[1], [0], [1]]


@pytest.mark.rule("C-7")
def test_it_is_called_without_a_graph():
    distance = Counting()
    rows = torch_tensor([[0, 0], [1, 0]]).requires_grad_()
    found = CustomKNN(distance)(rows, 1, rows)
    assert [grad for _, _, grad in distance.calls] == [False]
    assert torch.is_grad_enabled()
    assert not found.distances.requires_grad


@pytest.mark.rule("C-9")
def test_blocks_bound_the_memory_and_our_own_distances_need_no_matrix():
    query, reference = np.zeros((300, 2), dtype=np.float32), np.zeros((10_000, 2), dtype=np.float32)
    full = 300 * 10_000 * 4

    def distance(x, y):
        return np.zeros((len(x), len(y)), dtype=np.float32)

    distance.is_inverted = False

    def peak(call):
        tracemalloc.start()
        call()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(lambda: CustomKNN(distance)(query, 1, reference)) >= full
    assert peak(lambda: CustomKNN(distance, 10)(query, 1, reference)) < full / 4
    assert peak(lambda: CustomKNN(LpDistance())(query[:5], 1, reference)) < 5 * 10_000 * 4


@pytest.mark.rule("C-12")
def test_anything_else_is_a_type_error():
    for distance in (print, 3, None, LpDistance, lambda query, reference: query):
        with pytest.raises(TypeError, match=r"^distance must be a name, or a callable"):
            resolve(distance)


@pytest.mark.rule("C-12")
def test_a_matrix_of_another_shape_or_kind_is_refused(make):
    rows = make(np.zeros((3, 2)))
    other = numpy_array if isinstance(rows, torch.Tensor) else torch_tensor
    for result, error in (
        (make(np.zeros((3, 2))), ValueError),
        (make(np.zeros(3)), ValueError),
        (None, TypeError),
        ([[0.0] * 3] * 3, TypeError),
        (make(np.zeros((3, 3)), "complex64"), TypeError),
        (other(np.zeros((3, 3))), TypeError),
    ):
        with pytest.raises(error, match=r"^(distance must return|the distance's matrix must)"):
            nearwise.knn(rows, rows, 1, distance=Fixed(result))


@pytest.mark.rule("C-12")
def test_embeddings_that_only_it_understands_reach_it(make):
    def hamming(query, reference):
        return (query[:, None] != reference[None]).sum(-1)

    hamming.is_inverted = False
    rows = make([[0, 1, 1], [1, 1, 1], [0, 0, 0]], "uint8")
    assert nearwise.knn(rows, rows, 1, distance=hamming, ref_includes_query=True).indices.tolist() == [[1], [0], [0]]


@pytest.mark.rule("G-5")
def test_no_queries_give_no_rows_of_its_dtype(make):
    found = CustomKNN(Counting(), 4)(make(np.zeros((0, 2)), "float64"), 2, make(np.zeros((3, 2)), "float64"))
    assert found.distances.shape == found.indices.shape == (0, 2)
    assert str(found.distances.dtype).removeprefix("torch.") == "float64"


class Library:
    """A small array library: what it makes has DLPack and names the library."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array_namespace__(self):
        return Library

    @staticmethod
    def from_dlpack(given):
        return Library(np.from_dlpack(given))


@pytest.mark.rule("G-2", "C-12")
@pytest.mark.parametrize("batch_size", [None, 2])
def test_arrays_of_any_library_reach_it_and_come_back_as_that_librarys(batch_size, rng):
    def distance(query, reference):
        assert type(query) is type(reference) is Library
        return Library(Counting()(query.array, reference.array))

    distance.is_inverted = False
    rows = numpy_array(rng.integers(0, 3, (5, 2)))
    found = nearwise.knn(Library(rows), Library(rows), 2, distance=distance, batch_size=batch_size)
    want = nearwise.knn(rows, rows, 2, distance="sqeuclidean")
    oracle.assert_same(found.distances.array, want.distances)
    oracle.assert_same(found.indices.array, want.indices)


@pytest.mark.rule("G-7")
def test_the_pair_form_is_the_users_own_or_a_type_error():
    class Paired(Counting):
        def pairwise(self, x, y):
            return x[:, 0] - y[:, 0]

    rows = numpy_array([[1, 0], [2, 0]])
    np.testing.assert_array_equal(resolve(Paired()).pairwise(rows, rows[::-1]), [-1, 1])
    with pytest.raises(TypeError, match="distance must have a pairwise method for this, Counting has none"):
        resolve(Counting()).pairwise(rows, rows)


def test_an_error_of_the_users_distance_comes_through():
    def broken(query, reference):
        raise ZeroDivisionError("mine")

    broken.is_inverted = False
    with pytest.raises(ZeroDivisionError, match="mine"):
        nearwise.knn(numpy_array([[1]]), numpy_array([[1]]), 1, distance=broken)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("self_offset", [None, 0, 3])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_both_top_ks_order_every_number_alike(largest, self_offset, dtype, rng):
    from nearwise import _arrays
    from nearwise.backends import rust
    from nearwise.backends import torch as torch_backend

    special = np.array([0.0, -0.0, 1, -1, 2.5, np.nan, -np.nan, np.inf, -np.inf])
    matrix = torch_tensor(special[rng.integers(0, len(special), (6, 30))], dtype)
    side = _arrays.rows(matrix, "matrix")
    arguments = {"largest": largest, "self_offset": self_offset, "threads": 0}
    want = torch_backend.topk(side, 8, **arguments)
    np.testing.assert_array_equal(rust.topk(side, 8, **arguments), want.numpy())


def test_subnormal_values_of_a_matrix_are_told_apart_when_torch_flushes_them():
    def distance(query, reference):
        return matrix

    distance.is_inverted = False
    for dtype in (np.float32, np.float64):
        tiny = np.finfo(dtype).smallest_subnormal
        matrix = np.array([[3, 2, 0, 1]], dtype=dtype) * tiny
        torch.set_flush_denormal(True)
        try:
            found = nearwise.knn(np.zeros((1, 1)), np.zeros((4, 1)), 4, distance=distance)
        finally:
            torch.set_flush_denormal(False)
        assert found.indices.tolist() == [[2, 3, 1, 0]]
