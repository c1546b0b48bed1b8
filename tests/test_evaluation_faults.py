"""Faults and wants around the evaluation of embeddings that users of pytorch-metric-learning reported."""

import numpy as np
import pytest
import torch

from nearwise.distances import CosineSimilarity, LpDistance
from nearwise.evaluation import AccuracyCalculator, CustomKNN, MatchFinder

PLAIN = LpDistance(normalize_embeddings=False)


@pytest.fixture
def labelled(rng):
    labels = np.arange(60) % 4
    return (5 * np.eye(4, 6)[labels] + rng.normal(size=(60, 6))).astype(np.float32), labels


@pytest.mark.rule("K-3", "K-10")
@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize(("distance", "sign"), [(PLAIN, 1), (CosineSimilarity(), -1)])
def test_every_class_has_its_distance_in_a_full_row(distance, sign, batch_size, make, labelled):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/718: distances to all classes, not matches only.

    One row for each class, their centroid, and as many neighbours as there are classes.
    """
    rows, labels = labelled
    centroids = np.stack([rows[labels == label].mean(axis=0) for label in range(4)])
    found = CustomKNN(distance, batch_size)(make(rows), len(centroids), make(centroids))
    values, indices = np.asarray(found.distances), np.asarray(found.indices)
    assert values.shape == (60, 4)
    np.testing.assert_array_equal(np.sort(indices, axis=1), np.tile(np.arange(4), (60, 1)))
    matrix = np.asarray(distance(make(rows), make(centroids)))
    np.testing.assert_array_equal(indices, np.argsort(sign * matrix, axis=1, kind="stable"))
    np.testing.assert_array_equal(values, np.take_along_axis(matrix, indices, axis=1))
    assert (indices[:, 0] == labels).mean() > 0.9


@pytest.mark.rule("K-3", "K-10", "M-3")
def test_every_reference_has_its_distance_in_a_full_row(make, labelled):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/718: what does not match has a distance too."""
    rows = make(labelled[0])
    found = CustomKNN(PLAIN)(rows[:5], len(rows), rows)
    values, indices = np.asarray(found.distances), np.asarray(found.indices)
    assert (np.diff(values, axis=1) >= 0).all()
    assert np.sort(indices, axis=1).tolist() == [list(range(60))] * 5
    matches = np.asarray(MatchFinder(PLAIN, 3.0).get_match_matrix(rows[:5], rows))
    np.testing.assert_array_equal(np.take_along_axis(matches, indices, axis=1), values <= 3)
    with pytest.raises(ValueError, match="k must be"):
        CustomKNN(PLAIN)(rows[:5], len(rows) + 1, rows)


class Kept(AccuracyCalculator):
    """Hands out what the numbers were made of."""

    def calculate_kept(self, knn_labels, knn_distances, cluster_labels, **kwargs):
        self.found = {"labels": knn_labels, "distances": knn_distances, "clusters": cluster_labels}
        return 0.0

    def requires_knn(self):
        return [*super().requires_knn(), "kept"]

    def requires_clustering(self):
        return [*super().requires_clustering(), "kept"]


@pytest.mark.rule("A-23")
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_neighbours_and_clusters_behind_the_numbers_can_be_had(kind, labelled):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/248: only the numbers were returned."""
    from sklearn.metrics import normalized_mutual_info_score

    rows, labels = labelled
    given = kind(rows), kind(labels)
    calculator = Kept(include=("precision_at_1", "r_precision", "NMI", "kept"), kmeans_func=lambda x, n: labels // 2)
    numbers = calculator.get_accuracy(*given)
    neighbours = calculator.knn_func(given[0], 59, given[0], True)
    indices = np.asarray(neighbours.indices)
    np.testing.assert_array_equal(calculator.found["labels"], labels[indices])
    np.testing.assert_array_equal(calculator.found["distances"], np.asarray(neighbours.distances))
    matches = labels[indices] == labels[:, None]
    assert numbers["precision_at_1"] == matches[:, 0].mean()
    # Every class has 15 rows, so R is 14.
    assert numbers["r_precision"] == pytest.approx(matches[:, :14].mean(), abs=1e-15)
    clusters = np.asarray(calculator.get_cluster_labels(*given))
    np.testing.assert_array_equal(np.asarray(calculator.found["clusters"]), clusters)
    assert numbers["NMI"] == normalized_mutual_info_score(labels, clusters)
    assert 0 < numbers["NMI"] < 1
