"""FaissKNN and FaissKMeans on the CPU, with the real faiss-cpu."""

import logging
import subprocess
import sys

import faiss
import numpy as np
import pytest
import torch

from nearwise.evaluation import FaissKMeans, FaissKNN

QUERY = np.array([[0.0, 0.0], [3.0, 0.0]], dtype=np.float32)
REFERENCE = np.array([[0.0, 1.0], [3.0, 0.5], [9.0, 9.0]], dtype=np.float32)
KINDS = pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])


@pytest.mark.rule("F-1")
def test_gpus_are_checked_at_construction():
    for wrong in (0, {0}, "0"):
        with pytest.raises(TypeError, match="gpus must be a list or tuple"):
            FaissKNN(gpus=wrong)
    for wrong in ([], ()):
        with pytest.raises(ValueError, match="gpus must not be empty"):
            FaissKNN(gpus=wrong)
    assert FaissKNN(gpus=(0,)).gpus == (0,)


@pytest.mark.rule("F-2", "FK-5", "X2")
@pytest.mark.parametrize("name", ["FaissKNN", "FaissKMeans"])
def test_without_faiss_the_message_names_the_extra(name, monkeypatch):
    import nearwise.evaluation

    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ModuleNotFoundError, match=r"nearwise\[faiss\]"):
        getattr(nearwise.evaluation, name)()


@pytest.mark.rule("F-2", "G-11", "L-1", "L-3")
def test_importing_the_module_loads_no_extra_and_changes_nothing():
    code = """
import logging, os, sys
before = dict(os.environ)
import nearwise, nearwise.evaluation
assert not {"torch", "faiss", "sklearn", "torchmetrics"} & set(sys.modules), sys.modules.keys()
assert dict(os.environ) == before
logger = logging.getLogger("nearwise")
assert not logger.handlers and logger.level == logging.NOTSET and not logging.getLogger().handlers
import numpy as np
found = nearwise.evaluation.AccuracyCalculator().get_accuracy(np.eye(4), [0, 0, 1, 1])
assert "torch" not in sys.modules, "arrays need no torch"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


@pytest.mark.rule("L-1", "F-16")
def test_a_search_says_so_to_the_packages_logger(caplog, capfd):
    with caplog.at_level(logging.INFO, logger="nearwise"):
        FaissKNN()(QUERY, 1, REFERENCE)
        FaissKMeans(niter=1, seed=1, min_points_per_centroid=1)(REFERENCE, 1)
    names = {record.name for record in caplog.records}
    assert names == {"nearwise.evaluation.faiss_knn", "nearwise.evaluation.faiss_kmeans"}
    assert "1 nearest of 3 rows of 2 features" in caplog.text
    assert all(record.levelno == logging.INFO for record in caplog.records)
    assert capfd.readouterr().out == ""


@KINDS
@pytest.mark.rule("F-3", "F-4")
def test_the_default_is_squared_euclidean(kind):
    distances, indices = FaissKNN()(kind(QUERY), 1, kind(REFERENCE))
    assert type(distances) is type(kind(QUERY))
    assert distances.tolist() == [[1.0], [0.25]]
    assert indices.tolist() == [[0], [1]]
    assert str(distances.dtype).endswith("float32")
    assert str(indices.dtype).endswith("int64")


@pytest.mark.rule("F-3")
def test_any_index_may_be_asked_for():
    query, reference = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 0.0]])
    distances, indices = FaissKNN(index_init_fn=faiss.IndexFlatIP)(query, 2, reference)
    assert (distances.tolist(), indices.tolist()) == ([[2, 1]], [[1, 2]])


@pytest.mark.rule("F-4")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_dtype_reaches_faiss_as_float32(dtype):
    query, reference = torch.from_numpy(QUERY).to(dtype), torch.from_numpy(REFERENCE).to(dtype)
    distances, indices = FaissKNN()(query, 1, reference)
    assert (distances.dtype, indices.dtype) == (torch.float32, torch.long)
    assert distances.tolist() == [[1.0], [0.25]]
    stored = FaissKNN(reset_before=False, reset_after=False)
    stored.train(reference)
    stored.add(reference)
    assert stored.index.ntotal == 6
    assert stored(query, 1).distances.tolist() == [[1.0], [0.25]]


@pytest.mark.rule("F-5", "F-7")
def test_each_call_starts_anew():
    knn = FaissKNN()
    found = [knn(QUERY, 2, REFERENCE) for _ in range(2)]
    assert np.array_equal(found[0].indices, found[1].indices)
    assert np.array_equal(found[0].distances, found[1].distances)
    assert knn.index is None
    with pytest.raises(ValueError, match="reference must be given"):
        knn(QUERY, 1)


@pytest.mark.rule("F-6")
def test_without_reset_a_reference_is_appended():
    knn = FaissKNN(reset_before=False, reset_after=False)
    for given in [(), (REFERENCE,)]:
        with pytest.raises(ValueError, match="index must exist"):
            knn(QUERY, 1, *given)
    knn.train(REFERENCE)
    _, indices = knn(QUERY, 2, REFERENCE)
    assert [sorted(row) for row in indices.tolist()] == [[0, 3], [1, 4]]
    assert knn.index.ntotal == 6
    knn(QUERY, 2, REFERENCE)
    assert knn.index.ntotal == 9


@pytest.mark.rule("F-7")
def test_the_index_is_dropped_also_after_a_failure():
    knn = FaissKNN(reset_before=False)
    knn.train(REFERENCE)
    knn(QUERY, 1)
    assert knn.index is None
    with pytest.raises(ValueError, match="index must exist"):
        knn(QUERY, 1)
    knn.train(REFERENCE)
    with pytest.raises(ValueError, match="k must be between 1 and 3, got 4"):
        knn(QUERY, 4)
    assert knn.index is None
    keeping = FaissKNN(reset_after=False)
    keeping(QUERY, 1, REFERENCE)
    assert keeping.index.ntotal == 3


@pytest.mark.rule("F-8")
def test_train_starts_and_add_appends():
    knn = FaissKNN(reset_before=False, reset_after=False)
    with pytest.raises(ValueError, match="call train or load first"):
        knn.add(REFERENCE)
    knn.train(REFERENCE)
    knn.train(REFERENCE[:2])
    knn.add(REFERENCE)
    assert knn.index.ntotal == 5


@pytest.mark.rule("F-8")
def test_an_index_that_needs_training_is_trained(rng):
    rows = rng.normal(size=(400, 4)).astype(np.float32)

    def inverted_lists(features):
        return faiss.IndexIVFFlat(faiss.IndexFlatL2(features), features, 4)

    for knn in (FaissKNN(index_init_fn=inverted_lists), FaissKNN(False, False, inverted_lists)):
        if not knn.reset_before:
            knn.train(rows)
        found = knn(rows[:20], 1, rows if knn.reset_before else None)
        assert found.indices[:, 0].tolist() == list(range(20))
    with pytest.raises(ValueError, match="nprobe"):
        FaissKNN(index_init_fn=inverted_lists)(rows[:20], 399, rows)


@pytest.mark.rule("F-9")
def test_an_index_is_saved_and_loaded(tmp_path):
    generator = torch.Generator().manual_seed(0)
    reference, more, query = (torch.randn(n, 8, generator=generator) for n in (50, 20, 5))
    knn = FaissKNN(reset_before=False, reset_after=False)
    with pytest.raises(ValueError, match="before it is saved"):
        knn.save(tmp_path / "nothing.index")
    knn.train(reference)
    knn.add(more)
    _, indices = knn(query, 10)
    assert indices.shape == (5, 10)
    assert int(indices.max()) < 70
    knn.save(tmp_path / "rows.index")
    restored = FaissKNN(reset_before=False, reset_after=False)
    restored.load(str(tmp_path / "rows.index"))
    assert torch.equal(restored(query, 10).indices, indices)


@pytest.mark.rule("F-10")
def test_the_index_may_be_assigned():
    knn = FaissKNN(reset_before=False, reset_after=False)
    knn.index = faiss.IndexFlatL2(2)
    knn.index.add(REFERENCE)
    assert knn(QUERY, 1).indices.tolist() == [[0], [1]]


@KINDS
@pytest.mark.rule("F-15", "K-4")
def test_the_own_index_or_else_the_last_is_removed(kind):
    class Fixed:
        ntotal, is_trained, d = 4, True, 1

        def add(self, rows):
            pass

        def search(self, rows, k):
            raw = np.array([[0, 3], [3, 2], [2, 0]])
            return np.array([[0, 4], [0, 0], [0, 1]], dtype=np.float32), raw

    knn = FaissKNN(reset_before=False)
    knn.index = Fixed()
    distances, indices = knn(kind(np.zeros((3, 1), dtype=np.float32)), 1, None, True)
    assert indices.tolist() == [[3], [3], [0]]
    assert distances.tolist() == [[4], [0], [1]]


@pytest.mark.rule("F-15")
def test_rows_that_are_alike_never_return_themselves():
    rows = np.zeros((5, 3), dtype=np.float32)
    _, indices = FaissKNN()(rows, 4, rows, True)
    assert all(sorted([*row, i]) == [0, 1, 2, 3, 4] for i, row in enumerate(indices.tolist()))


@KINDS
@pytest.mark.rule("G-3", "K-11", "G-5")
def test_nan_and_wrong_k_are_refused(kind):
    bad = kind(np.array([[0.0, np.nan]], dtype=np.float32))
    with pytest.raises(ValueError, match="query must not contain NaN"):
        FaissKNN()(bad, 1, kind(REFERENCE))
    with pytest.raises(ValueError, match="reference must not contain NaN"):
        FaissKNN()(kind(QUERY), 1, bad)
    with pytest.raises(ValueError, match="embeddings must not contain NaN"):
        FaissKNN().train(bad)
    for k in (0, -1, 4):
        with pytest.raises(ValueError, match="k must be"):
            FaissKNN()(kind(QUERY), k, kind(REFERENCE))
    with pytest.raises(TypeError, match="k must be"):
        FaissKNN()(kind(QUERY), True, kind(REFERENCE))


def test_two_searches_in_a_row_return_the_same():
    rows = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    first = FaissKNN()(rows, 5, rows, True)
    kept = first.indices.copy()
    second = FaissKNN()(rows, 5, rows, True)
    assert np.array_equal(kept, first.indices)
    assert np.array_equal(kept, second.indices)


BLOBS = np.r_[np.zeros((40, 2)), np.full((40, 2), 20.0)]


@KINDS
@pytest.mark.rule("FK-1", "FK-2", "FK-6")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_two_blobs_are_two_clusters(kind, dtype):
    rows = kind(BLOBS.astype(dtype))
    before = rows.copy() if kind is np.asarray else rows.clone()
    labels = FaissKMeans(niter=5, seed=3)(rows, 2)
    assert type(labels) is type(rows)
    assert labels.shape == (80,)
    assert str(labels.dtype).endswith("int64")
    assert len({*labels[:40].tolist()}) == len({*labels[40:].tolist()}) == 1
    assert labels[0] != labels[40]
    assert (rows == before).all()


@pytest.mark.rule("FK-6")
def test_clusters_have_no_graph():
    rows = torch.tensor(BLOBS, requires_grad=True)
    assert not FaissKMeans(niter=2)(rows, 2).requires_grad


@pytest.mark.rule("FK-1", "FK-3")
def test_keywords_go_to_faiss_at_the_call():
    kmeans = FaissKMeans(nonsense=3)
    with pytest.raises(AttributeError):
        kmeans(BLOBS, 2)


@pytest.mark.rule("FK-4")
def test_more_clusters_than_rows_are_refused():
    for count, expected in ((3, "between 1 and the 2 rows"), (0, "a positive integer"), (-1, "a positive integer")):
        with pytest.raises(ValueError, match=f"num_clusters must be {expected}"):
            FaissKMeans()(BLOBS[:2], count)


def test_clusters_are_seeded():
    rows = np.random.default_rng(1).normal(size=(300, 4))
    found = [FaissKMeans(niter=10, seed=5)(rows, 4).tolist() for _ in range(2)]
    assert found[0] == found[1]


@pytest.mark.rule("G-5", "F-15", "K-6")
def test_more_queries_than_references_cannot_be_the_first_of_them():
    rows = np.eye(3, dtype=np.float32)
    with pytest.raises(ValueError, match=r"reference must start with the rows of query .*got 3 query rows and 2"):
        FaissKNN()(rows, 1, rows[:2], True)
