"""Neighbours among the samples of one parent label."""

from __future__ import annotations

import logging
import math
from typing import Any

import torch
from torch import Tensor

from nearwise.errors import ContractError
from nearwise.testers.base import BaseTester, EmbeddingsAndLabels

logger = logging.getLogger(__name__)


class WithSameParentLabelTester(BaseTester):
    """Scores samples among those of their parent label only: how well fine classes part within coarse ones.

    Labels must have at least two levels; the parent of level L is level L + 1. Each parent is scored by itself and the
    result is the plain mean over the parents. Parents without a query that can be scored are left out. Metrics with one
    value for each class are strung together in the order of the parents. See `BaseTester` for the parameters.

    Examples
    --------
    >>> import torch
    >>> from nearwise.evaluation import AccuracyCalculator
    >>> from nearwise.testers import WithSameParentLabelTester
    >>> tester = WithSameParentLabelTester(
    ...     accuracy_calculator=AccuracyCalculator(include=["precision_at_1"]), dataloader_num_workers=0
    ... )
    >>> points = torch.tensor([[3.0, 0.0], [3.0, 0.1], [3.0, 0.2], [0.0, 3.0], [0.1, 3.0], [0.2, 3.0]])
    >>> labels = [["cat", "pet"], ["cat", "pet"], ["dog", "pet"], ["elk", "wild"], ["elk", "wild"], ["elk", "wild"]]
    >>> tester.test({"val": list(zip(points, labels))}, epoch=1, trunk_model=torch.nn.Identity())
    {'val': {'epoch': 1, 'precision_at_1_level0': 0.75}}
    """

    def do_knn_and_accuracies(
        self,
        accuracies: dict[str, Any],
        embeddings_and_labels: EmbeddingsAndLabels,
        query_split_name: str,
        reference_split_names: list[str],
    ) -> None:
        """Add ``<metric>_level<L>`` for every metric and every level that has a parent, and their averages.

        Raises
        ------
        ContractError
            If no level to score has a parent.
        """
        query, query_labels, reference, reference_labels = self.set_reference_and_query(
            embeddings_and_labels, query_split_name, reference_split_names
        )
        includes_query = self.ref_includes_query(query_split_name, reference_split_names)
        parented = query_labels.shape[1] - 1
        self.label_levels = [level for level in self.label_levels_to_evaluate(query_labels) if level < parented]
        if not self.label_levels:
            raise ContractError(
                "label_hierarchy_level must be a level that has a parent level after it, "
                f"got {self.label_hierarchy_level!r} for labels of {parented + 1} levels"
            )
        names: dict[str, None] = {}
        for level in self.label_levels:
            families = _families(query_labels[:, level + 1], reference_labels[:, level + 1])
            by_parent = [
                self._within(query[q], query_labels[q, level], reference[r], reference_labels[r, level], includes_query)
                for q, r in families
            ]
            for metric in dict.fromkeys(name for found in by_parent for name in found):
                names[metric] = None
                value = _mean(metric, level, [found[metric] for found in by_parent if metric in found])
                accuracies[self.accuracies_keyname(metric, label_hierarchy_level=level)] = value
        if len(self.label_levels) > 1:
            self.calculate_average_accuracies(accuracies, names, self.label_levels)

    def _within(
        self, query: Tensor, query_labels: Tensor, reference: Tensor, reference_labels: Tensor, includes_query: bool
    ) -> dict[str, Any]:
        """Return the results within one parent; NaN where the references have none of its samples."""
        if len(reference) == 0:
            return dict.fromkeys(self.accuracy_calculator.get_curr_metrics(), math.nan)
        found: dict[str, Any] = self.accuracy_calculator.get_accuracy(
            query, query_labels, reference, reference_labels, includes_query
        )
        return found


def _families(query_parents: Tensor, reference_parents: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the positions of each parent's samples among query and reference, by ascending parent."""
    return [
        (torch.nonzero(query_parents == parent)[:, 0], torch.nonzero(reference_parents == parent)[:, 0])
        for parent in torch.unique(query_parents)
    ]


def _mean(metric: str, level: int, values: list[Any]) -> Any:
    """Return the mean over the parents that have a value; lists one after the other."""
    if any(isinstance(value, list) for value in values):
        return [x for value in values for x in (value if isinstance(value, list) else [value])]
    numbers = [float(value) for value in values if not math.isnan(value)]
    if len(numbers) < len(values):
        missing = len(values) - len(numbers)
        logger.warning(
            "%s of level %d: %d of %d parent labels have no query to score", metric, level, missing, len(values)
        )
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
