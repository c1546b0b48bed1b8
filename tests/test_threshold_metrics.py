"""The metrics by themselves, and the constraint metrics."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from nearwise.evaluation import (
    MatchCounts,
    match_accuracy,
    match_balanced_accuracy,
    match_f1,
    match_f_beta,
    match_mcc,
    match_youden,
    precision_floor,
    recall_at_false_match_rate,
    select_threshold,
    threshold_curve,
)

METRICS = [match_accuracy, match_balanced_accuracy, match_f1, match_f_beta(0.5), match_youden, match_mcc]
KINDS = [np.array, torch.tensor]


@pytest.mark.rule("I-5")
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30))
def test_values_are_those_of_scikit_learn(rows):
    truth, guess = np.array(rows).T
    if truth.all() or not truth.any():
        return
    both = [(truth & guess).sum(), (~truth & guess).sum(), (~truth & ~guess).sum(), (truth & ~guess).sum()]
    counts = MatchCounts(*(np.array([float(count)]) for count in both))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [
            sk.accuracy_score(truth, guess),
            sk.balanced_accuracy_score(truth, guess),
            sk.f1_score(truth, guess),
            sk.fbeta_score(truth, guess, beta=0.5),
            2 * sk.balanced_accuracy_score(truth, guess) - 1,
            sk.matthews_corrcoef(truth, guess),
        ]
    assert [float(metric(counts)[0]) for metric in METRICS] == pytest.approx(expected)


@pytest.mark.rule("I-5")
@pytest.mark.parametrize("kind", KINDS)
def test_hand_made_counts_with_nothing_below_the_line_are_nan_without_a_warning(kind):
    nothing = MatchCounts(*(kind([0.0]) for _ in range(4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric in METRICS[:-1]:
            assert math.isnan(metric(nothing)[0]), metric
        assert match_mcc(nothing)[0] == 0


@pytest.mark.rule("I-5")
@pytest.mark.parametrize("metric", METRICS, ids=str)
@pytest.mark.parametrize("is_inverted", [False, True])
def test_the_value_of_a_selection_is_the_metric_of_its_counts(metric, is_inverted, rng):
    scores, labels = rng.normal(size=200).round(1), rng.random(200) < 0.3
    curve = threshold_curve(scores, labels, is_inverted=is_inverted)
    threshold, value = select_threshold(scores, labels, metric, is_inverted=is_inverted)
    values = metric(curve.counts)
    assert value == values[curve.thresholds == threshold] == values.max()


@pytest.mark.rule("I-4", "ST-19")
def test_exact_ties_are_not_rounded_apart():
    # Three equal fractions whose float quotients of other forms differ in the last bit.
    scores = np.arange(1.0, 9.0)
    labels = np.array([0, 0, 1, 0, 0, 0, 1, 0], dtype=bool)
    for metric in (match_balanced_accuracy, match_youden):
        assert select_threshold(scores, labels, metric, is_inverted=False).threshold == 3.5


def test_beta_one_is_f1_and_fractions_are_meant_as_written():
    scores, labels = np.array([4.0, 3.0, 2.0, 1.0]), np.array([True, False, True, False])
    f1 = select_threshold(scores, labels, match_f1, is_inverted=True)
    assert select_threshold(scores, labels, match_f_beta(1), is_inverted=True) == f1
    assert match_f_beta(0.1).core.beta_squared == (1, 100)
    assert match_f_beta(1 / 3).core.beta_squared == (1, 9)
    assert repr(match_f_beta(2)) == "match_f_beta(2)"


@pytest.mark.parametrize("beta", [math.pi * 1e-9, 1.2345678901234567e12])
def test_betas_too_long_for_the_core_work_all_the_same(beta):
    scores, labels = np.array([4.0, 3.0, 2.0, 1.0]), np.array([True, False, True, False])
    metric = match_f_beta(beta)
    assert metric.core is None
    value = select_threshold(scores, labels, metric, is_inverted=True).value
    assert value == pytest.approx(1.0), "all weight on precision, or all on recall"


@pytest.mark.parametrize(("beta", "error"), [(0, ValueError), (-1, ValueError), (math.nan, ValueError),
                                             (math.inf, ValueError), ("1", TypeError), (True, TypeError)])  # fmt: skip
def test_a_beta_that_is_no_positive_number_is_refused(beta, error):
    with pytest.raises(error, match="beta must be a"):
        match_f_beta(beta)


@pytest.mark.parametrize("make", [recall_at_false_match_rate, precision_floor])
@pytest.mark.parametrize(("rate", "error"), [(-0.1, ValueError), (1.5, ValueError), (math.nan, ValueError),
                                             ("1", TypeError), (True, TypeError)])  # fmt: skip
def test_targets_are_rates(make, rate, error):
    with pytest.raises(error, match=r"must be (a number|between 0 and 1), got"):
        make(rate)


def brute(scores, labels, allowed):
    """The largest recall among thresholds that satisfy, by recounting at every score."""
    best = None
    for threshold in [math.inf, *sorted(set(scores), reverse=True)]:
        matches = scores >= threshold
        tp, fp = (matches & labels).sum(), (matches & ~labels).sum()
        if allowed(tp, fp) and (best is None or tp > best):
            best = tp
    return best


@pytest.mark.rule("ST-15")
def test_constraints_are_met_by_the_largest_recall(rng):
    for _ in range(100):
        scores, labels = rng.normal(size=20).round(1), rng.random(20) < 0.5
        if labels.all() or not labels.any():
            continue
        target = float(rng.choice([0.0, 0.1, 0.3, 0.5, 1.0]))
        negatives = (~labels).sum()
        best = brute(scores, labels, lambda tp, fp, n=negatives, x=target: fp / n <= x)
        chosen = select_threshold(scores, labels, recall_at_false_match_rate(target), is_inverted=True)
        assert chosen.value == best / labels.sum()
        assert (scores[~labels] >= chosen.threshold).sum() / negatives <= target
        best = brute(scores, labels, lambda tp, fp, x=target: tp + fp > 0 and tp / (tp + fp) >= x)
        if best is None:
            with pytest.raises(ValueError, match="no threshold has a precision of at least"):
                select_threshold(scores, labels, precision_floor(target), is_inverted=True)
        else:
            chosen = select_threshold(scores, labels, precision_floor(target), is_inverted=True)
            assert chosen.value == best / labels.sum()


def test_three_of_ten_is_at_most_point_three():
    scores = np.arange(11.0)[::-1]
    labels = np.array([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], dtype=bool)
    assert select_threshold(scores, labels, recall_at_false_match_rate(0.3), is_inverted=True) == (6.5, 1.0)


def test_when_no_match_fits_the_rate_everything_is_rejected():
    chosen = select_threshold(
        np.array([2.0, 1.0]), np.array([False, True]), recall_at_false_match_rate(0), is_inverted=True
    )
    assert chosen == (math.inf, 0.0)
