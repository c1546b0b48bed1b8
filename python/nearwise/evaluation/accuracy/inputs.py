"""What a call evaluates, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nearwise import _arrays
from nearwise._arguments import check_included
from nearwise.evaluation.accuracy import labels

if TYPE_CHECKING:
    from nearwise._arrays import Rows

    NDArray = np.ndarray[Any, Any]

_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, eq=False)
class Inputs:
    """Embeddings and labels of both sides.

    Attributes
    ----------
    query, reference : Rows
        The same object when the query is its own reference.
    query_labels, reference_labels : numpy.ndarray
        As `labels.read` returns them.
    ref_includes_query : bool
        Row i of the query is row i of the reference.
    """

    query: Rows
    reference: Rows
    query_labels: NDArray
    reference_labels: NDArray
    ref_includes_query: bool

    @property
    def available(self) -> int:
        """How many neighbours a query has at most."""
        return len(self.reference) - self.ref_includes_query


def read(
    query: Any,
    query_labels: Any,
    reference: Any,
    reference_labels: Any,
    ref_includes_query: bool,
    *,
    device: Any = None,
    mixed: bool = False,
) -> Inputs:
    """Check the arguments of an evaluation.

    Parameters
    ----------
    query, query_labels, reference, reference_labels, ref_includes_query
        As `AccuracyCalculator.get_accuracy` takes them.
    device : str, torch.device or None
        Where to move everything; None leaves it where it is.
    mixed : bool
        Whether kinds, devices and dtypes may differ, as in pytorch-metric-learning 2.9.

    Raises
    ------
    TypeError
        Another type, or two kinds of input.
    ValueError
        Shapes, lengths or devices that do not fit, NaN, or a reference that does not start with the query.
    """
    if reference is None and reference_labels is not None:
        raise ValueError("reference_labels must be left out when reference is, got labels of no reference")
    if reference is not None and reference_labels is None:
        raise ValueError("reference_labels must be given with reference, got None")
    if not mixed:
        _same_place(query, query_labels, ("query", "query_labels"), device)
        if reference is not None:
            _same_place(query, reference, ("query", "reference"), device)
            _same_place(reference, reference_labels, ("reference", "reference_labels"), device)
    elif device is None:
        device = _device_of(query)
    query_rows = _embeddings(query, "query", device)
    own = labels.read(query_labels, "query_labels")
    _lengths(query_rows, own, "query")
    _no_nan(query_rows, "query")
    if reference is None:
        return Inputs(query_rows, query_rows, own, own, True)
    reference_rows = _embeddings(reference, "reference", device)
    if mixed:
        query_rows, reference_rows = _alike(query_rows, reference_rows)
    sides = _arrays.pair(query_rows.given, reference_rows.given)
    theirs = labels.read(reference_labels, "reference_labels")
    _lengths(reference_rows, theirs, "reference")
    _no_nan(reference_rows, "reference")
    inputs = Inputs(*sides, own, theirs, bool(ref_includes_query))
    if inputs.ref_includes_query:
        _starts_with_query(inputs)
    return inputs


def _same_place(left: Any, right: Any, names: tuple[str, str], device: Any) -> None:
    """Refuse a tensor with an array, or tensors of two devices unless `device` moves them; lists go with either."""
    if isinstance(right, list | tuple) or getattr(right, "dtype", None) is None:
        return
    if isinstance(right, np.ndarray) and right.dtype.kind not in "biuf":
        return  # no tensor holds strings
    kinds = ["torch" if _arrays.is_tensor(side) else "numpy" for side in (left, right)]
    places = [f"{kind} on {_device_of(side)}" for kind, side in zip(kinds, (left, right), strict=True)]
    both = f"{names[0]} and {names[1]}"
    if kinds[0] != kinds[1]:
        raise TypeError(f"{both} must be of the same kind, got {places[0]} and {places[1]}")
    if device is None and places[0] != places[1]:
        raise ValueError(f"{both} must be on the same device, got {places[0]} and {places[1]}")


def _device_of(given: Any) -> str:
    return str(given.device) if _arrays.is_tensor(given) else "cpu"


def _embeddings(given: Any, argument: str, device: Any) -> Rows:
    side = _arrays.rows(given, argument, any_dtype=True)
    if device is not None and str(device) != side.device:
        side = _arrays.rows(side.torch().to(device), argument, any_dtype=True)
    if side.dtype not in _arrays.FLOATS:
        if not side.dtype.lstrip("u").startswith("int"):
            raise TypeError(f"{argument} must have a floating or integer dtype, got {side.dtype}")
        whole = side.given.float() if _arrays.is_tensor(side.given) else side.given.astype(np.float32)
        side = _arrays.rows(whole, argument)
    return side


def _alike(query: Rows, reference: Rows) -> tuple[Rows, Rows]:
    """Return both sides as tensors if one is, and in the wider of their types, so that none is rounded."""
    if query.kind != reference.kind:
        query, reference = (_arrays.rows(side.torch(), "query or reference") for side in (query, reference))
    if query.dtype == reference.dtype:
        return query, reference
    wider = "float64" if "float64" in (query.dtype, reference.dtype) else "float32"
    return _widened(query, wider), _widened(reference, wider)


def _widened(side: Rows, dtype: str) -> Rows:
    if _arrays.is_tensor(side.given):
        import torch

        return _arrays.rows(side.given.to(getattr(torch, dtype)), "query or reference")
    return _arrays.rows(side.given.astype(dtype), "query or reference")


def _lengths(side: Rows, own: NDArray, argument: str) -> None:
    if len(side) != len(own):
        raise ValueError(f"{argument} and {argument}_labels must have the same length, got {len(side)} and {len(own)}")


def _no_nan(side: Rows, argument: str) -> None:
    row = _arrays.first_nan_row(side)
    if row is not None:
        raise ValueError(f"{argument} must not contain NaN, found NaN in row {row}")


def _starts_with_query(inputs: Inputs) -> None:
    query, reference = inputs.query, inputs.reference
    check_included(len(query), len(reference))
    step = max(1, _BLOCK_BYTES // (8 * max(1, query.features)))
    for start in range(0, len(query), step):
        stop = min(start + step, len(query))
        same = query.given[start:stop] == reference.given[start:stop]
        if not bool(same.all()):
            row = start + int((~same).any(-1).nonzero()[0].reshape(-1)[0])
            raise ValueError(
                "reference must start with the rows of query, in their order, when ref_includes_query is set; "
                f"row {row} differs"
            )
    own, theirs = labels.comparable(inputs.query_labels, inputs.reference_labels[: len(query)])
    if own.shape != theirs.shape or not np.asarray(own == theirs, dtype=bool).all():
        raise ValueError(
            "reference_labels must start with query_labels, in their order, when ref_includes_query is set"
        )
