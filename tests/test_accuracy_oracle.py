"""AccuracyCalculator against exact fractions, on thousands of small random cases full of ties and lone classes."""

from fractions import Fraction

import numpy as np
import pytest

from nearwise.evaluation import AccuracyCalculator, CustomKNN

NAMES = [
    "mean_average_precision",
    "mean_average_precision_at_r",
    "mean_reciprocal_rank",
    "precision_at_1",
    "precision_at_3",
    "r_precision",
    "recall_at_3",
]


def ranked(query, reference, i, includes):
    """Reference rows by (squared distance, index); all numbers are whole, so the keys are exact."""
    keys = [(int(((query[i] - row) ** 2).sum()), j) for j, row in enumerate(reference) if not (includes and j == i)]
    return [j for _, j in sorted(keys)]


def of_query(matches, relevant, k):
    """The metrics of one query by their definitions, as fractions."""
    matches = matches if k is None else matches[:k]
    precisions = [(rank, Fraction(sum(matches[:rank]), rank)) for rank, hit in enumerate(matches, 1) if hit]
    depth = min(relevant, len(matches))
    return {
        "mean_average_precision": sum((p for _, p in precisions), Fraction(0)) / relevant,
        "mean_average_precision_at_r": sum((p for rank, p in precisions if rank <= relevant), Fraction(0)) / relevant,
        "mean_reciprocal_rank": Fraction(1, precisions[0][0]) if precisions else Fraction(0),
        "r_precision": Fraction(sum(matches[:depth]), depth),
    }


def at_k(matches):
    return {
        "precision_at_1": Fraction(int(matches[0])),
        "precision_at_3": Fraction(sum(matches[:3]), 3),
        "recall_at_3": Fraction(int(any(matches[:3]))),
    }


def expected(query, labels, reference, reference_labels, includes, k):
    """(values by query, means by class) of every metric, as fractions."""
    if k == "max_bin_count":
        k = max((sum(reference_labels == label) - includes for label in labels), default=0)
    values = []
    for i, label in enumerate(labels):
        order = ranked(query, reference, i, includes)
        matches = [bool(reference_labels[j] == label) for j in order]
        relevant = sum(matches)
        values.append({**of_query(matches, relevant, k), **at_k(matches)} if relevant else None)
    by_class = {}
    for label, value in zip(labels, values, strict=True):
        if value:
            by_class.setdefault(int(label), []).append(value)
    return values, [by_class[label] for label in sorted(by_class)]


def mean(fractions):
    fractions = list(fractions)
    return sum(fractions, Fraction(0)) / len(fractions)


def random_case(rng):
    d, n = int(rng.integers(1, 4)), int(rng.integers(2, 14))
    classes = int(rng.integers(1, 6))
    reference = rng.integers(-2, 3, (n, d))
    reference_labels = rng.integers(0, classes, n)
    if rng.random() < 0.5:
        m = int(rng.integers(1, n + 1))
        return reference[:m], reference_labels[:m], reference, reference_labels, True
    m = int(rng.integers(1, 8))
    return rng.integers(-2, 3, (m, d)), rng.integers(0, classes + 1, m), reference, reference_labels, False


def as_given(case, dtype):
    query, labels, reference, reference_labels, includes = case
    return query.astype(dtype), labels, reference.astype(dtype), reference_labels, includes


class Foreign:
    """Makes a search go the way of functions that are not ours."""

    def __init__(self):
        self.knn_func = CustomKNN("sqeuclidean")

    def __call__(self, *given):
        return self.knn_func(*given)


@pytest.mark.rule("A-1", "A-2", "A-3", "A-8", "A-9")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("k", [None, 1, 3, "max_bin_count"])
def test_equals_exact_fractions(fused, k, rng):
    knn = None if fused else Foreign()
    plain = AccuracyCalculator(include=NAMES, k=k, knn_func=knn)
    by_class = AccuracyCalculator(include=NAMES, k=k, return_per_class=True, knn_func=knn)
    of_classes = AccuracyCalculator(include=NAMES, k=k, avg_of_avgs=True, knn_func=knn)
    cases = 500 if fused else 100
    for number in range(cases):
        case = random_case(rng)
        values, classes = expected(*case, k)
        given = as_given(case, [np.float32, np.float64][number % 2])
        found = plain.get_accuracy(*given)
        if not classes:
            assert all(np.isnan(value) for value in found.values()), number
            continue
        scored = [value for value in values if value]
        for name in NAMES:
            assert found[name] == float(mean(value[name] for value in scored)), (number, name)
        if number % 5:
            continue
        means = {name: [mean(value[name] for value in members) for members in classes] for name in NAMES}
        found = by_class.get_accuracy(*given)
        assert found == {name: [float(value) for value in means[name]] for name in NAMES}, number
        found = of_classes.get_accuracy(*given)
        assert found == {name: float(mean(means[name])) for name in NAMES}, number
        found = plain.get_per_query(*given)
        for name in NAMES:
            each = [float(value[name]) if value else np.nan for value in values]
            np.testing.assert_array_equal(found[name], each, err_msg=f"{number} {name}")


@pytest.mark.rule("A-1")
@pytest.mark.parametrize("distance", ["cosine", "dot", "manhattan", "chebyshev", "euclidean", "snr"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_counted_ranks_are_those_of_the_search(distance, dtype, rng):
    """For every distance, whole numbers (ties everywhere) and others."""
    knn = CustomKNN(distance)

    def foreign(*given):
        return knn(*given)

    for number in range(12):
        n, d = int(rng.integers(3, 60)), int(rng.integers(2, 40))
        rows = rng.integers(-1, 2, (n, d)) if number % 2 else rng.normal(size=(n, d))
        rows = (rows + (0 if distance != "snr" else rng.normal(size=(n, d)))).astype(dtype)
        labels = rng.integers(0, max(2, n // int(rng.integers(2, 12))), n)
        m = int(rng.integers(1, n))
        for given in [(rows, labels), (rows[:m], labels[:m], rows, labels, True), (rows[m:], labels[m:], rows, labels)]:
            counted = AccuracyCalculator(knn_func=knn).get_per_query(*given)
            searched = AccuracyCalculator(knn_func=foreign).get_per_query(*given)
            for name in counted:
                np.testing.assert_array_equal(counted[name], searched[name], err_msg=name)
