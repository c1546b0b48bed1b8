"""Retrieval backends and evaluation of embeddings."""

from nearwise.evaluation.custom_knn import CustomKNN
from nearwise.evaluation.match_finder import MatchFinder
from nearwise.evaluation.threshold import ThresholdSelection, select_threshold
from nearwise.evaluation.threshold_curve import EqualErrorRate, ThresholdCurve, equal_error_rate, threshold_curve
from nearwise.evaluation.threshold_metrics import (
    MatchCounts,
    match_accuracy,
    match_balanced_accuracy,
    match_f1,
    match_f_beta,
    match_mcc,
    match_youden,
    precision_floor,
    recall_at_false_match_rate,
)

__all__ = [
    "CustomKNN",
    "EqualErrorRate",
    "MatchCounts",
    "MatchFinder",
    "ThresholdCurve",
    "ThresholdSelection",
    "equal_error_rate",
    "match_accuracy",
    "match_balanced_accuracy",
    "match_f1",
    "match_f_beta",
    "match_mcc",
    "match_youden",
    "precision_floor",
    "recall_at_false_match_rate",
    "select_threshold",
    "threshold_curve",
]
