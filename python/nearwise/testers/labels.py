"""Labels of any kind, from what a data loader yields to an integer matrix of (samples, hierarchy levels)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

# One hierarchy level of some samples: numbers as a tensor, strings (or any other objects) as an object array.
Column = Tensor | np.ndarray[Any, Any]


class LabelMapper:
    """Replaces each label by its rank among the distinct labels of its hierarchy level.

    Parameters
    ----------
    set_min_label_to_zero : bool
        Whether to replace labels at all.
    dataset_labels : array, tensor or sequence, optional
        All labels that can occur, shape (N,) or (N, levels), or a sequence of N labels or of N sequences. Needed for
        replacing. Numbers rank by value, strings lexicographically (``"10" < "100" < "9"``).

    Attributes
    ----------
    label_map : dict
        ``{level: {label: rank}}``; empty without `dataset_labels`.

    Raises
    ------
    ValueError
        If labels are to be replaced and `dataset_labels` is None.

    Examples
    --------
    >>> from nearwise.testers import LabelMapper
    >>> LabelMapper(True, ["dog", "cat", "monkey", "cat"]).map(["dog", "cat", "monkey"], 0)
    array([1, 0, 2])
    """

    def __init__(self, set_min_label_to_zero: bool = False, dataset_labels: Any = None) -> None:
        if set_min_label_to_zero and dataset_labels is None:
            raise ValueError("set_min_label_to_zero needs dataset_labels: the labels to rank, got None")
        self.set_min_label_to_zero = set_min_label_to_zero
        self.label_map: dict[int, dict[Any, int]] = {}
        if dataset_labels is not None:
            columns = columns_of(dataset_labels, len(dataset_labels), rows_first=True)
            self.label_map = {level: ranks(column) for level, column in enumerate(columns)}

    def map(self, labels: Any, hierarchy_level: int) -> Any:
        """Return the ranks of the labels of one level, or the labels as they are if nothing is to be replaced.

        Parameters
        ----------
        labels : array, tensor or sequence
            Shape (N,).
        hierarchy_level : int
            The level that they belong to.

        Raises
        ------
        KeyError
            If a label is not among the ``dataset_labels`` of the level, or there is no such level.
        """
        if not self.set_min_label_to_zero:
            return labels
        if hierarchy_level not in self.label_map:
            raise KeyError(f"dataset_labels have {len(self.label_map)} levels, the data has level {hierarchy_level}")
        known = self.label_map[hierarchy_level]
        try:
            return np.array([known[label] for label in _values(labels)], dtype=np.int64)
        except KeyError as error:
            raise KeyError(f"label {error.args[0]!r} of level {hierarchy_level} is not in dataset_labels") from None


def columns_of(labels: Any, rows: int, *, rows_first: bool = False) -> list[Column]:
    """Return the labels of some samples as one column for each hierarchy level.

    Parameters
    ----------
    labels : tensor, array or sequence
        Shape (rows,) or (rows, levels); or a sequence of rows labels; or one entry for each level with rows labels in
        it, as a data loader makes of samples whose label is a sequence; or one entry for each row.
    rows : int
        How many samples there are.
    rows_first : bool
        How to read a sequence of sequences that fits both ways: by rows, or (default) by levels.

    Raises
    ------
    ValueError
        If the labels do not fit the number of samples.
    """
    if isinstance(labels, Tensor | np.ndarray):
        if labels.ndim not in (1, 2) or len(labels) != rows:
            raise ValueError(f"labels must be ({rows},) or ({rows}, levels), got {tuple(labels.shape)}")
        return (
            [_column(labels)] if labels.ndim == 1 else [_column(labels[:, level]) for level in range(labels.shape[1])]
        )
    if isinstance(labels, str | bytes) or not isinstance(labels, Sequence):
        raise TypeError(f"labels must be a tensor, an array or a sequence, got {type(labels).__name__}")
    if not any(_is_sequence(label) for label in labels):
        if len(labels) != rows:
            raise ValueError(f"labels must be {rows} labels, got {len(labels)}")
        return [_column(labels)]
    by_level = all(_is_sequence(level) and len(level) == rows for level in labels)
    by_row = len(labels) == rows and len({len(row) if _is_sequence(row) else -1 for row in labels}) == 1
    if by_row and (rows_first or not by_level):
        return [_column(level) for level in zip(*(_values(row) for row in labels), strict=True)]
    if by_level:
        return [_column(level) for level in labels]
    raise ValueError(f"labels must hold {rows} labels of each level, got {[len(x) for x in labels if _is_sequence(x)]}")


def joined(parts: list[list[Column]]) -> list[Column]:
    """Return the columns of consecutive batches as one column for each level.

    Raises
    ------
    ValueError
        If the batches differ in their number of levels.
    """
    if len({len(columns) for columns in parts}) != 1:
        raise ValueError(f"batches must agree on the number of label levels, got {[len(c) for c in parts]}")
    result: list[Column] = []
    for level in zip(*parts, strict=True):
        numbers = [column for column in level if isinstance(column, Tensor)]
        if len(numbers) == len(level):
            result.append(torch.cat(numbers))
        else:
            result.append(np.concatenate([_objects(_values(column)) for column in level]))
    return result


def encoded(splits: dict[str, list[Column]], mapper: LabelMapper) -> dict[str, Tensor]:
    """Return the columns of every split as an integer matrix, the same label everywhere the same number.

    Labels are replaced as the mapper says. Strings that it leaves become their rank among the labels of their level in
    all splits together.

    Parameters
    ----------
    splits : dict of list of columns
        The columns of each split.
    mapper : LabelMapper
        What replaces labels.

    Returns
    -------
    dict of Tensor
        Shape (N, levels) each, with the dtype that numbers had.
    """
    mapped = {name: [_mapped(c, level, mapper) for level, c in enumerate(columns)] for name, columns in splits.items()}
    met: dict[int, set[Any]] = {}
    for columns in mapped.values():
        for level, column in enumerate(columns):
            if not isinstance(column, Tensor):
                met.setdefault(level, set()).update(_values(column))
    met_ranks = {level: ranks(_objects(labels)) for level, labels in met.items()}
    result = {}
    for name, columns in mapped.items():
        numbers: list[Tensor] = []
        for level, column in enumerate(columns):
            if level in met_ranks:
                table = met_ranks[level]
                if isinstance(column, Tensor):
                    raise ValueError(f"labels of level {level} are numbers in {name!r} and strings in another split")
                column = torch.tensor([table[label] for label in _values(column)], dtype=torch.int64)
            numbers.append(torch.as_tensor(column)[:, None])
        result[name] = torch.cat(numbers, dim=1)
    return result


def ranks(labels: Column) -> dict[Any, int]:
    """Return ``{label: rank}`` over the distinct labels of one level."""
    try:
        return {label: rank for rank, label in enumerate(sorted(set(_values(labels))))}
    except TypeError as error:
        raise TypeError(f"labels of one level must be comparable: {error}") from None


def _mapped(column: Column, level: int, mapper: LabelMapper) -> Column:
    """Return the column with its labels replaced as the mapper says."""
    labels = mapper.map(column, level)
    return torch.from_numpy(labels) if isinstance(labels, np.ndarray) and labels.dtype != object else labels


def _column(labels: Any) -> Column:
    """Return labels (N,) as a tensor of numbers or an array of objects."""
    if isinstance(labels, Tensor):
        return labels.detach().cpu()
    array = labels if isinstance(labels, np.ndarray) else _array(labels)
    return _objects(array.tolist()) if array.dtype.kind in "OUS" else torch.from_numpy(np.ascontiguousarray(array))


def _array(labels: Iterable[Any]) -> np.ndarray[Any, Any]:
    """Return a sequence of labels as an array; numbers and strings together stay what they are."""
    values = _values(labels)
    is_text = [isinstance(label, str | bytes) for label in values]
    return _objects(values) if any(is_text) else np.asarray(values)


def _objects(values: Iterable[Any]) -> np.ndarray[Any, Any]:
    """Return labels as an object array of one dimension."""
    values = list(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _values(labels: Any) -> list[Any]:
    """Return labels as plain Python values."""
    if isinstance(labels, Tensor | np.ndarray):
        return list(labels.tolist())
    return [label.item() if isinstance(label, Tensor | np.generic) else label for label in labels]


def _is_sequence(label: Any) -> bool:
    """Return whether an entry holds labels rather than being one."""
    return isinstance(label, list | tuple) or (isinstance(label, Tensor | np.ndarray) and label.ndim > 0)
