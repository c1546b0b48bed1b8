"""The contract between AccuracyCalculator and any ``knn_func``."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch

from memory import HIGHEST
from nearwise.distances import CosineSimilarity, LpDistance
from nearwise.evaluation import AccuracyCalculator, CustomKNN, FaissKNN

LINE = torch.tensor([[0.0], [1.0], [3.0], [7.0], [15.0], [31.0]])
LABELS = torch.tensor([0, 0, 0, 0, 1, 1])


class Spy:
    def __init__(self, knn_func=None):
        self.knn_func = knn_func or CustomKNN(LpDistance(normalize_embeddings=False, power=2))
        self.calls = []

    def __call__(self, *given, **named):
        assert not named
        self.calls.append((given, torch.is_grad_enabled()))
        return self.knn_func(*given)

    @property
    def k(self):
        return self.calls[-1][0][1]


@pytest.mark.rule("K-1", "K-9", "X17")
@pytest.mark.parametrize("kind", [torch.Tensor.numpy, torch.Tensor.clone])
def test_it_is_called_with_four_things_and_without_grad(kind):
    spy = Spy()
    AccuracyCalculator(knn_func=spy).get_accuracy(kind(LINE), kind(LABELS))
    ((query, k, reference, ref_includes_query), grad) = spy.calls[0]
    assert isinstance(query, torch.Tensor)
    assert torch.equal(query, LINE)
    assert torch.equal(reference, LINE)
    assert (k, ref_includes_query, grad) == (5, True, False)
    assert torch.is_grad_enabled()


@pytest.mark.rule("K-2", "K-3")
@pytest.mark.parametrize("make", [lambda: CustomKNN(CosineSimilarity()), lambda: FaissKNN()])
def test_backends_return_the_querys_kind_and_shape(make):
    query, reference = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0], [5.0, 0.0], [-1.0, 0.0]])
    distances, indices = make()(query, 2, reference, False)
    assert distances.shape == indices.shape == (1, 2)
    assert indices.dtype == torch.long
    assert distances.device == indices.device == query.device
    if isinstance(make(), CustomKNN):
        assert indices.tolist() == [[1, 0]]
        assert distances[0, 0] > distances[0, 1]
    else:
        assert indices.tolist() == [[0, 2]]
        assert distances.tolist() == [[1, 4]]


@pytest.mark.rule("X3")
@pytest.mark.parametrize(
    ("include", "needed"),
    [(("precision_at_1",), 1), (("r_precision",), 3), (("recall_at_4",), 4), (("mean_reciprocal_rank",), 5)],
)
def test_k_none_asks_for_what_the_metrics_need(include, needed):
    spy = Spy()
    found = AccuracyCalculator(include=include, knn_func=spy).get_accuracy(LINE, LABELS)
    assert needed <= spy.k <= len(LINE) - 1
    assert found == AccuracyCalculator(include=include).get_accuracy(LINE, LABELS)


@pytest.mark.rule("X3")
def test_metrics_of_a_subclass_see_all_neighbours():
    class Custom(AccuracyCalculator):
        def calculate_own(self, knn_labels, **kwargs):
            return float(knn_labels.shape[1])

        def requires_knn(self):
            return ["own"]

    assert Custom(include=("own",)).get_accuracy(LINE, LABELS) == {"own": 5.0}


@pytest.mark.rule("K-10")
@pytest.mark.parametrize("make", [lambda: CustomKNN(LpDistance(normalize_embeddings=False, power=2)), FaissKNN])
def test_a_k_beyond_the_reference_is_cut(make):
    query, reference = torch.tensor([[0.0], [10.0]]), torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    labels = torch.tensor([0, 1]), torch.tensor([1, 0, 0, 1])
    found = AccuracyCalculator(k=1000, knn_func=make()).get_accuracy(query, labels[0], reference, labels[1])
    assert found["mean_average_precision"] == 2 / 3
    found = AccuracyCalculator(k=6, knn_func=make()).get_accuracy(LINE, LABELS)
    assert found["mean_average_precision"] == 13 / 15
    with pytest.raises(ValueError, match="k must be"):
        make()(query, 5, reference)


@pytest.mark.rule("K-8", "X18")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda indices: torch.full_like(indices, -1), "got -1"),
        (lambda indices: indices + 2, "0 to 5, got 6"),
        (lambda indices: indices[:, :2], r"of shape \(6, 5\), got \(6, 2\)"),
        (lambda indices: indices[0], r"got \(5,\)"),
        (lambda indices: indices.float(), "integer indices, got dtype float32"),
        (lambda indices: indices > 0, "integer indices, got dtype bool"),
    ],
)
@pytest.mark.parametrize("kind", [torch.Tensor.numpy, torch.Tensor.clone])
def test_wrong_indices_are_refused(change, message, kind):
    def knn(query, k, reference, ref_includes_query):
        indices = torch.zeros((len(query), k), dtype=torch.long)
        indices[:] = torch.arange(k)
        indices[0, 0] = 0
        return torch.zeros((len(query), k)), kind(change(indices))

    for compare in (None, lambda x, y: x == y):
        with pytest.raises(ValueError, match=message):
            AccuracyCalculator(knn_func=knn, label_comparison_fn=compare).get_accuracy(LINE, LABELS)


@pytest.mark.rule("K-8")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_small_integers_address_rows(dtype):
    spy = Spy()

    def knn(*given):
        distances, indices = spy(*given)
        return distances, indices.to(dtype)

    for compare in (None, lambda x, y: x == y):
        calculator = AccuracyCalculator(knn_func=knn, label_comparison_fn=compare)
        assert calculator.get_accuracy(LINE, LABELS) == AccuracyCalculator().get_accuracy(LINE, LABELS)


def test_a_result_that_is_no_pair_is_refused():
    with pytest.raises(TypeError, match=r"must return \(distances, indices\)"):
        AccuracyCalculator(knn_func=lambda *given: None).get_accuracy(LINE, LABELS)


@pytest.mark.rule("K-7", "F-14")
def test_indices_beyond_the_reference_of_the_call_are_refused():
    knn = FaissKNN(reset_before=False, reset_after=False)
    knn.train(LINE)
    with pytest.raises(ValueError, match="0 to 5, got"):
        AccuracyCalculator(knn_func=knn).get_accuracy(LINE, LABELS)


@pytest.mark.rule("K-5")
@pytest.mark.parametrize("make", [lambda: None, FaissKNN, lambda: Spy()])
def test_the_own_row_is_removed_by_index(make):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/464: the first neighbour was left out instead."""
    rows, labels = torch.tensor([[10.0], [10.0], [20.0], [20.0]]), torch.tensor([1, 0, 1, 0])
    calculator = AccuracyCalculator(include=("precision_at_1",), knn_func=make())
    assert calculator.get_accuracy(rows, labels) == {"precision_at_1": 0.0}


@pytest.mark.rule("X1")
def test_the_default_is_exact_squared_euclidean_search():
    default = AccuracyCalculator().knn_func
    assert isinstance(default, CustomKNN)
    assert default.distance == LpDistance(normalize_embeddings=False, power=2)
    assert default.batch_size == 256
    rows = torch.tensor([[1.0, 0.0], [10.0, 0.0], [0.0, 1.5]])
    # Normalised, the first two were one.
    assert default(rows[:1], 1, rows[1:]).indices.tolist() == [[1]]


EVALUATED = (
    HIGHEST
    + """
import sys
import numpy as np
from nearwise.evaluation import AccuracyCalculator, CustomKNN
rows = np.random.default_rng(0).normal(size=(3_000, 4)).astype(np.float32)
labels = np.arange(3_000) % 7
knn = CustomKNN("sqeuclidean", 256)
knn_func = {"own": knn, "foreign": lambda *given: knn(*given)}[sys.argv[1]]
calculator = AccuracyCalculator(knn_func=knn_func)
calculator.get_accuracy(rows[:500], labels[:500])
before = highest()
calculator.get_accuracy(rows, labels)
print(highest() - before)
"""
)


@pytest.mark.rule("C-10")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the highest memory as Linux counts it")
def test_memory_is_quadratic_for_a_foreign_function_only():
    """Indices of all neighbours of 3,000 rows have 72 MB, their distances 36."""
    taken = {}
    for kind in ("own", "foreign"):
        done = subprocess.run([sys.executable, "-c", EVALUATED, kind], capture_output=True, text=True, check=True)
        taken[kind] = int(done.stdout) / 1024
    assert taken["foreign"] > 50, taken
    assert taken["own"] < 10, taken


@pytest.mark.rule("C-10")
@pytest.mark.parametrize("kind", [torch.Tensor.numpy, torch.Tensor.clone])
def test_our_own_search_keeps_no_neighbours_at_all(kind, monkeypatch):
    """It is not even called with k=None, for ranks are counted; a foreign function is called for every neighbour."""
    spy = Spy()
    expected = AccuracyCalculator(knn_func=spy).get_accuracy(LINE, LABELS)
    assert spy.k == len(LINE) - 1

    def refuse(*given, **named):
        raise AssertionError("neighbours were asked for")

    monkeypatch.setattr(CustomKNN, "__call__", refuse)
    rows, labels = kind(LINE), kind(LABELS)
    calculator = AccuracyCalculator()
    before = dict(vars(calculator)), dict(vars(calculator.knn_func))
    assert calculator.get_accuracy(rows, labels) == expected
    assert (vars(calculator), vars(calculator.knn_func)) == before
    kept = [weakref.ref(rows), weakref.ref(labels)]
    del rows, labels
    gc.collect()
    assert [each() for each in kept] == [None, None]


@pytest.mark.parametrize("wrap", [lambda knn: knn, Spy])
def test_all_ways_to_the_same_numbers(wrap, rng):
    """Our own search, another's function with it, and a comparison of labels agree."""
    rows = rng.integers(0, 3, (60, 2)).astype(np.float32)
    labels = rng.integers(0, 6, 60)
    knn = wrap(CustomKNN(LpDistance(normalize_embeddings=False, power=2)))
    expected = AccuracyCalculator().get_accuracy(rows, labels)
    assert AccuracyCalculator(knn_func=knn).get_accuracy(rows, labels) == expected
    compared = AccuracyCalculator(knn_func=knn, label_comparison_fn=lambda x, y: x == y)
    assert compared.get_accuracy(rows, labels) == expected
