"""AccuracyCalculator against exact fractions, on thousands of small random cases full of ties and lone classes."""

import operator
from fractions import Fraction

import numpy as np
import pytest
import torch

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


def expected(query, labels, reference, reference_labels, includes, k, compare=operator.eq):
    """(values by query, means by class) of every metric, as fractions; labels may be of any type."""
    orders = [ranked(query, reference, i, includes) for i in range(len(query))]
    found = [
        [bool(compare(label, reference_labels[j])) for j in order] for label, order in zip(labels, orders, strict=True)
    ]
    if k == "max_bin_count":
        k = max(map(sum, found), default=0)
    values = [{**of_query(each, sum(each), k), **at_k(each)} if any(each) else None for each in found]
    by_class = {}
    for label, value in zip(labels, values, strict=True):
        if value:
            by_class.setdefault(key(label), []).append(value)
    return values, [by_class[label] for label in sorted(by_class)]


def key(label):
    """What a class is told by, ordered as classes are."""
    return tuple(label.tolist()) if np.ndim(label) else label


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


class Calculators:
    """The three ways to average, and the comparison of every way with fractions."""

    def __init__(self, **options):
        self.plain = AccuracyCalculator(include=NAMES, **options)
        self.by_class = AccuracyCalculator(include=NAMES, return_per_class=True, **options)
        self.of_classes = AccuracyCalculator(include=NAMES, avg_of_avgs=True, **options)

    def check(self, given, values, classes, number, *, fully):
        found = self.plain.get_accuracy(*given)
        if not classes:
            assert all(np.isnan(value) for value in found.values()), number
            return
        scored = [value for value in values if value]
        for name in NAMES:
            assert found[name] == float(mean(value[name] for value in scored)), (number, name)
        if not fully:
            return
        means = {name: [mean(value[name] for value in members) for members in classes] for name in NAMES}
        found = self.by_class.get_accuracy(*given)
        assert found == {name: [float(value) for value in means[name]] for name in NAMES}, number
        found = self.of_classes.get_accuracy(*given)
        assert found == {name: float(mean(means[name])) for name in NAMES}, number
        found = self.plain.get_per_query(*given)
        for name in NAMES:
            each = [float(value[name]) if value else np.nan for value in values]
            np.testing.assert_array_equal(found[name], each, err_msg=f"{number} {name}")


@pytest.mark.rule("A-1", "A-2", "A-3", "A-8", "A-9")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("k", [None, 1, 3, "max_bin_count"])
def test_equals_exact_fractions(fused, k, rng):
    calculators = Calculators(k=k, knn_func=None if fused else Foreign())
    for number in range(500 if fused else 100):
        case = random_case(rng)
        given = as_given(case, [np.float32, np.float64][number % 2])
        calculators.check(given, *expected(*case, k), number, fully=number % 5 == 0)


# Neither in the order of their numbers nor in that of the alphabet; two differ by a character that NumPy's own
# strings drop, two by their case, two only in how they are composed.
NAMED = ["dog", "10", "9", "a", "a\0", "A", "", "\u00e9", "e\u0301", "\U0001f436"]


@pytest.mark.rule("A-27", "A-3", "A-8")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("k", [None, 2, "max_bin_count"])
def test_strings_equal_exact_fractions(fused, k, rng):
    calculators = Calculators(k=k, knn_func=None if fused else Foreign())
    kinds = [list, tuple, lambda names: np.array(names, dtype=object), np.array]
    for number in range(150):
        query, labels, reference, reference_labels, includes = random_case(rng)
        kind = kinds[number % 4]
        names = rng.permutation(
            np.array([name for name in NAMED if kind is not np.array or name != "a\0"], dtype=object)
        )
        own, theirs = ([str(names[label]) for label in side] for side in (labels, reference_labels))
        values = expected(query, own, reference, theirs, includes, k)
        rows = query.astype(np.float32), reference.astype(np.float32)
        if number % 3 == 0:
            rows = tuple(torch.from_numpy(side) for side in rows)
        calculators.check((rows[0], kind(own), rows[1], kind(theirs), includes), *values, number, fully=number % 2)


def near(x, y):
    """Not transitive: 0 is near 1, and 1 near 2."""
    return abs(x - y) <= 1


def below(x, y):
    """Not symmetric, and no label matches itself."""
    return x < y


def shared(x, y):
    """One of several marks in common; a label without marks does not match itself."""
    return ((x > 0) & (y > 0)).any(-1)


def same_but_other(x, y):
    return (x[..., 0] == y[..., 0]) & (x[..., 1] != y[..., 1])


@pytest.mark.rule("A-19", "A-21", "A-22", "A-3", "A-8")
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("k", [None, 2, "max_bin_count"])
@pytest.mark.parametrize(
    ("compare", "columns"), [(operator.eq, 0), (near, 0), (below, 0), (shared, 3), (same_but_other, 2)]
)
def test_compared_labels_equal_exact_fractions(compare, columns, k, kind, rng):
    calculators = Calculators(k=k, label_comparison_fn=compare)
    for number in range(60):
        query, labels, reference, reference_labels, includes = random_case(rng)
        if columns:
            reference_labels = rng.integers(0, 2, (len(reference), columns))
            labels = reference_labels[: len(query)] if includes else rng.integers(0, 2, (len(query), columns))
        if number % 2:
            labels, reference_labels = labels * 0.5, reference_labels * 0.5
        values = expected(query, labels, reference, reference_labels, includes, k, compare)
        sides = query.astype(np.float32), labels, reference.astype(np.float32), reference_labels
        calculators.check((*map(kind, sides), includes), *values, number, fully=number % 2)


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
