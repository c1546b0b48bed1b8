"""AccuracyCalculator: worked values of every metric and option."""

import logging
import math

import numpy as np
import pytest
import torch

from nearwise.evaluation import AccuracyCalculator, CustomKNN, precision_at_k

LINE = np.array([[0.0], [1.0], [3.0], [7.0], [15.0], [31.0]])
TWO_CLASSES = np.array([0, 0, 0, 0, 1, 1])
ALTERNATING = np.array([0, 1, 0, 1, 0, 1])
APART = (np.array([[0.0], [10.0]]), np.array([0, 1]), np.array([[1.0], [2.0], [4.0], [8.0]]), np.array([1, 0, 0, 1]))
SHORT = {
    "precision_at_1": "p1",
    "r_precision": "rp",
    "mean_average_precision_at_r": "mapr",
    "mean_average_precision": "map",
    "mean_reciprocal_rank": "mrr",
}


def accuracy(*given, call=None, **options):
    return AccuracyCalculator(**options).get_accuracy(*given, **(call or {}))


def check(found, p1, rp, mapr, map_, mrr):
    expected = {"p1": p1, "rp": rp, "mapr": mapr, "map": map_, "mrr": mrr}
    for name, short in SHORT.items():
        assert type(found[name]) is float
        assert found[name] == pytest.approx(expected[short], abs=1e-9), name


@pytest.mark.rule("A-1")
def test_a_query_among_its_own_references():
    check(accuracy(LINE, TWO_CLASSES), 5 / 6, 5 / 6, 5 / 6, 13 / 15, 13 / 15)
    check(accuracy(LINE, ALTERNATING), 0, 5 / 12, 5 / 24, 0.46944444444, 17 / 36)


def test_a_reference_apart():
    check(accuracy(*APART), 1 / 2, 1 / 2, 3 / 8, 2 / 3, 3 / 4)


@pytest.mark.rule("A-1")
def test_values_are_the_nearest_float64():
    assert accuracy(LINE, TWO_CLASSES)["mean_reciprocal_rank"] == 13 / 15
    assert accuracy(LINE, ALTERNATING)["mean_reciprocal_rank"] == 17 / 36


@pytest.mark.rule("A-2")
def test_classes_weigh_alike_with_avg_of_avgs():
    check(accuracy(LINE, TWO_CLASSES, avg_of_avgs=True), 0.75, 0.75, 0.75, 0.8, 0.8)


def test_a_large_and_a_small_class_average_differently():
    rows = np.r_[np.zeros(98), [1.0, 5.0]][:, None] + np.arange(100)[:, None] * 1e-6
    labels = np.r_[np.zeros(98), [1, 1]]
    per_query = accuracy(rows, labels, include=("precision_at_1",))["precision_at_1"]
    per_class = accuracy(rows, labels, include=("precision_at_1",), avg_of_avgs=True)["precision_at_1"]
    assert (per_query, per_class) == (0.99, 0.75)


@pytest.mark.rule("A-3")
def test_classes_come_by_ascending_label():
    found = accuracy(LINE, TWO_CLASSES, return_per_class=True)
    assert found["precision_at_1"] == [1.0, 0.5]
    assert found["mean_average_precision"] == [1.0, 0.6]
    found = accuracy(LINE, np.array([5, 5, 2, 2, 9, 9]), return_per_class=True)
    assert found["precision_at_1"] == [0.5, 1, 0.5]
    with pytest.raises(ValueError, match="avg_of_avgs and return_per_class"):
        AccuracyCalculator(avg_of_avgs=True, return_per_class=True)


@pytest.mark.rule("A-4")
def test_a_small_k_keeps_the_divisor_of_average_precision():
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/240: MAP at R or at k."""
    check(accuracy(LINE, TWO_CLASSES, k=1), 5 / 6, 5 / 6, 7 / 18, 7 / 18, 5 / 6)
    found = accuracy(LINE, TWO_CLASSES, k=2)
    assert found["mean_average_precision"] == found["mean_average_precision_at_r"] == pytest.approx(11 / 18)
    assert found["mean_reciprocal_rank"] == 5 / 6


@pytest.mark.rule("A-5")
@pytest.mark.parametrize(("k", "warns"), [(1, True), (2, True), (3, False), (np.int64(4), False)])
def test_a_k_below_r_is_warned_about(k, warns, caplog):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/362: too small without a word."""
    accuracy(LINE, TWO_CLASSES, k=k)
    assert any(record.levelno == logging.WARNING for record in caplog.records) == warns


def test_a_small_k_is_fine_for_metrics_that_do_not_look_at_r(caplog):
    accuracy(LINE, TWO_CLASSES, k=1, include=("precision_at_1", "mean_average_precision"))
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.rule("A-6", "X16")
def test_max_bin_count_is_the_largest_r_of_the_query():
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/114: k could not be chosen."""
    seen = []

    def knn(query, k, reference, ref_includes_query):
        seen.append(k)
        return CustomKNN("sqeuclidean")(query, k, reference, ref_includes_query)

    found = accuracy(LINE, TWO_CLASSES, k="max_bin_count", knn_func=knn)
    assert found["mean_average_precision_at_r"] == 5 / 6
    assert found["mean_average_precision"] == found["mean_reciprocal_rank"] == pytest.approx(0.8333333, abs=1e-7)
    reference, labels = np.arange(9.0)[:, None], np.array([0, 0, 1, 1, 1, 1, 1, 1, 1])
    accuracy(LINE[:1], [0], reference, labels, k="max_bin_count", knn_func=knn)
    assert seen == [3, 2]


@pytest.mark.rule("A-7")
@pytest.mark.parametrize("k", [0, -1, 1.5, "max", True, np.True_, (1,)])
def test_a_k_that_is_no_count_is_refused(k):
    with pytest.raises(ValueError, match="k must be"):
        AccuracyCalculator(k=k)


@pytest.mark.rule("A-8")
def test_a_query_without_relevant_references_takes_no_part():
    query, _, reference, labels = APART
    check(accuracy(query, [0, 5], reference, labels), 0, 0.5, 0.25, 0.5833333333, 0.5)
    per_class = accuracy(query, [0, 5], reference, labels, return_per_class=True)
    assert [len(values) for values in per_class.values()] == [1] * 5


@pytest.mark.rule("A-9")
def test_a_class_of_one_is_alone_among_its_own_references():
    check(accuracy(LINE, [0, 0, 0, 1, 1, 2]), 0.8, 0.8, 0.8, 0.85, 0.85)


@pytest.mark.rule("A-10", "A-17")
@pytest.mark.parametrize("k", [None, 1, 3, "max_bin_count"])
def test_nobody_to_score_is_nan_and_one_warning(k, caplog):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/129 and 397: now NaN, now 0."""
    query, _, reference, labels = APART
    nothing = np.zeros((0, 1)), np.zeros(0, dtype=np.int64)
    for given in [(query, [7, 8], reference, labels), (query[:1], [3]), nothing, (query, [0, 1], *nothing)]:
        caplog.clear()
        found = accuracy(*given, k=k)
        assert len(found) == 5
        assert all(math.isnan(value) for value in found.values())
        assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1
        per_class = accuracy(*given, k=k, return_per_class=True)["r_precision"]
        assert len(per_class) == len(set(np.asarray(given[1]).tolist()))
        assert all(math.isnan(value) for value in per_class)


@pytest.mark.rule("A-15")
@pytest.mark.parametrize("name", SHORT)
def test_every_metric_works_alone(name):
    assert accuracy(LINE, TWO_CLASSES, include=(name,)) == {name: accuracy(LINE, TWO_CLASSES)[name]}
    assert accuracy(LINE, TWO_CLASSES, call={"include": [name]}) == {name: accuracy(LINE, TWO_CLASSES)[name]}


def test_recall_at_k_is_any_match_and_precision_at_k_their_share():
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/283: one taken for the other."""
    query, reference = np.array([[0.0]]), np.array([[1.0], [2.0]])
    found = accuracy(query, [1], reference, [0, 1], include=("precision_at_2", "recall_at_2", "recall_at_1"))
    assert found == {"precision_at_2": 0.5, "recall_at_1": 0.0, "recall_at_2": 1.0}
    beyond = accuracy(query, [1], reference, [0, 1], include=("precision_at_8",), k=1)
    assert beyond == {"precision_at_8": 1 / 8}


def test_values_of_every_query():
    found = AccuracyCalculator().get_per_query(LINE, [0, 0, 0, 1, 1, 2])
    assert found["mean_reciprocal_rank"].dtype == np.float64
    np.testing.assert_array_equal(found["mean_reciprocal_rank"], [1, 1, 1, 1 / 4, 1, np.nan])


@pytest.mark.rule("A-24")
def test_names_come_in_alphabetical_order():
    plain = ["mean_average_precision", "mean_average_precision_at_r", "mean_reciprocal_rank"]
    plain += ["precision_at_1", "r_precision"]
    assert AccuracyCalculator().get_curr_metrics() == plain
    with_clusters = AccuracyCalculator(kmeans_func=lambda x, n: None).get_curr_metrics()
    assert with_clusters == ["AMI", "NMI", *plain]
    assert AccuracyCalculator(exclude=("r_precision",)).get_curr_metrics() == plain[:-1]
    assert AccuracyCalculator(avg_of_avgs=True).description() == "avg_of_avgs"
    assert AccuracyCalculator().description() == ""


class WithPrecisionAt2(AccuracyCalculator):
    seen = None

    def calculate_precision_at_2(self, knn_labels, query_labels, not_lone_query_mask, **kwargs):
        type(self).seen = {"knn_labels": knn_labels, "query_labels": query_labels, **kwargs}
        mask = not_lone_query_mask
        own, found = query_labels[mask][:, None], knn_labels[mask]
        flags = self.avg_of_avgs, self.return_per_class
        return precision_at_k(found, own, 2, *flags, self.label_comparison_fn)

    def calculate_answer(self, query, cluster_labels, **kwargs):
        assert "knn_labels" in kwargs or self.get_curr_metrics() == ["answer"]
        return float(cluster_labels.max())

    def requires_knn(self):
        return [*super().requires_knn(), "precision_at_2"]

    def requires_clustering(self):
        return [*super().requires_clustering(), "answer"]

    def get_cluster_labels(self, query, query_labels, **kwargs):
        return torch.arange(len(query))


@pytest.mark.rule("A-23", "X14")
def test_a_method_of_a_subclass_is_a_metric():
    calculator = WithPrecisionAt2(include=("precision_at_2", "precision_at_1"))
    assert calculator.get_accuracy(LINE, TWO_CLASSES) == {"precision_at_1": 5 / 6, "precision_at_2": 0.75}
    seen = WithPrecisionAt2.seen
    expected = {"query", "reference", "query_labels", "reference_labels", "ref_includes_query", "label_comparison_fn"}
    expected |= {"label_counts", "knn_labels", "knn_distances", "lone_query_labels"}
    assert set(seen) == expected
    assert isinstance(seen["knn_labels"], torch.Tensor)
    assert seen["knn_labels"].shape == (6, 5)
    assert [counted.tolist() for counted in seen["label_counts"]] == [[0, 1], [4, 2]]
    assert seen["ref_includes_query"] is True
    assert "precision_at_2" in calculator.get_curr_metrics()


@pytest.mark.rule("A-23")
def test_methods_get_what_they_are_listed_for():
    assert WithPrecisionAt2(include=("answer",)).get_accuracy(LINE, TWO_CLASSES) == {"answer": 5.0}
    nobody = WithPrecisionAt2(include=("precision_at_2",)).get_accuracy(LINE, list("abcdef"))
    assert math.isnan(nobody["precision_at_2"])
    assert WithPrecisionAt2.seen["knn_labels"].shape == (6, 0)


def test_a_subclass_may_replace_a_metric_and_call_ours():
    class Doubled(AccuracyCalculator):
        def calculate_mean_average_precision(self, **kwargs):
            return 2 * super().calculate_mean_average_precision(**kwargs)

    found = Doubled().get_accuracy(LINE, TWO_CLASSES)
    assert found["mean_average_precision"] == 26 / 15
    assert found["mean_reciprocal_rank"] == 13 / 15
    assert math.isnan(Doubled().get_accuracy(LINE[:1], [0])["mean_average_precision"])


@pytest.mark.rule("A-19", "A-20")
def test_labels_compared_by_a_function():
    query, reference = np.array([[0.0], [3.0]]), np.array([[0.0], [3.0], [1.0], [2.0]])
    found = accuracy(
        query,
        np.array([0.01, 0.02]),
        reference,
        np.array([10, 0.03, 0.04, 0.05]),
        label_comparison_fn=lambda x, y: abs(x - y) < 1,
    )
    check(found, 0.5, 5 / 6, 0.6944444444, 0.8194444444, 0.75)


PAIRS = {
    "query": np.array([[0.0], [1.0]]),
    "query_labels": np.array([(1, 3), (7, 3)]),
    "reference": np.arange(5.0)[:, None],
    "reference_labels": np.array([(1, 3), (7, 4), (1, 4), (1, 5), (1, 6)]),
}


def same_but_other(x, y):
    return (x[..., 0] == y[..., 0]) & (x[..., 1] != y[..., 1])


@pytest.mark.rule("A-19", "A-21")
def test_labels_of_two_dimensions():
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/669: several labels for one sample."""
    found = AccuracyCalculator(label_comparison_fn=same_but_other).get_accuracy(**PAIRS)
    assert found["precision_at_1"] == 0.5
    assert found["r_precision"] == pytest.approx(2 / 3)
    assert found["mean_average_precision_at_r"] == pytest.approx((1 / 9 + 1) / 2)
    assert found["mean_average_precision"] == pytest.approx(((1 / 3 + 2 / 4 + 3 / 5) / 3 + 1) / 2)
    one_hot = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    found = accuracy(LINE[:3], one_hot, label_comparison_fn=lambda x, y: (x & y).any(-1))
    assert found["precision_at_1"] == 1


@pytest.mark.rule("A-22")
def test_a_label_that_does_not_match_itself_has_no_self_to_take_off():
    rows, labels = np.array([[0.0], [1.0], [5.0]]), np.array([(1, 0), (1, 1), (2, 0)])
    found = AccuracyCalculator(label_comparison_fn=same_but_other).get_per_query(rows, labels)
    np.testing.assert_array_equal(found["r_precision"], [1, 1, np.nan])
    np.testing.assert_array_equal(found["mean_average_precision"], [1, 1, np.nan])


@pytest.mark.rule("A-19")
@pytest.mark.parametrize("name", ["NMI", "AMI"])
def test_clusters_are_not_compared_by_a_function(name):
    with pytest.raises(NotImplementedError, match="label_comparison_fn"):
        AccuracyCalculator(include=(name,), label_comparison_fn=lambda x, y: x == y)


@pytest.mark.rule("A-25")
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_two_blobs_cluster_as_labelled(kind, rng):
    rows = np.r_[rng.normal(0, 1, (40, 3)), rng.normal(20, 1, (40, 3))].astype(np.float32)
    labels = np.repeat([4, 2], 40)
    found = accuracy(kind(rows), kind(labels), include=("NMI", "AMI"))
    assert found == {"AMI": pytest.approx(1.0), "NMI": pytest.approx(1.0)}
    asked = []

    def kmeans(x, count):
        asked.append((len(x), count, torch.is_grad_enabled()))
        return torch.zeros(len(x), dtype=torch.long)

    found = accuracy(kind(rows[::2]), kind(labels[::2]), kind(rows), kind(labels), kmeans_func=kmeans)
    assert found["NMI"] == 0.0
    assert asked == [(40, 2, False)]


def test_clusters_repeat_bit_for_bit(rng):
    rows, labels = rng.normal(size=(300, 4)), rng.integers(0, 5, 300)
    found = [accuracy(rows, labels, include=("NMI", "AMI")) for _ in range(2)]
    assert found[0] == found[1]


@pytest.mark.rule("A-26", "X13")
def test_clusters_are_computed_when_asked_for():
    rows, labels = np.repeat(LINE, 20, axis=0), np.repeat(TWO_CLASSES, 20)
    assert "NMI" not in accuracy(rows, labels)
    assert "NMI" in accuracy(rows, labels, include=("NMI",))
    assert accuracy(rows, labels, call={"include": ("NMI",)}).keys() == {"NMI"}
    assert "NMI" in accuracy(rows, labels, kmeans_func=lambda x, n: np.zeros(len(x)))


@pytest.mark.rule("A-25", "A-26")
def test_clusters_without_faiss_come_from_scikit_learn(monkeypatch):
    import sys

    from nearwise.evaluation.accuracy import clustering

    monkeypatch.setattr(clustering, "find_spec", lambda name: None if name == "faiss" else object())
    rows, labels = np.r_[np.zeros((40, 1)), np.full((40, 1), 20.0)], np.repeat([0, 1], 40)
    assert accuracy(rows, labels, include=("AMI",)) == {"AMI": 1.0}
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match=r"nearwise\[clustering\]"):
        accuracy(rows, labels, include=("AMI",), kmeans_func=lambda x, n: labels)
