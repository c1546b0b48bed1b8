"""How results are named, and which label levels they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearwise.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor


def check_levels(given: object) -> None:
    """Refuse what names no columns of labels.

    Examples
    --------
    >>> check_levels("first")
    Traceback (most recent call last):
        ...
    TypeError: label_hierarchy_level must be an integer, a list of integers or 'all', got 'first'
    """
    if isinstance(given, str) and given == "all":
        return
    for level in given if isinstance(given, list | tuple) else [given]:
        if isinstance(level, bool) or not isinstance(level, int):
            raise TypeError(f"label_hierarchy_level must be an integer, a list of integers or 'all', got {given!r}")


class ResultNames:
    """Names of results and of the records made of them, from a tester's settings.

    Attributes
    ----------
    label_levels : list of int or None
        The levels of the last evaluation.
    """

    normalize_embeddings: bool
    use_trunk_output: bool
    pca: int | None
    pca_suffix: bool
    label_hierarchy_level: Any
    accuracy_calculator: Any
    label_levels: list[int] | None = None

    def label_levels_to_evaluate(self, query_labels: Tensor) -> list[int]:
        """Return the columns of labels (N, levels) to score.

        Raises
        ------
        ContractError
            If there is no such column.
        """
        available = query_labels.shape[1]
        level = self.label_hierarchy_level
        if isinstance(level, str) and level == "all":
            return list(range(available))
        levels = list(level) if isinstance(level, list | tuple) else [level]
        if not levels or not all(isinstance(x, int) and 0 <= x < available for x in levels):
            wanted = f"from 0 to {available - 1}, as the labels have {available} levels"
            raise ContractError(f"label_hierarchy_level must be {wanted}, got {level!r}")
        return levels

    def calculate_average_accuracies(
        self, accuracies: dict[str, Any], metrics: Iterable[str], label_levels: list[int]
    ) -> None:
        """Add the mean over the levels of each metric; one whose values are lists has none."""
        for metric in metrics:
            values = [
                accuracies[self.accuracies_keyname(metric, label_hierarchy_level=level)] for level in label_levels
            ]
            if not any(isinstance(value, list) for value in values):
                accuracies[self.accuracies_keyname(metric, average=True)] = sum(values) / len(values)

    def accuracies_keyname(self, metric: str, label_hierarchy_level: Any = 0, average: bool = False) -> str:
        """Return the key of a metric in a result.

        Examples
        --------
        >>> from nearwise.testers import GlobalEmbeddingSpaceTester
        >>> tester = GlobalEmbeddingSpaceTester(pca=16)
        >>> tester.accuracies_keyname("NMI"), tester.accuracies_keyname("NMI", average=True)
        ('NMI_level0_pca16', 'AVERAGE_NMI_pca16')
        """
        suffix = f"_pca{self.pca}" if self.pca and self.pca_suffix else ""
        if average:
            return f"AVERAGE_{metric}{suffix}"
        if label_hierarchy_level == "all" or isinstance(label_hierarchy_level, list | tuple):
            levels = self.label_levels or label_hierarchy_level
            label_hierarchy_level = levels[0] if len(levels) == 1 else label_hierarchy_level
        return f"{metric}_level{_level_name(label_hierarchy_level)}{suffix}"

    def description_suffixes(self, base_name: str) -> str:
        """Return a name followed by what sets this tester's results apart from others'."""
        parts = [base_name]
        parts += [f"pca{self.pca}"] if self.pca else []
        parts += ["normalized"] if self.normalize_embeddings else []
        parts += ["trunk"] if self.use_trunk_output else []
        parts += [type(self).__name__, f"level_{_level_name(self.label_hierarchy_level)}"]
        described = self.accuracy_calculator.description()
        return "_".join(parts + ([described] if described else []))


def _level_name(level: Any) -> str:
    """Return a label level, or several, as part of a name."""
    return "_".join(map(str, level)) if isinstance(level, list | tuple) else str(level)
