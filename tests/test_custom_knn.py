"""CustomKNN: its examples, batches, stored reference, and what it leaves behind."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import torch
from pytorch_metric_learning.utils.inference import InferenceModel

import oracle
from conftest import numpy_array, torch_tensor
from nearwise.distances import CosineSimilarity, DotProductSimilarity, LpDistance, SNRDistance
from nearwise.evaluation import CustomKNN

SQUARED = LpDistance(normalize_embeddings=False, power=2)
PLAIN = LpDistance(normalize_embeddings=False)
QUERY = [[0, 0], [3, 0]]
REFERENCE = [[0, 1], [3, 0.5], [9, 9]]


@pytest.mark.rule("C-1")
def test_the_nearest_of_three(make):
    distances, indices = CustomKNN(SQUARED)(make(QUERY), 1, make(REFERENCE))
    assert distances.tolist() == [[1.0], [0.25]]
    assert indices.tolist() == [[0], [1]]


@pytest.mark.rule("C-2")
def test_different_norms_give_different_neighbours(make):
    query, reference = make([[0, 0]]), make([[3, 3], [0, 5], [-1, 0]])
    found = CustomKNN(LpDistance(normalize_embeddings=False, p=1))(query, 3, reference)
    assert (found.distances.tolist(), found.indices.tolist()) == ([[1, 5, 6]], [[2, 1, 0]])
    found = CustomKNN(PLAIN)(query, 3, reference)
    np.testing.assert_array_equal(np.asarray(found.distances), np.float32([[1, 4.2426405, 5]]))
    assert found.indices.tolist() == [[2, 0, 1]]


@pytest.mark.rule("C-2")
def test_normalisation_is_the_distances_own(make):
    query, reference = make([[1, 0]]), make([[10, 1], [0, 2]])
    assert CustomKNN(PLAIN)(query, 1, reference).indices.tolist() == [[1]]
    assert CustomKNN(LpDistance())(query, 1, reference).indices.tolist() == [[0]]


@pytest.mark.rule("C-4", "D-19")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "distance", [PLAIN, LpDistance(), CosineSimilarity(), DotProductSimilarity(), SNRDistance()], ids=repr
)
def test_batches_change_nothing(dtype, distance, make, rng):
    rows = make(rng.standard_normal((40, 32)) * 0.01 + 50, dtype)
    want = CustomKNN(distance)(rows, 7, rows, True)
    for batch_size in (1, 2, 7, 25, 26, 64, 40, 45):
        got = CustomKNN(distance, batch_size)(rows, 7, rows, True)
        oracle.assert_same(got.distances, want.distances)
        oracle.assert_same(got.indices, want.indices)


@pytest.mark.rule("D-19", "C-4")
@pytest.mark.parametrize("batch_size", [None, 10])
def test_no_form_of_the_distance_cancels(batch_size):
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(40, 32, generator=generator) * 0.01 + 50
    reference = torch.randn(20, 32, generator=generator) * 0.01 + 50
    exact = (query.double().numpy()[:, None] - reference.double().numpy()[None]) ** 2
    want = np.argsort(exact.sum(axis=-1), axis=1, kind="stable")[:, :5]
    got = CustomKNN(SQUARED, batch_size)(query, 5, reference)
    np.testing.assert_array_equal(got.indices.numpy(), want)


@pytest.mark.rule("C-5", "G-1")
@pytest.mark.parametrize("batch_size", [None, 1])
@pytest.mark.parametrize("distance", [SQUARED, LpDistance(), CosineSimilarity()], ids=repr)
def test_batched_or_not_the_result_has_the_distances_dtype(batch_size, distance, make):
    for dtype, returned in (
        ("float64", "float64"),
        ("float32", "float32"),
        ("float16", "float32"),
        ("bfloat16", "float32"),
    ):
        found = CustomKNN(distance, batch_size)(make(QUERY, dtype), 2, make(REFERENCE, dtype))
        assert str(found.distances.dtype).removeprefix("torch.") == returned


@pytest.mark.rule("C-7")
def test_no_graph_on_the_outputs():
    query, reference = torch_tensor(QUERY).requires_grad_(), torch_tensor(REFERENCE).requires_grad_()

    def graph_keeping(x, y):
        return torch.cdist(x, y)

    graph_keeping.is_inverted = False
    for distance in (PLAIN, CosineSimilarity(), graph_keeping):
        for batch_size in (None, 1):
            found = CustomKNN(distance, batch_size)(query, 1, reference)
            assert not found.distances.requires_grad
            assert not found.indices.requires_grad
    assert query.grad is None


@pytest.mark.rule("C-8")
@pytest.mark.parametrize("distance", ["ours", "user"])
@pytest.mark.parametrize("batch_size", [None, 1])
def test_nothing_of_a_call_is_kept(distance, batch_size):
    def user(x, y):
        return torch.cdist(x, y)

    user.is_inverted = False
    knn = CustomKNN(PLAIN if distance == "ours" else user, batch_size)
    query, reference = torch_tensor(QUERY), torch_tensor(REFERENCE)
    distances, indices = knn(query, 1, reference)
    kept = [weakref.ref(part) for part in (distances, indices, query, reference)]
    del distances, indices, query, reference
    gc.collect()
    assert [ref() for ref in kept] == [None] * 4
    query, reference = torch_tensor(QUERY), torch_tensor(REFERENCE)
    kept = [weakref.ref(part) for part in (query, reference)]
    with pytest.raises(ValueError, match="k must be"):
        knn(query, 10**9, reference)
    del query, reference
    gc.collect()
    assert [ref() for ref in kept] == [None] * 2


@pytest.mark.rule("C-11")
@pytest.mark.parametrize("batch_size", [0, -1, np.int64(0)])
def test_a_batch_size_that_is_not_positive_is_refused_at_once(batch_size):
    with pytest.raises(ValueError, match=r"^batch_size must be a positive integer"):
        CustomKNN(PLAIN, batch_size)


@pytest.mark.rule("C-11", "G-6")
@pytest.mark.parametrize("batch_size", [True, 2.0, "2"])
def test_a_batch_size_of_another_type_is_refused_at_once(batch_size):
    with pytest.raises(TypeError, match=r"^batch_size must be a positive integer"):
        CustomKNN(PLAIN, batch_size)


def test_a_wrong_construction_is_refused_at_once():
    for keywords, error in (
        ({"nan_policy": "skip"}, ValueError),
        ({"backend": "cuda"}, ValueError),
        ({"threads": 0}, ValueError),
        ({"gpus": 1}, TypeError),
    ):
        with pytest.raises(error):
            CustomKNN(PLAIN, **keywords)
    with pytest.raises(TypeError, match=r"^distance must be"):
        CustomKNN(print)


@pytest.mark.rule("G-8", "K-7")
def test_a_reference_passed_to_the_call_is_searched_alone(make):
    knn = CustomKNN(PLAIN)
    knn.train(make([[0, 0], [3, 0]]))
    assert knn(make(QUERY), 1).distances.tolist() == [[0], [0]]
    for _ in range(2):
        found = knn(make(QUERY), 3, make(REFERENCE))
        assert sorted(found.indices.tolist()[0]) == [0, 1, 2]
    assert knn(make(QUERY), 2).indices.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(ValueError, match="k must be between 1 and 2"):
        knn(make(QUERY), 3)


@pytest.mark.rule("G-8")
def test_train_replaces_and_add_appends_with_indices_that_continue(make):
    knn = CustomKNN(PLAIN)
    with pytest.raises(ValueError, match="reference must be given, or stored by train or add"):
        knn(make(QUERY), 1)
    knn.add(make([[9, 9]]))
    knn.train(make(REFERENCE))
    for row in QUERY:
        knn.add(make([row]))
    found = knn(make(QUERY), 5)
    want = oracle.neighbors(oracle.EUCLIDEAN, make(QUERY), make(REFERENCE + QUERY), 5)
    oracle.assert_same(found.distances, want[0])
    oracle.assert_same(found.indices, want[1])
    knn.train(make(QUERY))
    assert knn(make(QUERY), 2).indices.tolist() == [[0, 1], [1, 0]]


@pytest.mark.rule("G-8", "K-4")
def test_the_stored_rows_may_include_the_query(make):
    knn = CustomKNN(PLAIN)
    knn.train(make(REFERENCE))
    assert knn(make(REFERENCE), 1, None, True).indices.tolist() == [[1], [0], [1]]


@pytest.mark.rule("G-8")
def test_stored_rows_are_a_copy(make):
    rows = make(REFERENCE)
    knn = CustomKNN(PLAIN)
    knn.train(rows)
    rows[:] = 100
    assert knn(make(QUERY), 1).indices.tolist() == [[0], [1]]


@pytest.mark.rule("G-8", "G-2")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_stored_rows_serve_queries_of_either_kind(dtype):
    knn = CustomKNN(CosineSimilarity())
    knn.train(torch_tensor(REFERENCE, dtype).requires_grad_())
    knn.add(numpy_array(QUERY, dtype))
    as_torch, as_numpy = knn(torch_tensor(QUERY, dtype), 3), knn(numpy_array(QUERY, dtype), 3)
    assert isinstance(as_torch.distances, torch.Tensor)
    oracle.assert_same(as_torch.distances, as_numpy.distances)
    oracle.assert_same(as_torch.indices, as_numpy.indices)


@pytest.mark.rule("G-8", "D-16")
def test_stored_rows_keep_their_form(make):
    knn = CustomKNN(PLAIN)
    knn.train(make(REFERENCE))
    with pytest.raises(ValueError, match="float32 with 2 features, got float64 with 2 features"):
        knn.add(make(REFERENCE, "float64"))
    with pytest.raises(ValueError, match="float32 with 2 features, got float32 with 1 features"):
        knn.add(make(REFERENCE)[:, :1])
    with pytest.raises(ValueError, match="dtype of the stored rows, float32, got float64"):
        knn(make(QUERY, "float64"), 1)
    with pytest.raises(TypeError, match="embeddings must have dtype"):
        knn.train(make(REFERENCE, "int64"))
    assert knn(make(QUERY), 3).indices.shape == (2, 3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_saved_rows_load_to_the_same_answers(dtype, tmp_path, make, rng):
    knn = CustomKNN(SQUARED)
    knn.train(make(rng.standard_normal((50, 8)), dtype))
    knn.add(make(rng.standard_normal((20, 8)), dtype))
    path = tmp_path / "rows.index"
    knn.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["rows.index"]
    loaded = CustomKNN(SQUARED, 3)
    loaded.load(str(path))
    query = make(rng.standard_normal((5, 8)), dtype)
    want, got = knn(query, 10), loaded(query, 10)
    assert (np.asarray(want.indices) < 70).all()
    oracle.assert_same(got.distances, want.distances)
    oracle.assert_same(got.indices, want.indices)


def test_what_save_did_not_write_is_refused(tmp_path):
    knn = CustomKNN(PLAIN)
    with pytest.raises(ValueError, match="reference must be given, or stored"):
        knn.save(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "text").write_text("no rows")
    (tmp_path / "empty").touch()
    np.savez(tmp_path / "other.npz", rows=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros((3, 3)))
    for name in ("text", "empty", "other.npz", "array.npy"):
        with pytest.raises(ValueError, match="must be a file that save wrote"):
            knn.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        knn.load(tmp_path / "absent")


def test_an_inference_model_of_pytorch_metric_learning_runs_on_it(tmp_path, rng):
    def model(knn_func):
        return InferenceModel(torch.nn.Identity(), knn_func=knn_func, data_device="cpu")

    rows = torch_tensor(rng.standard_normal((70, 8)))
    first = model(CustomKNN(SQUARED))
    first.train_knn(rows[:50])
    first.add_to_knn(rows[50:])
    distances, indices = first.get_nearest_neighbors(rows[:5], k=10)
    assert indices[:, 0].tolist() == [0, 1, 2, 3, 4]
    unit = torch.nn.functional.normalize(rows)
    oracle.assert_same(indices, oracle.neighbors(oracle.SQEUCLIDEAN, unit[:5], unit, 10)[1])
    first.save_knn_func(str(tmp_path / "knn"))
    second = model(CustomKNN(SQUARED))
    second.load_knn_func(str(tmp_path / "knn"))
    oracle.assert_same(second.get_nearest_neighbors(rows[:5], k=10)[0], distances)


def test_it_copies_pickles_and_prints():
    knn = CustomKNN(PLAIN, 8, nan_policy="last")
    knn.train(numpy_array(REFERENCE))
    for other in (copy.deepcopy(knn), pickle.loads(pickle.dumps(knn))):
        oracle.assert_same(other(numpy_array(QUERY), 2).indices, knn(numpy_array(QUERY), 2).indices)
    assert repr(knn) == f"CustomKNN({PLAIN!r}, batch_size=8)"
