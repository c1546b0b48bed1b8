"""AccuracyCalculator: what it takes, what it refuses, and how labels are told apart."""

import gc
import weakref

import numpy as np
import pytest
import torch

from nearwise.evaluation import AccuracyCalculator, CustomKNN

LINE = np.array([[0.0], [1.0], [3.0], [7.0], [15.0], [31.0]])
LABELS = np.array([0, 0, 0, 0, 1, 1])
FIRST = AccuracyCalculator(include=("precision_at_1",))


def first(*given):
    return FIRST.get_accuracy(*given)["precision_at_1"]


@pytest.mark.rule("A-11")
def test_without_reference_the_query_is_its_own():
    assert AccuracyCalculator().get_accuracy(LINE, LABELS) == AccuracyCalculator().get_accuracy(
        LINE, LABELS, LINE.copy(), LABELS.copy(), True
    )
    with pytest.raises(ValueError, match="reference_labels must be left out"):
        FIRST.get_accuracy(LINE, LABELS, None, LABELS)
    with pytest.raises(ValueError, match="reference_labels must be given"):
        FIRST.get_accuracy(LINE, LABELS, LINE)


@pytest.mark.rule("A-12")
def test_a_reference_that_includes_the_query_starts_with_it():
    query, labels = np.array([[0.0], [10], [20]]), np.array([0, 1, 2])
    mixed, mixed_labels = np.array([[0.0], [5], [10], [15], [20]]), np.array([0, 0, 1, 1, 2])
    with pytest.raises(ValueError, match="row 1 differs"):
        first(query, labels, mixed, mixed_labels, True)
    first(query, labels, mixed, mixed_labels, False)
    ordered, ordered_labels = np.array([[0.0], [10], [20], [5], [15]]), np.array([0, 1, 2, 0, 1])
    first(query, labels, ordered, ordered_labels, True)
    first(torch.tensor(query), torch.tensor(labels), torch.tensor(ordered), torch.tensor(ordered_labels), True)
    with pytest.raises(ValueError, match="reference_labels must start with query_labels"):
        first(query, labels, ordered, np.array([0, 1, 3, 0, 1]), True)
    with pytest.raises(ValueError, match="3 query rows and 2 reference rows"):
        first(query, labels, query[:2], labels[:2], True)
    # Nearly equal is not equal.
    with pytest.raises(ValueError, match="row 2 differs"):
        first(query, labels, ordered + np.array([[0], [0], [1e-12], [0], [0]]), ordered_labels, True)


@pytest.mark.rule("A-12")
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_nan_is_called_nan(kind):
    rows = kind(np.array([[0.0], [np.nan]], dtype=np.float32))
    for given in [(rows, [0, 0]), (rows, [0, 0], rows, [0, 0], True)]:
        with pytest.raises(ValueError, match="query must not contain NaN, found NaN in row 1"):
            first(*given)
    with pytest.raises(ValueError, match="reference must not contain NaN"):
        first(rows[:1], [0], rows, [0, 0])


def test_infinity_is_no_error():
    assert first(np.array([[0.0], [1.0], [np.inf]]), [0, 0, 1]) == 1.0


@pytest.mark.rule("A-13")
def test_lengths_and_names_are_checked():
    with pytest.raises(ValueError, match="query and query_labels must have the same length, got 6 and 5"):
        first(LINE, LABELS[:5])
    with pytest.raises(ValueError, match="reference and reference_labels must have the same length"):
        first(LINE, LABELS, LINE, LABELS[:5])
    for argument in ("include", "exclude"):
        with pytest.raises(TypeError, match=f"{argument} must be a tuple or list"):
            AccuracyCalculator(**{argument: "precision_at_1"})
        with pytest.raises(TypeError, match=f"{argument} must be a tuple or list"):
            FIRST.get_accuracy(LINE, LABELS, **{argument: "precision_at_1"})
        for name in ("precision_at_0", "precision", "nmi", "recall_at_-1"):
            with pytest.raises(ValueError, match=name):
                AccuracyCalculator(**{argument: (name,)})
            with pytest.raises(ValueError, match=name):
                FIRST.get_accuracy(LINE, LABELS, **{argument: (name,)})
    with pytest.raises(ValueError, match="r_precision"):
        FIRST.get_accuracy(LINE, LABELS, include=("r_precision",))
    without = AccuracyCalculator(exclude=("r_precision",))
    with pytest.raises(ValueError, match="r_precision"):
        without.get_accuracy(LINE, LABELS, include=("r_precision",))
    assert FIRST.get_accuracy(LINE, LABELS, exclude=("precision_at_1",)) == {}


@pytest.mark.rule("A-14", "X12")
@pytest.mark.parametrize("base", [1 << 24, 1 << 53, (1 << 62) + 1, -(1 << 40)])
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor, list])
def test_neighbouring_large_labels_differ(base, kind):
    query, reference = np.array([[0.0], [10.0]]), np.array([[1.0], [2.0], [4.0], [8.0]])
    if kind is torch.tensor:
        query, reference = torch.tensor(query), torch.tensor(reference)
    labels = kind([base, base + 1]), kind([base + 1, base, base, base + 1])
    assert first(query, labels[0], reference, labels[1]) == 0.5


@pytest.mark.rule("A-14")
def test_numbers_are_equal_by_value_whatever_their_type():
    query, reference = np.array([[0.0], [10.0]]), np.array([[1.0], [9.0]])
    unsigned = np.array([(1 << 63) + 1, 1], dtype=np.uint64)
    for own, theirs, expected in [
        ([1, 2], np.array([1.0, 2.0]), 1.0),
        (np.array([1, 2], dtype=np.uint8), np.array([1, 2], dtype=np.int64), 1.0),
        (np.array([True, False]), [1, 0], 1.0),
        (unsigned, [-(1 << 62), 1], 1.0),
        (unsigned, unsigned, 1.0),
        ([(1 << 53) + 1, 1], np.array([float(1 << 53), 1.0]), 1.0),
        ([1.5, 2.5], np.array([1.5, 2.5], dtype=np.float32), 1.0),
        (np.array([1 << 70, 1], dtype=object), np.array([(1 << 70) + 1, 1], dtype=object), 1.0),
        ([0.1, 2], np.array([0.1, 2], dtype=np.float32), 1.0),
    ]:
        found = AccuracyCalculator().get_per_query(query, own, reference, theirs)["precision_at_1"]
        assert np.nanmean(found) == expected
    # The first of these pairs is no pair: only the second query counts.
    for own, theirs in [
        (unsigned, np.array([-(1 << 62), 1])),
        ([(1 << 53) + 1, 1], np.array([float(1 << 53), 1.0])),
        (np.array([1 << 70, 1], dtype=object), np.array([(1 << 70) + 1, 1], dtype=object)),
        (np.array([0.1, 2]), np.array([0.1, 2], dtype=np.float32)),
    ]:
        found = AccuracyCalculator().get_per_query(query, own, reference, theirs)["precision_at_1"]
        assert np.isnan(found).tolist() == [True, False]


@pytest.mark.rule("A-14", "X12")
def test_float64_embeddings_stay_float64_and_integers_become_float32():
    seen = []

    def knn(query, k, reference, ref_includes_query):
        seen.append((query.dtype, reference.dtype))
        return None, torch.zeros((len(query), k), dtype=torch.long)

    calculator = AccuracyCalculator(include=("precision_at_1",), knn_func=knn)
    for rows in [LINE, LINE.astype(np.int64), LINE.astype(np.float16)]:
        calculator.get_accuracy(rows, LABELS)
        calculator.get_accuracy(torch.tensor(rows), torch.tensor(LABELS))
    expected = [torch.float64, torch.float32, torch.float16]
    assert seen == [(dtype, dtype) for dtype in expected for _ in range(2)]
    # 1 + 2^-40 is nearer to 1 than 1 + 2^-39 is, which float32 cannot tell.
    close = np.array([[1.0], [1 + 2.0**-39], [1 + 2.0**-40]])
    assert first(close[:1], [0], close[1:], [1, 0]) == 1.0


@pytest.mark.rule("A-27")
@pytest.mark.parametrize("kind", [np.array, lambda x: np.array(x, dtype=object), list, tuple])
def test_labels_may_be_strings(kind):
    names = ["dog", "dog", "dog", "dog", "cat", "cat"]
    for rows in (LINE, torch.tensor(LINE)):
        found = AccuracyCalculator(return_per_class=True).get_accuracy(rows, kind(names))
        # "cat" comes first.
        assert found["mean_average_precision"] == [0.6, 1.0]
    assert AccuracyCalculator().get_accuracy(LINE, kind(names)) == AccuracyCalculator().get_accuracy(LINE, LABELS)


@pytest.mark.rule("A-27")
def test_strings_are_compared_whole_and_not_with_numbers():
    query, reference = LINE[:1], LINE[1:3]
    assert first(query, ["a"], reference, ["a\0", "a"]) == 0.0
    with pytest.raises(TypeError, match="must both be strings or both be numbers"):
        first(query, ["1"], reference, [1, 2])
    with pytest.raises(TypeError, match="must all be strings or all be numbers"):
        first(LINE[:2], ["a", 1])
    with pytest.raises(ValueError, match="query_labels must not contain NaN"):
        first(LINE[:2], [0.0, float("nan")])


@pytest.mark.rule("A-27")
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_a_vector_of_embeddings_is_refused_by_its_shape(kind):
    with pytest.raises(ValueError, match=r"got shape \(6,\)"):
        first(kind(LINE[:, 0]), kind(LABELS))
    with pytest.raises(ValueError, match=r"one label per row, got shape \(\)"):
        first(kind(LINE[:1]), kind(LABELS[:1]).reshape(()))
    with pytest.raises(ValueError, match=r"label_comparison_fn compares them, got shape \(6, 2\)"):
        first(LINE, np.zeros((6, 2)))
    assert first(LINE, LABELS[:, None]) == 5 / 6


@pytest.mark.rule("G-2")
def test_kinds_are_not_mixed():
    tensors = torch.tensor(LINE), torch.tensor(LABELS)
    for given in [(LINE, tensors[1]), (tensors[0], LABELS), (LINE, LABELS, *tensors), (*tensors, LINE, tensors[1])]:
        with pytest.raises(TypeError, match=r"torch on cpu|numpy on cpu"):
            first(*given)
    meta = tensors[0].to("meta")
    with pytest.raises(ValueError, match="torch on cpu and torch on meta"):
        first(*tensors, meta, tensors[1])


@pytest.mark.rule("A-16")
def test_device_may_be_a_string():
    for device in ("cpu", torch.device("cpu"), None):
        calculator = AccuracyCalculator(include=("precision_at_1",), device=device)
        assert calculator.get_accuracy(LINE, LABELS)["precision_at_1"] == 5 / 6
        assert calculator.get_accuracy(torch.tensor(LINE), torch.tensor(LABELS))["precision_at_1"] == 5 / 6
    with pytest.raises(TypeError, match="device must be"):
        AccuracyCalculator(device=3)


@pytest.mark.rule("A-18")
def test_nothing_of_a_call_is_kept():
    kept = []

    def knn(query, k, reference, ref_includes_query):
        distances, indices = torch.zeros((len(query), k)), torch.zeros((len(query), k), dtype=torch.long)
        kept.extend(weakref.ref(each) for each in (distances, indices))
        return distances, indices

    class Custom(AccuracyCalculator):
        def calculate_own(self, knn_labels, **kwargs):
            kept.append(weakref.ref(knn_labels))
            return 0.0

        def requires_knn(self):
            return [*super().requires_knn(), "own"]

    calculator = Custom(knn_func=knn)
    calculator.get_accuracy(LINE, LABELS)
    gc.collect()
    assert len(kept) == 3
    assert [each() for each in kept] == [None] * 3


def test_inputs_are_left_as_they_are():
    rows = torch.tensor(LINE, requires_grad=True)
    before = rows.detach().clone()
    FIRST.get_accuracy(rows, torch.tensor(LABELS))
    assert torch.equal(rows.detach(), before)
    read_only = LINE[::-1].copy()[::-1]
    read_only.flags.writeable = False
    assert first(read_only, LABELS) == 5 / 6
    foreign = AccuracyCalculator(label_comparison_fn=lambda x, y: x == y)
    assert foreign.get_accuracy(read_only, LABELS[::-1])["precision_at_1"] == 5 / 6


def test_progress_is_told_while_neighbours_are_sought():
    def distance(query, reference):
        return query @ reference.T

    distance.is_inverted = True
    told = []
    calculator = AccuracyCalculator(include=["precision_at_1"], knn_func=CustomKNN(distance, batch_size=2))
    rows, labels = torch.arange(5.0)[:, None], torch.tensor([0, 1, 0, 1, 0])
    calculator.get_accuracy(rows, labels, progress=lambda *at: told.append(at))
    assert told == [(2, 5), (4, 5), (5, 5)]
