"""Retrieval backends and evaluation of embeddings."""

from nearwise.evaluation.accuracy import AccuracyCalculator, precision_at_k
from nearwise.evaluation.custom_knn import CustomKNN
from nearwise.evaluation.faiss_kmeans import FaissKMeans
from nearwise.evaluation.faiss_knn import FaissKNN
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
    "AccuracyCalculator",
    "CustomKNN",
    "EqualErrorRate",
    "FaissKMeans",
    "FaissKNN",
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
    "precision_at_k",
    "precision_floor",
    "recall_at_false_match_rate",
    "select_threshold",
    "threshold_curve",
]
