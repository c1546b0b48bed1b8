"""Neighbours among all samples."""

from __future__ import annotations

from typing import Any

from nearwise.testers.base import BaseTester, EmbeddingsAndLabels


class GlobalEmbeddingSpaceTester(BaseTester):
    """Scores every query sample against all samples of the reference splits. See `BaseTester` for its parameters.

    Examples
    --------
    >>> import torch
    >>> from nearwise.evaluation import AccuracyCalculator
    >>> from nearwise.testers import GlobalEmbeddingSpaceTester
    >>> tester = GlobalEmbeddingSpaceTester(
    ...     accuracy_calculator=AccuracyCalculator(include=["precision_at_1"]), dataloader_num_workers=0
    ... )
    >>> points = torch.tensor([[2.0, 0.0], [2.0, 0.1], [0.0, 3.0], [0.2, 3.0]])
    >>> val = [(point, label) for point, label in zip(points, ["cat", "cat", "dog", "cat"])]
    >>> tester.test({"val": val}, epoch=1, trunk_model=torch.nn.Identity())
    {'val': {'epoch': 1, 'precision_at_1_level0': 0.6666666666666666}}
    """

    def do_knn_and_accuracies(
        self,
        accuracies: dict[str, Any],
        embeddings_and_labels: EmbeddingsAndLabels,
        query_split_name: str,
        reference_split_names: list[str],
    ) -> None:
        """Add ``<metric>_level<L>`` for every metric and level, and their averages over several levels."""
        query, query_labels, reference, reference_labels = self.set_reference_and_query(
            embeddings_and_labels, query_split_name, reference_split_names
        )
        includes_query = self.ref_includes_query(query_split_name, reference_split_names)
        self.label_levels = self.label_levels_to_evaluate(query_labels)
        names: dict[str, None] = {}
        for level in self.label_levels:
            found = self.accuracy_calculator.get_accuracy(
                query, query_labels[:, level], reference, reference_labels[:, level], includes_query
            )
            for metric, value in found.items():
                names[metric] = None
                accuracies[self.accuracies_keyname(metric, label_hierarchy_level=level)] = value
        if len(self.label_levels) > 1:
            self.calculate_average_accuracies(accuracies, names, self.label_levels)
