"""Rows of the table about thresholds: a built-in metric (T1), a metric of one's own (T2), a small sample (T3)."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nearwise.evaluation import match_accuracy, match_balanced_accuracy, match_f1, match_mcc, select_threshold
from rounds import Row, Target, Work

METRICS = {
    "accuracy": match_accuracy,
    "balanced accuracy": match_balanced_accuracy,
    "F1": match_f1,
    "correlation": match_mcc,
}
OWN_MEMORY = {
    "float32 own": "nine in ten distinct; at most 40 for each distinct one",
    "float64 own": "all distinct, at most 40",
}
SMALL = 1000
CALLS = 1000
# What a process needs beyond its inputs, by the kernel's own account of its highest memory. The metric of one's own
# allocates what its arithmetic does; its share is measured apart by calling it on counts of the same size.
MEMORY = """
import resource, sys
import numpy as np
from nearwise.evaluation import match_balanced_accuracy, select_threshold
size, kind = int(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
scores, labels = rng.random(size), rng.random(size) < 0.5
scores = (scores**20 if kind == "float32" else scores).astype(kind.split()[0])
def mine(counts):
    return counts.true_positives
metric = mine if kind.endswith("own") else match_balanced_accuracy
select_threshold(scores[:1000], labels[:1000], metric, is_inverted=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
# Memory that NumPy has given back would hide what the call takes: fill up to the highest so far.
with open("/proc/self/status") as file:
    now = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
filler = np.ones(max(0, before - now) * 128)
select_threshold(scores, labels, metric, is_inverted=True)
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / size)
"""


def rows() -> list[Row]:
    """Every row, with what must be reached on any CPU."""
    return [
        Row("T1", "select_threshold, 10,000,000 float32 scores, built-in metrics", _built_in),
        Row("T2", "select_threshold, 10,000,000 float32 scores, a metric of one's own", _own),
        Row(
            "T3",
            f"{CALLS:,} x select_threshold, {SMALL:,} float32 scores: milliseconds are microseconds a call",
            _small,
        ),
    ]


def _pairs(size: int) -> tuple[Any, Any]:
    """Normal scores of two classes a standard deviation apart."""
    generator = np.random.default_rng(0)
    labels = generator.random(size) < 0.5
    return (generator.standard_normal(size, dtype=np.float32) + labels).astype(np.float32), labels


def _must(ratio: float) -> dict[str, float]:
    return {"VNNI": ratio, "AVX2": ratio}


def _peers(scores: Any, labels: Any) -> dict[str, Callable[[], object]]:
    import torch
    from sklearn.metrics import roc_curve
    from torchmetrics.functional.classification import binary_precision_recall_curve

    # In the unit interval, or torchmetrics would take the scores for logits.
    low, high = scores.min(), scores.max()
    tensors = torch.from_numpy((scores - low) / (high - low)), torch.from_numpy(labels.astype(np.int64))
    return {
        "scikit-learn roc_curve": lambda: roc_curve(labels, scores),
        "torchmetrics PR curve": lambda: binary_precision_recall_curve(*tensors),
        "np.sort": lambda: np.sort(scores),
    }


def _built_in(threads: int, quick: bool) -> Work:
    os.environ["NEARWISE_NUM_THREADS"] = str(threads)
    scores, labels = _pairs(10**6 if quick else 10**7)
    ours = {
        name: partial(select_threshold, scores, labels, metric, is_inverted=True) for name, metric in METRICS.items()
    }
    guess = np.random.default_rng(1).random(len(labels)) < 0.5
    ours["F1, labels at random"] = partial(select_threshold, scores, guess, match_f1, is_inverted=True)
    ours["accuracy, labels at random"] = partial(select_threshold, scores, guess, match_accuracy, is_inverted=True)
    targets = [Target(name, peer, _must(20.0)) for name in METRICS for peer in ("scikit-learn roc_curve",)]
    targets += [Target(name, "torchmetrics PR curve") for name in METRICS]
    targets += [Target("np.sort", name, _must(2.5), ceiling=True) for name in ours]
    memory = partial(_memory, len(scores), {"float32": "on skewed scores with labels at random, at most 9"})
    return Work({**ours, **_peers(scores, labels)}, targets, memory)


def _own(threads: int, quick: bool) -> Work:
    os.environ["NEARWISE_NUM_THREADS"] = str(threads)
    scores, labels = _pairs(10**6 if quick else 10**7)
    selections, calls = [], []

    def mine(counts: Any) -> Any:
        calls.append(len(counts.true_positives))
        return counts.true_positives - counts.false_positives

    def select() -> object:
        selections.append(1)
        return select_threshold(scores, labels, mine, is_inverted=True)

    def remarks() -> list[str]:
        distinct = len(np.unique(scores))
        once = f"{len(calls)} calls of the metric for {len(selections)} selections, with {set(calls)} candidates"
        return [
            once,
            f"{distinct:,} distinct scores",
            *_memory(len(scores), OWN_MEMORY),
        ]

    contestants = {"metric of one's own": select}
    peers = _peers(scores, labels)
    del peers["np.sort"]
    targets = [Target("metric of one's own", peer) for peer in peers]
    return Work({**contestants, **peers}, targets, remarks)


def _small(threads: int, quick: bool) -> Work:
    import torch

    scores, labels = _pairs(SMALL)
    tensors = torch.from_numpy(scores), torch.from_numpy(labels)

    def per_call(scores: Any, labels: Any, metric: Any) -> float:
        start = time.perf_counter()
        for _ in range(CALLS):
            select_threshold(scores, labels, metric, is_inverted=True)
        return time.perf_counter() - start

    contestants: dict[str, Callable[[], object]] = {}
    for name, metric in METRICS.items():
        contestants[name] = partial(per_call, scores, labels, metric)
        contestants[f"{name}, tensors"] = partial(per_call, *tensors, metric)
    return Work(contestants, [])


def _memory(size: int, kinds: dict[str, str]) -> list[str]:
    said = []
    for kind, condition in kinds.items():
        command = [sys.executable, "-c", MEMORY, str(size), kind]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        said.append(f"{kind}: {float(done.stdout):.1f} bytes a score beyond the inputs ({condition})")
    return said
