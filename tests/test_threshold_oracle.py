"""`select_threshold` against exact rationals over every separation of thousands of small samples.

A few thousand samples run by default; ``NEARWISE_ORACLE_SAMPLES=20000`` asks for more.
"""

from __future__ import annotations

import json
import os
from fractions import Fraction

import numpy as np
import pytest
import torch

import threshold_oracle as oracle
from nearwise.evaluation import (
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

SAMPLES = int(os.environ.get("NEARWISE_ORACLE_SAMPLES", "2000"))
METRICS = [
    (match_accuracy, oracle.accuracy),
    (match_balanced_accuracy, oracle.balanced_accuracy),
    (match_f1, oracle.f_beta(Fraction(1))),
    (match_f_beta(0.5), oracle.f_beta(Fraction(1, 4))),
    (match_mcc, oracle.mcc_squared),
    (match_youden, oracle.youden),
]


class FirstColumn:
    """A distance that is the query's only feature."""

    def __init__(self, is_inverted):
        self.is_inverted = is_inverted

    def __call__(self, query, reference):
        return query.expand(len(query), len(reference))

    def pairwise(self, x, y):
        return x[:, 0]


def sample(rng, dtype):
    size = int(rng.integers(2, 13))
    scores = oracle.pool(dtype, rng, size)
    labels = rng.random(size) < rng.choice([0.2, 0.5, 0.8])
    labels[rng.integers(size)] ^= labels.all() or not labels.any()
    return scores, labels


@pytest.mark.rule("I-2", "I-3", "I-4", "I-5", "ST-17", "ST-19")
@pytest.mark.parametrize("dtype", oracle.FORMATS)
@pytest.mark.parametrize("is_inverted", [False, True])
def test_selections_are_those_of_exact_rationals_and_reproduce_their_counts(dtype, is_inverted, rng):
    for _ in range(SAMPLES // 8):
        scores, labels = sample(rng, dtype)
        context = f"{dtype} {is_inverted} {scores.double().tolist()} {labels.tolist()}"
        exact = [Fraction(score) for score in scores.double().tolist()]
        found = oracle.candidates(exact, labels.tolist(), is_inverted, dtype)
        curve = threshold_curve(scores, labels, is_inverted=is_inverted)
        assert curve.thresholds.tolist() == [c.threshold for c in found], context
        counts = [[c.tp, c.fp, c.tn, c.fn] for c in found]
        assert torch.stack(list(curve.counts), dim=1).tolist() == counts, context
        distinct = {}
        for metric, truth in METRICS:
            chosen, value = oracle.best(found, truth)
            selection = select_threshold(scores, labels, metric, is_inverted=is_inverted)
            assert selection.threshold == chosen.threshold, f"{context} {metric}"
            if metric is match_mcc:
                assert selection.value * abs(selection.value) == pytest.approx(float(value), abs=1e-15), context
            else:
                assert selection.value == float(value), f"{context} {metric}"
            distinct[selection.threshold] = chosen
        for threshold, chosen in distinct.items():
            reproduces(scores, labels, threshold, chosen, is_inverted, context)
        # The last one as a foreign callable: float64 arithmetic on whole numbers this small is exact.
        assert select_threshold(scores, labels, lambda c: match_youden(c), is_inverted=is_inverted) == selection, (
            context
        )


def reproduces(scores, labels, threshold, chosen, is_inverted, context):
    """The threshold splits the scores as counted, by every way of comparing."""
    stored = json.loads(json.dumps(float(threshold)))
    by_torch = scores >= stored if is_inverted else scores <= stored
    column = scores[:, None]
    finder = MatchFinder(FirstColumn(is_inverted), stored)
    decisions = [by_torch, finder.is_match(column, column), finder.get_match_matrix(column, column[:1])[:, 0]]
    if scores.dtype != torch.bfloat16:
        array = scores.numpy()
        decisions.append(torch.from_numpy(array >= stored if is_inverted else array <= stored))
    for decision in decisions:
        matches = decision.numpy()
        assert (matches & labels).sum() == chosen.tp, context
        assert (matches & ~labels).sum() == chosen.fp, context


@pytest.mark.rule("ST-18", "I-4")
@pytest.mark.parametrize("is_inverted", [False, True])
@pytest.mark.parametrize("shape", ["normal", "rounded", "skewed", "outlier", "no signal"])
def test_large_samples_agree_with_a_plain_sort(shape, is_inverted, rng):
    size = 60_000
    labels = rng.random(size) < 0.3
    scores = rng.normal(size=size) + (0 if shape == "no signal" else 1) * np.where(labels == is_inverted, 1.0, 0.0)
    if shape == "rounded":
        scores = scores.round(1)
    if shape == "skewed":
        scores = np.exp(8 * scores)
    if shape == "outlier":
        scores[7] = -1e30
    scores = scores.astype(np.float32)
    order = np.argsort(-scores if is_inverted else scores, kind="stable")
    ends = np.append(np.diff(scores[order]) != 0, True)
    tp = np.append(0, np.cumsum(labels[order])[ends])
    fp = np.append(0, np.cumsum(~labels[order])[ends])
    p, n = labels.sum(), (~labels).sum()
    values = {
        match_accuracy: (tp + n - fp, size),
        match_balanced_accuracy: (tp * n + (n - fp) * p, 2 * p * n),
        match_f1: (2 * tp, tp + fp + p),
    }
    for metric, (above, below) in values.items():
        best = int(np.argmax(above / below))
        selection = select_threshold(scores, labels, metric, is_inverted=is_inverted)
        matches = scores >= selection.threshold if is_inverted else scores <= selection.threshold
        assert ((matches & labels).sum(), (matches & ~labels).sum()) == (tp[best], fp[best]), metric
        assert selection.value == (above / below)[best], metric
