"""Retrieval and clustering metrics of labelled embeddings.

Inputs are checked (`inputs`), labels become class numbers (`labels`), relevant references are counted (`relevance`),
neighbours come from a ``knn_func`` or ranks are counted during the search (`retrieval`), and the core turns ranks into
values (`rank`). Functions of others see torch tensors (`foreign`, `custom`).
"""

from nearwise.evaluation.accuracy.calculator import AccuracyCalculator
from nearwise.evaluation.accuracy.rank import precision_at_k

__all__ = ["AccuracyCalculator", "precision_at_k"]
