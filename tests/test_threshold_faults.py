"""Faults that other libraries have had in choosing thresholds; each test names the report."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nearwise.evaluation import (
    equal_error_rate,
    match_accuracy,
    match_balanced_accuracy,
    match_f1,
    match_mcc,
    precision_floor,
    recall_at_false_match_rate,
    select_threshold,
    threshold_curve,
)


def select(scores, labels, metric=match_f1, *, is_inverted=True, dtype="float64"):
    return select_threshold(
        np.array(scores, dtype=dtype), np.array(labels, dtype=bool), metric, is_inverted=is_inverted
    )


def recount(scores, labels, threshold):
    matches, labels = scores >= threshold, np.asarray(labels, dtype=bool)
    return int((matches & labels).sum()), int((matches & ~labels).sum())


@pytest.mark.rule("I-2")
class TestTies:
    """huggingface/sentence-transformers 384, 2282, 4028; mteb 5465; smartcore 373; scikit-learn 6688, 19093."""

    def test_a_threshold_does_not_split_equal_scores(self):
        assert select([0.7, 0.6, 0.8, 0.7], [1, 0, 1, 0]) == (0.7 / 2 + 0.6 / 2, 0.8)

    def test_a_constant_scorer_is_no_better_than_a_guess(self):
        assert select([0.5, 0.5], [1, 0], match_accuracy).value == 0.5
        assert select([0.5, 0.5], [1, 0], match_f1).value == 2 / 3

    @pytest.mark.parametrize("metric", [match_accuracy, match_balanced_accuracy, match_f1, match_mcc])
    def test_the_order_of_tied_rows_does_not_leak(self, metric):
        assert select([1, 1, 1, 1], [1, 1, 0, 0], metric) == select([1, 1, 1, 1], [0, 0, 1, 1], metric)

    def test_ties_need_not_be_neighbours_in_the_input(self):
        assert (
            threshold_curve(np.array([0.5, 0.9, 0.5]), np.array([False, True, True]), is_inverted=True).thresholds.size
            == 3
        )

    def test_small_scores_are_not_merged(self):
        scores, labels = np.array([4.0, 3.0, 2.0, 1.0]), [1, 0, 1, 0]
        assert select(scores * 1e-7, labels).value == select(scores, labels).value
        assert select(scores * 1e-7, labels).threshold == pytest.approx(1.5e-7)

    def test_there_is_no_tolerance(self):
        curve = threshold_curve(np.array([3.4, 3.4000000000000004]), np.array([True, False]), is_inverted=True)
        assert len(curve) == 3


@pytest.mark.rule("I-1", "I-2")
class TestEnds:
    """scikit-learn 4996, 23213, 30079; torchmetrics 2207, 2873, 3226; anomalib 2433; sentence-transformers 1135."""

    def test_the_curve_goes_on_below_the_last_positive(self):
        curve = threshold_curve(np.array([5.0, 4, 3, 2]), np.array([True, False, False, False]), is_inverted=True)
        assert curve.false_match_rate.tolist() == [0, 0, 1 / 3, 2 / 3, 1]

    def test_all_parts_of_a_curve_are_equally_long(self):
        curve = threshold_curve(np.array([5.0, 4, 4, 2]), np.array([True, False, True, False]), is_inverted=True)
        parts = [curve.thresholds, *curve.counts, curve.precision, curve.true_match_rate, curve.false_non_match_rate]
        assert [len(part) for part in parts] == [4] * 8

    @pytest.mark.parametrize("label", [0, 1])
    def test_one_class_alone_is_refused(self, label):
        with pytest.raises(ValueError, match="labels must be partly True and partly False"):
            select([0.1, 0.2, 0.3, 0.4], [label] * 4)

    def test_an_unattainable_precision_says_so(self):
        with pytest.raises(ValueError, match=r"precision_floor\(0.9\).*at least 0.9; the highest is 0.5"):
            select([0.9, 0.2], [0, 1], precision_floor(0.9))


@pytest.mark.rule("I-3", "I-5", "ST-17")
class TestNumbers:
    """pROC 77; quadra 141; scikit-learn 34975, 34813, 5735, 9622; torchmetrics 1526; sentence-transformers 3893."""

    def test_neighbouring_doubles_have_no_midpoint(self):
        up = float(np.nextafter(0.1, 1))
        assert select([up, 0.1], [1, 0]) == (up, 1.0)

    def test_a_float32_threshold_decides_alike_in_numpy_and_torch(self, rng):
        scores = rng.random(500).astype(np.float32)
        labels = rng.random(500) < scores
        threshold, _ = select_threshold(scores, labels, match_f1, is_inverted=True)
        assert ((torch.from_numpy(scores) >= threshold).numpy() == (scores >= threshold)).all()
        assert np.float32(threshold) == threshold

    @pytest.mark.parametrize(("dtype", "count"), [("float16", 2050), ("float16", 5000), ("float32", 2**17 + 1)])
    def test_counts_go_beyond_what_the_scores_format_counts_to(self, dtype, count):
        scores = np.linspace(0, 1, count).astype(dtype)
        labels = np.arange(count) % 2 == 0
        curve = threshold_curve(scores, labels, is_inverted=True)
        assert curve.counts.true_positives[-1] + curve.counts.false_positives[-1] == count
        threshold, value = select_threshold(scores, labels, match_f1, is_inverted=True)
        tp, fp = recount(scores, labels, threshold)
        assert value == 2 * tp / (tp + fp + labels.sum())

    def test_counts_go_beyond_24_bits(self):
        count = 2**24 + 3
        scores = np.zeros(count, dtype=np.float32)
        scores[-1] = 1
        labels = np.ones(count, dtype=bool)
        labels[-1] = False
        assert select_threshold(scores, labels, match_accuracy, is_inverted=False) == (0.5, 1.0)

    def test_raw_scores_keep_their_thresholds(self):
        assert select([-0.25, 0.5, 0.75], [0, 1, 1]).threshold == 0.125

    @pytest.mark.parametrize("scores", [[np.nan, 0.3], [np.inf, np.inf]])
    def test_scores_that_are_not_finite_are_refused(self, scores):
        with pytest.raises(ValueError, match="scores must be finite"):
            select(scores, [0, 1])

    def test_nan_of_a_precision_does_not_win(self):
        chosen = select([0.9, 0.5], [0, 1], lambda c: c.true_positives / (c.true_positives + c.false_positives))
        assert chosen == (0.5, 0.5)

    def test_a_correlation_of_many_pairs_does_not_overflow(self):
        count = 200_000
        labels = np.arange(count) < count // 2
        scores = np.where(labels, 1.0, 0.0)
        assert select_threshold(scores, labels, match_mcc, is_inverted=True) == (0.5, 1.0)

        def of_integers(counts):
            return match_mcc(type(counts)(*(count.to(torch.int64) for count in counts)))

        assert select_threshold(scores, labels, of_integers, is_inverted=True) == (0.5, 1.0)

    def test_bfloat16_scores_near_one_make_no_other_ties_than_their_own(self):
        scores = torch.tensor([1.0, 0.99609375, 0.9921875], dtype=torch.bfloat16)
        assert len(threshold_curve(scores, torch.tensor([True, False, True]), is_inverted=True)) == 4


@pytest.mark.rule("ST-17", "I-5")
class TestScales:
    """insightface 1386, 2239; scikit-learn 34595, 34390; tensorflow/similarity 37; torchmetrics 3310."""

    def test_any_range_of_scores_will_do(self):
        assert select([-200, -150, 30, 40], [0, 0, 1, 1]) == (-60, 1.0)

    def test_no_grid_misses_the_optimum(self):
        scores = np.concatenate([np.linspace(0, 0.009, 95), [0.0091, 0.0092, 0.0093, 0.0094, 1.0]])
        threshold, value = select_threshold(scores, np.arange(100) >= 95, match_f1, is_inverted=True)
        assert value == 1.0
        assert 0.009 < threshold < 0.0091

    def test_the_returned_number_itself_gives_the_counts(self):
        scores, labels = np.array([0.3111, 0.333, 0.2, 0.5], dtype=np.float32), [0, 1, 0, 1]
        threshold, value = select(scores, labels, dtype="float32")
        assert (recount(scores, labels, threshold), value) == ((2, 0), 1.0)

    def test_a_score_equal_to_the_threshold_matches(self):
        threshold, _ = select([0.25, 0.25], [1, 0])
        assert threshold == 0.25
        assert recount(np.array([0.25, 0.25]), [1, 0], threshold) == (1, 1)

    def test_false_match_rates_are_per_negative(self):
        scores = np.arange(12.0)[::-1]
        labels = np.array([1] + [0] * 10 + [1], dtype=bool)
        assert select_threshold(scores, labels, recall_at_false_match_rate(0.1), is_inverted=True).value == 0.5
        curve = threshold_curve(scores, labels, is_inverted=True)
        assert curve.false_match_rate[2] == 0.1, "one of ten negatives"

    def test_the_equal_error_rate_has_one_definition(self):
        scores, labels = np.array([0.9, 0.8, 0.7, 0.6, 0.5]), np.array([1, 1, 0, 1, 0], dtype=bool)
        assert equal_error_rate(scores, labels, is_inverted=True).rate == 1 / 3
