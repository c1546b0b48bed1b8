"""`MatchFinder`."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import oracle
from memory import HIGHEST
from nearwise.distances import CosineSimilarity, DotProductSimilarity, LpDistance, SNRDistance
from nearwise.evaluation import MatchFinder, match_finder

INF = float("inf")
SQUARED = LpDistance(normalize_embeddings=False, power=2)
KINDS = [np.asarray, torch.as_tensor]
METHODS = ["get_match_matrix", "get_match_indices", "is_match"]


def as_list(matches):
    return np.asarray(matches).tolist()


@pytest.mark.rule("M-1", "X9")
@pytest.mark.parametrize("kind", KINDS)
def test_a_distance_equal_to_the_threshold_matches_and_powers_count(kind):
    finder = MatchFinder(SQUARED, 4)
    x, y = kind(np.array([[0.0, 0.0], [0.0, 0.0]])), kind(np.array([[2.0, 0.0], [3.0, 0.0]]))
    assert as_list(finder.is_match(x, y)) == [True, False]
    similar = MatchFinder(DotProductSimilarity(), 4)
    ones = kind(np.array([[2.0, 0.0], [2.0, 0.0]]))
    assert as_list(similar.is_match(ones, y)) == [True, True]
    assert as_list(similar.is_match(ones, y, 6.0)) == [False, True]


@pytest.mark.rule("X9")
def test_is_match_normalises_where_the_distance_does():
    x, y = np.array([[3.0, 4.0]]), np.array([[30.0, 40.0]])
    assert as_list(MatchFinder(LpDistance(), 0.001).is_match(x, y)) == [True]
    assert as_list(MatchFinder(LpDistance(normalize_embeddings=False), 0.001).is_match(x, y)) == [False]


@pytest.mark.rule("M-2")
@pytest.mark.parametrize("method", METHODS)
def test_the_methods_threshold_wins_even_if_it_is_zero(method):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/releases/tag/v0.9.97: it was overridden."""
    x, y = np.array([[0.0, 0.0]]), np.array([[0.1, 0.0]])
    distance = LpDistance(normalize_embeddings=False)
    found = getattr(MatchFinder(distance, 0.5), method)
    assert len(as_list(found(x, y))) == 1
    assert np.asarray(found(x, y)).any() or method == "get_match_indices"
    assert not np.asarray(found(x, y, 0)).any()
    assert not np.asarray(found(x, y, threshold=0)).any()
    with pytest.raises(ValueError, match="threshold must be given"):
        getattr(MatchFinder(distance), method)(x, y)
    with pytest.raises(TypeError, match="threshold must be a number, got '1'"):
        getattr(MatchFinder(distance), method)(x, y, "1")
    with pytest.raises(ValueError, match="threshold must be a number, got NaN"):
        getattr(MatchFinder(distance), method)(x, y, float("nan"))


@pytest.mark.rule("M-3", "M-4", "M-5", "M-8", "X8", "G-9")
@pytest.mark.parametrize("kind", KINDS)
def test_the_three_answers(kind):
    finder = MatchFinder(CosineSimilarity(), threshold=0.9)
    query, reference = kind(np.array([[1.0, 0.0], [0.0, 1.0]])), kind(np.array([[1.0, 0.1], [1.0, 1.0], [-1.0, 0.0]]))
    matrix = finder.get_match_matrix(query, reference)
    indices = finder.get_match_indices(query_emb=query, ref_emb=reference)
    match = finder.is_match(query, reference[:2])
    assert (as_list(matrix), as_list(indices), as_list(match)) == (
        [[True, False, False], [False] * 3],
        [[0, 0]],
        [True, False],
    )
    for result in (matrix, indices, match):
        assert type(result) is type(query)
    assert matrix.dtype == match.dtype == {np.ndarray: np.dtype(bool), torch.Tensor: torch.bool}[type(query)]
    assert indices.dtype == {np.ndarray: np.dtype(np.int64), torch.Tensor: torch.int64}[type(query)]
    one = finder.is_match(query[:1], reference[:1])
    assert (type(one), as_list(one)) == (type(query), [True])


@pytest.mark.rule("M-4")
@pytest.mark.parametrize("kind", KINDS)
def test_indices_are_row_major_and_may_be_none(kind):
    finder = MatchFinder(LpDistance(normalize_embeddings=False))
    query, reference = kind(np.array([[0.0], [1.0]])), kind(np.array([[0.5], [1.5]]))
    assert as_list(finder.get_match_indices(query, reference, 0.6)) == [[0, 0], [1, 0], [1, 1]]
    none = finder.get_match_indices(query, reference, -1)
    assert tuple(none.shape) == (0, 2)
    assert none.dtype in (np.int64, torch.int64)
    empty = finder.get_match_indices(query[:0], reference, 1)
    assert (tuple(empty.shape), as_list(finder.get_match_matrix(query, reference[:0], 1))) == ((0, 2), [[], []])


@pytest.mark.rule("M-6")
def test_without_references_the_query_meets_itself():
    query = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    finder = MatchFinder(LpDistance(normalize_embeddings=False), 0)
    assert finder.get_match_matrix(query).tolist() == [[True, False, True], [False, True, False], [True, False, True]]
    assert finder.get_match_indices(query).tolist() == [[0, 0], [0, 2], [1, 1], [2, 0], [2, 2]]
    rows = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    assert MatchFinder("cosine", 1.0).get_match_matrix(rows).diagonal().all(), (
        "float32 cosines of a row with itself are 1"
    )


@pytest.mark.rule("M-7")
@pytest.mark.parametrize("foreign", [False, True])
def test_no_graph_is_recorded(foreign):
    seen = []

    class Watching:
        is_inverted = False

        def __call__(self, query, reference):
            seen.append(torch.is_grad_enabled())
            return torch.cdist(query, reference)

        def pairwise(self, x, y):
            seen.append(torch.is_grad_enabled())
            return (x - y).norm(dim=1)

    query = torch.randn(4, 3, requires_grad=True)
    finder = MatchFinder(Watching() if foreign else LpDistance(), 1.0)
    for method in METHODS:
        found = getattr(finder, method)(query, query)
        assert (found.requires_grad, found.device) == (False, query.device)
    assert torch.is_grad_enabled()
    assert seen == ([False] * 3 if foreign else [])


@pytest.mark.rule("M-9", "G-3")
@pytest.mark.parametrize("distance", [LpDistance(normalize_embeddings=False), DotProductSimilarity()])
def test_nan_matches_nothing_and_infinite_thresholds_work(distance):
    rows = np.array([[1.0, 0.0], [np.nan, 0.0], [0.0, 0.0]])
    finder = MatchFinder(distance)
    strict, lax = (INF, -INF) if distance.is_inverted else (-INF, INF)
    assert not finder.get_match_matrix(rows, threshold=strict).any()
    everything = finder.get_match_matrix(rows, threshold=lax)
    assert everything.tolist() == [[True, False, True], [False] * 3, [True, False, True]]
    assert finder.is_match(rows, rows, lax).tolist() == [True, False, True]
    assert finder.get_match_indices(rows, threshold=lax).tolist() == [[0, 0], [0, 2], [2, 0], [2, 2]]


@pytest.mark.rule("M-10", "D-16")
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_of_unequal_number_are_refused(kind):
    with pytest.raises(ValueError, match="same number of rows, got 2 and 1"):
        MatchFinder("cosine", 0.5).is_match(kind(np.ones((2, 3))), kind(np.ones((1, 3))))


@pytest.mark.rule("M-5")
def test_a_million_pairs_build_no_matrix(rng):
    x = rng.normal(size=(1_000_000, 4)).astype(np.float32)
    y = x[::-1].copy()
    finder = MatchFinder(LpDistance(normalize_embeddings=False), 1.0)
    expected = np.sqrt(((x[:1000].astype(float) - y[:1000]) ** 2).sum(axis=1)) <= 1
    assert (finder.is_match(x, y)[:1000] == expected).all()


DISTANCES = [
    LpDistance(),
    LpDistance(normalize_embeddings=False),
    LpDistance(normalize_embeddings=False, p=1),
    CosineSimilarity(),
    DotProductSimilarity(),
    SNRDistance(),
]


@pytest.mark.rule("M-1", "M-5", "X9")
@pytest.mark.parametrize("distance", DISTANCES, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_pair_and_matrix_decide_alike_to_the_last_bit(distance, dtype, rng, monkeypatch):
    monkeypatch.setattr(match_finder, "_BLOCK_VALUES", 60)
    query, reference = rng.normal(size=(23, 9)).astype(dtype), rng.normal(size=(17, 9)).astype(dtype)
    values = distance(query, reference)
    finder = MatchFinder(distance)
    rows, columns = np.divmod(np.arange(values.size), 17)
    for threshold in (float(values[3, 4]), float(np.nextafter(values[3, 4], np.inf)), float(np.median(values))):
        matrix = finder.get_match_matrix(query, reference, threshold)
        assert (matrix == (values >= threshold if distance.is_inverted else values <= threshold)).all()
        assert (finder.is_match(query[rows], reference[columns], threshold) == matrix.ravel()).all()
        assert finder.get_match_indices(query, reference, threshold).tolist() == np.argwhere(matrix).tolist()
        tensors = torch.from_numpy(query), torch.from_numpy(reference)
        assert (finder.get_match_matrix(*tensors, threshold).numpy() == matrix).all()
        assert (finder.get_match_indices(*tensors, threshold).numpy() == np.argwhere(matrix)).all()


@pytest.mark.rule("M-3")
def test_decisions_are_those_of_the_documented_formula(rng):
    query, reference = rng.normal(size=(8, 20)).astype(np.float32), rng.normal(size=(9, 20)).astype(np.float32)
    values = oracle.matrix(oracle.COSINE, query, reference)
    threshold = float(values[2, 5])
    matrix = MatchFinder(CosineSimilarity(), threshold).get_match_matrix(query, reference)
    assert (matrix == (values >= np.float32(threshold))).all()
    assert matrix[2, 5]


@pytest.mark.rule("M-1")
def test_the_threshold_is_rounded_to_the_dtype_of_the_distances():
    tenth = np.array([[0.1]], dtype=np.float32)
    zero = np.zeros_like(tenth)
    finder = MatchFinder(LpDistance(normalize_embeddings=False), 0.1)
    assert finder.is_match(tenth, zero).tolist() == [True], "float32 0.1 is above the float64 0.1"
    assert finder.is_match(torch.from_numpy(tenth), torch.from_numpy(zero)).tolist() == [True]
    assert finder.is_match(tenth, zero, 1e300).tolist() == [True], "beyond float32 is infinite"


def test_whole_numbers_are_compared_as_they_are():
    class Hamming:
        is_inverted = False

        def __call__(self, query, reference):
            return (query[:, None] != reference[None]).sum(-1)

    rows = np.array([[0, 1, 1], [1, 1, 1], [0, 0, 0]])
    assert MatchFinder(Hamming(), 1.5).get_match_matrix(rows).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    tensor = torch.from_numpy(rows)
    assert MatchFinder(Hamming(), 1.5).get_match_indices(tensor).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2]]


@pytest.mark.rule("G-7")
def test_a_distance_of_ones_own_is_called_by_blocks_and_needs_pairwise_for_pairs(monkeypatch):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/554: pairs or matrix."""
    calls = []

    class Mine:
        is_inverted = True

        def __call__(self, query, reference):
            calls.append((len(query), len(reference)))
            return query @ reference.T

    monkeypatch.setattr(match_finder, "_BLOCK_VALUES", 8)
    rows = np.eye(4)
    assert MatchFinder(Mine(), 0.5).get_match_indices(rows).tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert calls == [(2, 4), (2, 4)]
    with pytest.raises(TypeError, match="distance must have a pairwise method"):
        MatchFinder(Mine(), 0.5).is_match(rows, rows)


@pytest.mark.parametrize("result", [np.zeros(3), np.zeros((3, 2)), np.zeros(())])
def test_a_matrix_of_another_shape_is_refused(result):
    class Wrong:
        is_inverted = False

        def __call__(self, query, reference):
            return result

        pairwise = __call__

    with pytest.raises(ValueError, match=r"distance must return a matrix of shape \(4, 4\)"):
        MatchFinder(Wrong(), 0).get_match_matrix(np.eye(4))
    with pytest.raises(ValueError, match=r"pairwise must return the shape \(4,\)"):
        MatchFinder(Wrong(), 0).is_match(np.eye(4), np.eye(4))


@pytest.mark.rule("G-2")
def test_mixed_kinds_are_refused_by_name():
    with pytest.raises(
        TypeError, match="query_emb and ref_emb must be of the same kind, got numpy on cpu and torch on cpu"
    ):
        MatchFinder("cosine", 0.5).get_match_matrix(np.eye(2), torch.eye(2))


@pytest.mark.rule("M-4")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the highest memory as Linux counts it")
def test_memory_grows_with_the_matches_alone():
    program = """
import numpy as np
from nearwise.evaluation import MatchFinder
rng = np.random.default_rng(0)
rows = rng.normal(size=(5_000, 4)).astype(np.float32)
finder = MatchFinder("euclidean", 0.02)
finder.get_match_indices(rows[:500])
before = highest()
assert len(finder.get_match_indices(rows)) >= len(rows)
print(highest() - before)
"""
    done = subprocess.run([sys.executable, "-c", HIGHEST + program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 70 * 1024, "kilobytes; the bool matrix has 25 MB, the distances 100"


@pytest.mark.rule("M-7")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_tensors_of_a_gpu_stay_there(rng):
    query = torch.from_numpy(rng.normal(size=(30, 8)).astype(np.float32))
    finder = MatchFinder("cosine", 0.5)
    for method in METHODS:
        found = getattr(finder, method)(query.cuda(), query.cuda().flip(0))
        assert found.device.type == "cuda"
        assert torch.equal(found.cpu(), getattr(finder, method)(query, query.flip(0)))
