"""`threshold_curve` and `equal_error_rate`."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_curve

from nearwise.evaluation import equal_error_rate, threshold_curve


@pytest.mark.rule("I-2", "I-3")
def test_rates_are_those_of_scikit_learn_at_every_distinct_score(rng):
    scores, labels = rng.normal(size=300).round(1), rng.random(300) < 0.4
    fpr, tpr, _ = roc_curve(labels, scores, drop_intermediate=False)
    curve = threshold_curve(scores, labels, is_inverted=True)
    assert curve.false_match_rate == pytest.approx(fpr)
    assert curve.true_match_rate == pytest.approx(tpr)
    assert curve.false_non_match_rate == pytest.approx(1 - tpr)
    for i in range(0, len(curve), 7):
        matches = scores >= curve.thresholds[i]
        assert matches[labels].sum() == curve.counts.true_positives[i]
        assert matches[~labels].sum() == curve.counts.false_positives[i]


@pytest.mark.rule("G-2")
def test_tensors_in_tensors_out():
    scores, labels = torch.tensor([1.0, 2.0, 2.0], requires_grad=True), torch.tensor([True, False, True])
    curve = threshold_curve(scores, labels, is_inverted=False)
    parts = [curve.thresholds, *curve.counts, curve.precision, curve.true_match_rate]
    assert {(type(part), part.dtype, part.requires_grad) for part in parts} == {(torch.Tensor, torch.float64, False)}
    assert curve.precision.isnan().tolist() == [True, False, False]
    of_arrays = threshold_curve(scores.detach().numpy(), labels, is_inverted=False)
    assert type(of_arrays.thresholds) is np.ndarray
    assert np.isnan(of_arrays.precision).tolist() == [True, False, False]


def truth(scores, labels):
    """The crossing of the two broken lines, segment by segment, in rationals."""
    p, n = int(labels.sum()), int((~labels).sum())
    points = [(Fraction(0), Fraction(1))]
    for score in sorted(set(scores), reverse=True):
        accepted = scores >= score
        points.append((Fraction(int((accepted & ~labels).sum()), n), 1 - Fraction(int((accepted & labels).sum()), p)))
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if x0 <= y0 and x1 >= y1:
            share = (y0 - x0) / ((y0 - x0) + (x1 - y1)) if (y0 - x0) + (x1 - y1) else 0
            return float(x0 + share * (x1 - x0))
    raise AssertionError("the lines must cross")


def test_the_equal_error_rate_is_where_the_lines_cross(rng):
    for _ in range(300):
        size = int(rng.integers(2, 25))
        scores, labels = rng.normal(size=size).round(1), rng.random(size) < 0.5
        labels[:2] = [True, False]
        found = equal_error_rate(scores, labels, is_inverted=True)
        assert found.rate == truth(scores, labels)
        assert equal_error_rate(-scores, labels, is_inverted=False) == (found.rate, -found.threshold)
        order = rng.permutation(size)
        assert equal_error_rate(scores[order], labels[order], is_inverted=True) == found
        gap = abs((scores[~labels] >= found.threshold).mean() - (scores[labels] < found.threshold).mean())
        curve = threshold_curve(scores, labels, is_inverted=True)
        assert gap == pytest.approx(np.abs(curve.false_match_rate - curve.false_non_match_rate).min())


def test_extremes_of_the_equal_error_rate():
    labels = np.array([True, True, False, False])
    assert equal_error_rate(np.array([4.0, 3, 2, 1]), labels, is_inverted=True) == (0.0, 2.5)
    assert equal_error_rate(np.array([1.0, 2, 3, 4]), labels, is_inverted=True).rate == 1.0
    assert equal_error_rate(np.array([1.0, 1, 1, 1]), labels, is_inverted=True).rate == 0.5
