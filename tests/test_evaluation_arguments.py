"""What is said of wrong arguments of the evaluation, before anything is computed."""

import math
import re

import numpy as np
import pytest

from nearwise.evaluation import AccuracyCalculator, FaissKMeans, FaissKNN
from nearwise.evaluation.accuracy import clustering
from nearwise.evaluation.accuracy.rank import precision_at_k

X = np.random.default_rng(0).standard_normal((20, 4), dtype=np.float32)
Y = np.arange(20) % 4


@pytest.mark.rule("A-13")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"knn_func": 3}, TypeError, "knn_func must be callable or None, got 3"),
        ({"kmeans_func": "faiss"}, TypeError, "kmeans_func must be callable or None, got 'faiss'"),
        ({"label_comparison_fn": 1}, TypeError, "label_comparison_fn must be callable or None, got 1"),
        ({"avg_of_avgs": "no"}, TypeError, "avg_of_avgs must be a bool, got 'no'"),
        ({"return_per_class": 1}, TypeError, "return_per_class must be a bool, got 1"),
        ({"device": "foo"}, ValueError, "device must be one that torch knows, got 'foo'"),
        ({"include": [f"recall_at_{10**30}"]}, ValueError, f"recall_at_<k>, got recall_at_{10**30}"),
        ({"include": [f"precision_at_{2**63}"]}, ValueError, f"recall_at_<k>, got precision_at_{2**63}"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        AccuracyCalculator(**arguments)


@pytest.mark.rule("A-13")
def test_the_largest_k_of_a_name_counts():
    found = AccuracyCalculator(include=[f"recall_at_{2**63 - 1}", "recall_at_19"]).get_accuracy(X, Y)
    assert found == {f"recall_at_{2**63 - 1}": 1.0, "recall_at_19": 1.0}


@pytest.mark.parametrize(("k", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_precision_at_k_wants_a_positive_integer(k, error):
    with pytest.raises(error, match="k must be a positive integer"):
        precision_at_k(np.array([[0, 1]]), np.array([0]), k)


@pytest.mark.rule("A-17")
def test_clusters_of_no_query_have_no_score(caplog):
    pytest.importorskip("sklearn")
    found = AccuracyCalculator(include=["NMI", "AMI"]).get_accuracy(X[:0], Y[:0], X, Y)
    assert math.isnan(found["NMI"])
    assert math.isnan(found["AMI"])
    assert "no query to cluster" in caplog.text


def test_a_missing_package_is_named_before_the_search(monkeypatch):
    monkeypatch.setattr(clustering, "find_spec", lambda name: None)
    searched = []

    def knn_func(query, k, reference, ref_includes_query):
        searched.append(k)
        raise AssertionError("the search came first")

    with pytest.raises(ModuleNotFoundError, match="NMI and AMI need scikit-learn"):
        AccuracyCalculator(include=["NMI", "precision_at_1"], knn_func=knn_func).get_accuracy(X, Y)
    assert not searched


@pytest.mark.rule("FK-4")
@pytest.mark.parametrize(("count", "error"), [(True, TypeError), (2.5, TypeError), ("3", TypeError), (0, ValueError)])
def test_the_number_of_clusters_is_a_positive_integer(count, error):
    pytest.importorskip("faiss")
    with pytest.raises(error, match="num_clusters must be a positive integer"):
        FaissKMeans()(X, count)


@pytest.fixture
def trained():
    pytest.importorskip("faiss")
    search = FaissKNN(reset_before=False, reset_after=False)
    search.train(X)
    return search


@pytest.mark.rule("F-8")
def test_rows_of_another_length_are_named(trained):
    with pytest.raises(ValueError, match="embeddings must have 4 features, as the index has, got 3"):
        trained.add(X[:, :3])
    with pytest.raises(ValueError, match="query must have 4 features, as the index has, got 3"):
        trained(X[:, :3], 2)


@pytest.mark.rule("F-9")
def test_files_without_an_index_are_named(trained, tmp_path):
    (tmp_path / "junk").write_bytes(b"junk" * 100)
    with pytest.raises(ValueError, match=r"filename must name a file with a Faiss index, got .*junk"):
        trained.load(tmp_path / "junk")
    with pytest.raises(FileNotFoundError, match="missing"):
        trained.load(tmp_path / "missing")
    with pytest.raises(OSError, match="filename must name a file that can be written"):
        trained.save(tmp_path / "nowhere" / "index")
    assert trained.index.ntotal == 20


@pytest.mark.rule("F-1")
def test_an_index_that_is_none_is_named():
    pytest.importorskip("faiss")
    with pytest.raises(TypeError, match="index_init_fn must be callable or None, got 3"):
        FaissKNN(index_init_fn=3)
    with pytest.raises(TypeError, match="index_init_fn must return a Faiss index, got list"):
        FaissKNN(index_init_fn=lambda features: [])(X, 2, X)
    with pytest.raises(TypeError, match="reset_before must be a bool, got 'no'"):
        FaissKNN(reset_before="no")


@pytest.mark.rule("F-4")
def test_squares_that_float32_cannot_hold_are_named():
    pytest.importorskip("faiss")
    with pytest.raises(
        ValueError, match="query must have squares that float32 holds, for Faiss; those of row 0 are not"
    ):
        FaissKNN()(X * 1e30, 2, X)
    wide = X.copy()
    wide[3, 1] = np.inf
    with pytest.raises(ValueError, match="those of row 3 are not"):
        FaissKNN()(wide, 2, X)
