"""`select_threshold`: the worked examples, what it refuses, and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from nearwise.distances import CosineSimilarity
from nearwise.evaluation import (
    MatchCounts,
    MatchFinder,
    match_accuracy,
    match_balanced_accuracy,
    match_f1,
    match_f_beta,
    match_mcc,
    match_youden,
    select_threshold,
    threshold_curve,
)

INF = float("inf")
NAN = float("nan")
ONE_UP = float(np.nextafter(np.float32(1), np.float32(2)))
KINDS = [np.asarray, torch.as_tensor]


def bools(text):
    return np.array([letter == "T" for letter in text])


# id, scores, dtype, labels, is_inverted, thresholds, {metric: (threshold, value)}
EXAMPLES = [
    ("ST-1", [1, 2, 4, 8], "float64", "TTFF", False, [-INF, 1.5, 3, 6, 8],
     {match_accuracy: (3, 1), match_balanced_accuracy: (3, 1), match_f1: (3, 1)}),
    ("ST-2", [8, 4, 2, 1], "float64", "TFTF", True, [INF, 6, 3, 1.5, 1],
     {match_accuracy: (6, 0.75), match_f1: (1.5, 0.8)}),
    ("ST-3", [1, 2, 3, 4], "float64", "TFTF", False, [-INF, 1.5, 2.5, 3.5, 4],
     {match_accuracy: (1.5, 0.75), match_f1: (3.5, 0.8)}),
    ("ST-4", [1, 1, 2, 2], "float64", "TFTF", False, [-INF, 1.5, 2],
     {match_accuracy: (-INF, 0.5), match_f1: (2, 2 / 3)}),
    ("ST-5", [3, 3], "float64", "TF", True, [INF, 3], {match_accuracy: (INF, 0.5), match_f1: (3, 2 / 3)}),
    ("ST-6", [1, 2, 3, 4, 5], "float64", "FFFFT", False, [-INF, 1.5, 2.5, 3.5, 4.5, 5],
     {match_accuracy: (-INF, 0.8), match_balanced_accuracy: (-INF, 0.5), match_f1: (5, 1 / 3)}),
    ("ST-7", [1, 2, 3, 4, 5], "float64", "TTFTT", False, [-INF, 1.5, 2.5, 3.5, 4.5, 5],
     {match_accuracy: (5, 0.8), match_balanced_accuracy: (2.5, 0.75), match_f1: (5, 8 / 9)}),
    ("ST-8", [1, ONE_UP], "float32", "TF", False, [-INF, 1, 1.0000001192092896], {match_accuracy: (1, 1)}),
    ("ST-9", [ONE_UP, 1], "float32", "TF", True, [INF, 1.0000001192092896, 1],
     {match_accuracy: (1.0000001192092896, 1)}),
    ("ST-10", [1.0009765625, 1], "float16", "TF", True, [INF, 1.0009765625, 1], {match_accuracy: (1.0009765625, 1)}),
    ("ST-11", [1e308, 1.7e308], "float64", "TF", False, [-INF, 1.35e308, 1.7e308], {match_accuracy: (1.35e308, 1)}),
    ("ST-12", [-0.0, 0.0, 1.0], "float64", "TTF", False, [-INF, 0.5, 1], {match_accuracy: (0.5, 1)}),
    ("ST-19", [1, 2, 3, 4, 5, 6, 7, 8], "float64", "FFTFFFTF", False,
     [-INF, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8], {match_balanced_accuracy: (3.5, 7 / 12)}),
]  # fmt: skip


def marked(example):
    return pytest.param(*example[1:], id=example[0], marks=pytest.mark.rule(example[0]))


@pytest.mark.rule("I-2", "I-4")
@pytest.mark.parametrize(
    ("scores", "dtype", "labels", "is_inverted", "thresholds", "chosen"), [marked(example) for example in EXAMPLES]
)
@pytest.mark.parametrize("kind", KINDS)
def test_worked_example(scores, dtype, labels, is_inverted, thresholds, chosen, kind):
    given, classes = kind(np.array(scores, dtype=dtype)), kind(bools(labels))
    assert threshold_curve(given, classes, is_inverted=is_inverted).thresholds.tolist() == thresholds
    for metric, (threshold, value) in chosen.items():
        selection = select_threshold(given, classes, metric, is_inverted=is_inverted)
        assert selection == (threshold, value)
        assert [type(part) for part in selection] == [float, float]
        assert (
            select_threshold(given, classes, lambda counts, m=metric: m(counts), is_inverted=is_inverted) == selection
        )


COSINES = np.array([0.9950372, 0.9950372, 0.70710677, -0.44721359], dtype=np.float32)


@pytest.mark.rule("ST-13")
def test_a_threshold_of_cosines_reproduces_the_labels():
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/733: a threshold from validation data."""
    query = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    reference = torch.tensor([[1.0, 0.1], [0.3, 1.0], [0.2, 1.0], [0.0, -1.0]])
    labels = torch.tensor([True, True, False, False])
    cosine = CosineSimilarity()
    scores = cosine.pairwise(query, reference)
    assert scores.tolist() == pytest.approx([0.9950372, 0.95782626, 0.19611613, -1.0])
    selection = select_threshold(scores, labels, match_f1, is_inverted=True)
    assert selection == (pytest.approx(0.5769712), 1.0)
    assert torch.equal(MatchFinder(cosine, selection.threshold).is_match(query, reference), labels)
    curve = threshold_curve(scores, labels, is_inverted=True)
    assert match_f1(curve.counts).tolist() == pytest.approx([0, 2 / 3, 1, 0.8, 2 / 3])


@pytest.mark.rule("ST-14")
def test_tied_cosines_stay_together():
    selection = select_threshold(COSINES, bools("TTFF"), match_f1, is_inverted=True)
    assert selection == (pytest.approx(0.851072), 1.0)
    assert [score >= selection.threshold for score in COSINES] == [True, True, False, False]


@pytest.mark.rule("ST-15")
def test_candidates_whose_metric_is_nan_are_skipped():
    def constrained(counts):
        assert all(isinstance(count, torch.Tensor) for count in counts)
        rate = counts.false_positives / (counts.false_positives + counts.true_negatives)
        recall = counts.true_positives / (counts.true_positives + counts.false_negatives)
        return torch.where(rate <= 0.01, recall, torch.full_like(recall, NAN))

    assert select_threshold(COSINES, bools("TTFF"), constrained, is_inverted=True) == (pytest.approx(0.851072), 1.0)


@pytest.mark.rule("I-4")
@pytest.mark.parametrize(
    ("values", "chosen"),
    [([NAN, -INF, -INF], 1.5), ([NAN, INF, INF], 1.5), ([0.0, NAN, 0.5], 2.0), ([NAN, NAN, -3.0], 2.0)],
)
def test_nan_never_wins_against_a_number(values, chosen):
    scores, labels = np.array([1.0, 2.0]), bools("TF")
    assert select_threshold(scores, labels, lambda _: np.array(values), is_inverted=False).threshold == chosen


@pytest.mark.rule("ST-16", "I-1")
@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda c: torch.full_like(c.true_positives, NAN), "allows no threshold: it is NaN for every candidate"),
        (lambda c: 0.5, r"one value per candidate, shape \(4,\), got shape \(\)"),
        (lambda c: c.true_positives[:, None], r"got shape \(4, 1\)"),
        (lambda c: c.true_positives[1:], r"got shape \(3,\)"),
    ],
)
def test_a_metric_of_another_shape_is_refused(result, message):
    with pytest.raises(ValueError, match=message):
        select_threshold(np.array([1.0, 2.0, 3.0]), bools("TFT"), result, is_inverted=False)


@pytest.mark.parametrize("metric", ["f1", None, 3])
def test_a_metric_that_cannot_be_called_is_refused(metric):
    with pytest.raises(TypeError, match="metric must be a callable"):
        select_threshold(np.array([1.0, 2.0]), bools("TF"), metric, is_inverted=False)


def test_a_metric_of_something_else_than_numbers_is_refused():
    with pytest.raises(TypeError, match="metric must return real numbers"):
        select_threshold(np.array([1.0, 2.0]), bools("TF"), lambda c: ["a", "b", "c"], is_inverted=False)


GOOD, CLASSES = [1.0, 2.0, 3.0], [True, False, True]


@pytest.mark.rule("I-1")
@pytest.mark.parametrize("metric", [match_f1, lambda counts: counts.true_positives])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([GOOD], CLASSES, r"scores must have 1 dimension, got shape \(1, 3\)"),
        (np.array([1, 2, 3]), CLASSES, "scores must have a floating dtype .*, got int64"),
        ([1.0, NAN, 3.0], CLASSES, "scores must be finite, got NaN at index 1"),
        ([1.0, 2.0, -INF], CLASSES, "scores must be finite, got -inf at index 2"),
        (np.array([]), np.array([], dtype=bool), "scores must be at least one number, got none"),
        (GOOD, [1, 0, 1], "labels must have dtype bool, got int64 of 0 and 1; pass labels == 1"),
        (GOOD, [1.0, 0.0, 1.0], "labels must have dtype bool, got float64 of 0 and 1"),
        (GOOD, [-1, 1, 1], "got int64 with the values -1 and 1; pass labels > 0"),
        (GOOD, [-1, 0, 1], "got int64 with the values -1 and 1"),
        (GOOD, [1, 2, 2], "got int64 from 1 to 2; pass labels == whatever means a match"),
        (GOOD, [True, True, True], "labels must be partly True and partly False, got 3 True and 0 False"),
        (GOOD, [False, False, False], "got 0 True and 3 False"),
        (GOOD, [True, False], "labels must be as many as the scores, got 2 labels for 3 scores"),
        (GOOD, [CLASSES], r"labels must have 1 dimension, got shape \(1, 3\)"),
    ],
)
def test_wrong_scores_and_labels_are_named(scores, labels, message, metric, kind):
    with pytest.raises(ValueError, match=message):
        select_threshold(kind(np.array(scores)), kind(np.array(labels)), metric, is_inverted=False)


@pytest.mark.rule("I-1")
def test_labels_that_are_words_are_refused_with_advice():
    with pytest.raises(
        ValueError, match=r"labels must have dtype bool, got str.*pass labels == whatever means a match"
    ):
        select_threshold(np.array(GOOD), np.array(["same", "diff", "same"]), match_f1, is_inverted=False)


@pytest.mark.rule("G-12", "I-1")
@pytest.mark.parametrize("argument", [0, 1])
def test_lists_are_refused(argument):
    arguments = [np.array(GOOD), np.array(CLASSES)]
    arguments[argument] = arguments[argument].tolist()
    name = ["scores", "labels"][argument]
    with pytest.raises(TypeError, match=f"{name} must be a NumPy array or a torch tensor of .*, got list"):
        select_threshold(*arguments, match_f1, is_inverted=False)


@pytest.mark.rule("I-1")
def test_the_direction_is_a_keyword_and_a_bool():
    with pytest.raises(TypeError):
        select_threshold(np.array(GOOD), np.array(CLASSES), match_f1, False)
    with pytest.raises(TypeError, match="is_inverted must be a bool, got 1"):
        select_threshold(np.array(GOOD), np.array(CLASSES), match_f1, is_inverted=1)
    with pytest.raises(TypeError):
        select_threshold(np.array(GOOD), np.array(CLASSES), match_f1)


@pytest.mark.rule("G-2", "I-1")
def test_scores_and_labels_may_be_of_different_kinds_and_carry_a_graph():
    expected = (2.5, pytest.approx(2 / 3))
    labels = bools("TFT")
    scores = torch.tensor([3.0, 2.0, 1.0], requires_grad=True)
    for given, classes in [(scores, labels), (scores.detach().numpy(), torch.from_numpy(labels))]:
        assert select_threshold(given, classes, match_accuracy, is_inverted=True) == expected
    assert scores.grad is None
    assert scores.requires_grad


@pytest.mark.rule("G-12", "I-3")
@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_that_writes_into_its_counts_changes_nothing(kind):
    scores, labels = kind(np.array([0.5, 0.25, 0.125, 0.0])), kind(bools("TFTF"))
    before = scores.tolist(), labels.tolist()

    def vandal(counts):
        value = match_f1(counts)
        for count in counts:
            count[:] = -1
        return value

    plain = select_threshold(scores, labels, match_f1, is_inverted=True)
    assert select_threshold(scores, labels, vandal, is_inverted=True) == plain
    assert (scores.tolist(), labels.tolist()) == before


@pytest.mark.rule("I-3")
def test_counts_are_four_float64_cpu_tensors_and_the_metric_is_called_once():
    seen = []

    def spy(counts):
        seen.append(counts)
        return match_f1(counts)

    select_threshold(np.array([8.0, 4, 2, 1], dtype=np.float16), bools("TFTF"), spy, is_inverted=True)
    (counts,) = seen
    assert isinstance(counts, MatchCounts)
    assert counts._fields == ("true_positives", "false_positives", "true_negatives", "false_negatives")
    assert [count.tolist() for count in counts] == [[0, 1, 1, 2, 2], [0, 0, 1, 1, 2], [2, 2, 1, 1, 0], [2, 1, 1, 0, 0]]
    assert {(count.dtype, count.device.type, count.ndim) for count in counts} == {(torch.float64, "cpu", 1)}


def test_without_torch_the_metric_gets_numpy_arrays():
    program = """
import sys
sys.modules["torch"] = None
import numpy as np
from nearwise.evaluation import match_f1, select_threshold, match_mcc, recall_at_false_match_rate
seen = []
def metric(counts):
    seen.extend(type(count).__name__ + str(count.dtype) for count in counts)
    return match_f1(counts)
scores, labels = np.array([1.0, 2.0, 3.0]), np.array([True, False, True])
chosen = [select_threshold(scores, labels, each, is_inverted=False) for each in (metric, match_f1)]
print(chosen[0] == chosen[1], set(seen))
print(select_threshold(scores, labels, recall_at_false_match_rate(0.0), is_inverted=False))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "True {'ndarrayfloat64'}",
        "ThresholdSelection(threshold=1.5, value=0.5)",
    ]


def test_a_built_in_metric_does_not_import_torch():
    program = """
import sys, numpy as np
from nearwise.evaluation import match_f1, select_threshold
select_threshold(np.array([1.0, 2.0]), np.array([True, False]), match_f1, is_inverted=False)
print("torch" in sys.modules)
"""
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )


LAYOUTS = {
    "reversed": lambda a: a[::-1].copy()[::-1],
    "every second": lambda a: np.repeat(a, 2)[::2],
    "column": lambda a: np.asfortranarray(np.stack([a, a], axis=1))[:, 1],
    "column of rows": lambda a: np.stack([a, a], axis=1)[:, 1],
    "read-only": lambda a: np.frombuffer(a.tobytes(), dtype=a.dtype),
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), dtype=a.dtype, offset=1),
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "subclass": lambda a: a.view(type("Array", (np.ndarray,), {})),
}


@pytest.mark.rule("I-1")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_memory_layout_gives_the_same(layout, dtype, rng):
    scores, labels = rng.normal(size=50).astype(dtype), rng.random(50) < 0.5
    plain = select_threshold(scores, labels, match_f1, is_inverted=False)
    given = LAYOUTS[layout](scores)
    classes = LAYOUTS[layout](labels)
    assert given.tolist() == scores.tolist()
    assert select_threshold(given, classes, match_f1, is_inverted=False) == plain
    # One number seen many times through a stride of zero.
    constant = np.broadcast_to(scores[:1], 50)
    assert select_threshold(constant, labels, match_f1, is_inverted=False).threshold == scores[0]


def test_masked_arrays_are_refused():
    with pytest.raises(TypeError, match="got MaskedArray"):
        select_threshold(np.ma.array(GOOD, mask=[0, 1, 0]), np.array(CLASSES), match_f1, is_inverted=False)


def test_bfloat16_comes_as_a_tensor_or_as_an_array_of_ml_dtypes():
    import ml_dtypes

    scores = torch.tensor([1.0, 1.0078125, 1.015625, -3.0], dtype=torch.bfloat16)
    array = np.array(scores.tolist(), dtype=ml_dtypes.bfloat16)
    labels = bools("TFFT")
    chosen = select_threshold(scores, labels, match_f1, is_inverted=False)
    assert chosen == (1.0, 1.0), "1 and its neighbour have nothing between them"
    assert select_threshold(array, labels, match_f1, is_inverted=False) == chosen
    with pytest.raises(ValueError, match=r"scores must have a floating dtype .*, got uint16"):
        select_threshold(array.view(np.uint16), labels, match_f1, is_inverted=False)


@pytest.mark.rule("I-4")
def test_neither_the_order_of_rows_nor_threads_change_the_selection(rng, monkeypatch):
    size = 300_000
    labels = rng.random(size) < 0.4
    scores = (rng.normal(size=size) + labels).astype(np.float32).round(2)
    metrics = [match_accuracy, match_balanced_accuracy, match_f1, match_f_beta(2), match_youden, match_mcc]
    chosen = [select_threshold(scores, labels, metric, is_inverted=True) for metric in metrics]
    shuffled = rng.permutation(size)
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("NEARWISE_NUM_THREADS", threads)
        again = [select_threshold(scores[shuffled], labels[shuffled], metric, is_inverted=True) for metric in metrics]
        assert again == chosen


def test_other_threads_run_meanwhile(rng):
    scores, labels = rng.random(4_000_000), rng.random(4_000_000) < 0.5
    steps, done = [0], threading.Event()

    def count():
        while not done.is_set():
            steps[0] += 1

    counter = threading.Thread(target=count)
    counter.start()
    before = steps[0]
    select_threshold(scores, labels, match_balanced_accuracy, is_inverted=True)
    after = steps[0]
    done.set()
    counter.join()
    # Holding the interpreter lock, the call would let the counter run for a switch interval or two.
    assert after - before > 1000


@pytest.mark.rule("ST-17")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_infinite_thresholds_survive_json_and_accept_nothing(dtype):
    scores = np.array([1, 2, 3], dtype=dtype)
    for is_inverted in (False, True):
        labels = bools("FTF")
        threshold, value = select_threshold(scores, labels, match_accuracy, is_inverted=is_inverted)
        assert json.loads(json.dumps(threshold)) == (INF if is_inverted else -INF)
        assert value == 2 / 3
        matches = scores >= threshold if is_inverted else scores <= threshold
        assert not matches.any()


@pytest.mark.rule("G-2")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_scores_on_a_gpu_and_labels_on_the_cpu():
    scores = torch.tensor([1.0, 2.0, 4.0, 8.0], device="cuda")
    assert select_threshold(scores, bools("TTFF"), match_f1, is_inverted=False) == (3.0, 1.0)


@pytest.mark.rule("ST-17", "I-2")
@pytest.mark.parametrize("metric", [match_f1, lambda counts: match_f1(counts)])
def test_subnormal_scores_survive_a_thread_that_flushes_them(metric):
    scores, labels = np.array([1e-40, 3e-40, 5e-40], dtype=np.float32), bools("FTT")
    expected = select_threshold(scores, labels, metric, is_inverted=True)
    assert 1e-40 < expected.threshold < 3e-40
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU does not flush")
    try:
        flushed = select_threshold(scores, labels, metric, is_inverted=True)
    finally:
        torch.set_flush_denormal(False)
    assert flushed == expected
