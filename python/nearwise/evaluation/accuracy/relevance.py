"""Which references are relevant to a query: how many, for whom none, and which neighbours are among them."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nearwise import _arrays
from nearwise.evaluation.accuracy import foreign, labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from nearwise.evaluation.accuracy.inputs import Inputs

    NDArray = np.ndarray[Any, Any]

# The comparison that stands for "no comparison of the user's".
EQUALITY = operator.eq
# A user's comparison sees blocks of at most so many pairs.
_BLOCK_PAIRS = 1 << 24


@dataclass(frozen=True, eq=False)
class Relevance:
    """Relevant references of every query.

    Attributes
    ----------
    classes : numpy.ndarray
        The distinct query labels, ascending.
    counts : numpy.ndarray of int64
        For each of them, how many references have it, the query itself included.
    query : numpy.ndarray of int64
        Class number of every query.
    reference : numpy.ndarray of int64 or None
        Class number of every reference, -1 for a class without queries; None with a user's comparison.
    of_class : numpy.ndarray of int64
        For each class, how many references are relevant to a query of it (R): the query itself does not count.
    compare : callable or None
        The user's comparison.
    """

    classes: NDArray
    counts: NDArray
    query: NDArray
    reference: NDArray | None
    of_class: NDArray
    compare: Callable[..., Any] | None = field(default=None)

    @property
    def of_query(self) -> NDArray:
        """R of every query."""
        return self.of_class[self.query]

    @property
    def most(self) -> int:
        """The largest R of all."""
        return int(self.of_class.max(initial=0))


def find(inputs: Inputs, compare: Callable[..., Any] | None) -> Relevance:
    """Count the relevant references by equality of labels, or by a user's comparison.

    Raises
    ------
    ValueError
        Labels of more than one dimension without a comparison of the user's.
    """
    if compare is not None:
        return _by_comparison(inputs, compare)
    own, theirs = (_flat(side, name) for side, name in _named(inputs))
    if inputs.query_labels is inputs.reference_labels:
        theirs = own
    found = labels.identify(own, theirs)
    counts = np.bincount(found.reference[found.reference >= 0], minlength=len(found.values)).astype(np.int64)
    return Relevance(found.values, counts, found.query, found.reference, counts - inputs.ref_includes_query)


def matches(inputs: Inputs, relevance: Relevance, indices: NDArray) -> NDArray:
    """Return a uint8 matrix (queries, k) that says which neighbours the user's comparison matches."""
    out = np.empty(indices.shape, dtype=np.uint8)
    step = max(1, _BLOCK_PAIRS // max(1, indices.shape[1]))
    for start in range(0, len(indices), step):
        block = indices[start : start + step]
        own = inputs.query_labels[start : start + step, None]
        found = _call(relevance.compare, own, inputs.reference_labels[block], inputs)
        if found.shape != block.shape:
            raise ValueError(f"label_comparison_fn must return shape {block.shape} here, got {found.shape}")
        out[start : start + step] = found
    return out


def _by_comparison(inputs: Inputs, compare: Callable[..., Any]) -> Relevance:
    for side, name in _named(inputs):
        if labels.is_text(side):
            raise TypeError(f"{name} must be numbers for a label_comparison_fn, got strings")
    values, numbers = labels.rows(inputs.query_labels)
    counts = np.zeros(len(values), dtype=np.int64)
    itself = np.zeros(len(values), dtype=np.int64)
    for i in range(len(values)):
        counts[i] = _call(compare, values[i : i + 1], inputs.reference_labels, inputs).sum()
    if inputs.ref_includes_query and len(values):
        # A label that does not match itself has no self among its matches to take off.
        itself = _call(compare, values, values, inputs).reshape(-1).astype(np.int64)
    return Relevance(values, counts, numbers, None, np.maximum(counts - itself, 0), compare)


def _call(compare: Any, left: NDArray, right: NDArray, inputs: Inputs) -> NDArray:
    given = foreign.handed(left, inputs.query), foreign.handed(right, inputs.query)
    with foreign.no_grad():
        found = compare(*given)
    if _arrays.is_tensor(found):
        found = found.cpu().numpy()
    return np.asarray(found, dtype=bool)


def _named(inputs: Inputs) -> tuple[tuple[NDArray, str], tuple[NDArray, str]]:
    return (inputs.query_labels, "query_labels"), (inputs.reference_labels, "reference_labels")


def _flat(side: NDArray, name: str) -> NDArray:
    if side.ndim == 2 and side.shape[1] == 1:
        return side[:, 0]
    if side.ndim != 1:
        raise ValueError(
            f"{name} must have one dimension unless a label_comparison_fn compares them, got shape {side.shape}"
        )
    return side
