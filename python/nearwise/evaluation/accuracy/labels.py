"""Labels by identity: numbers by value, strings by their characters, never through a float32.

Every label becomes the number of its class, so that the rest of an evaluation compares small integers.
"""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearwise import _arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Whole numbers up to here are themselves in float64.
_EXACT = 1 << 53


class Classes(NamedTuple):
    """Class numbers of two sides.

    Attributes
    ----------
    values : numpy.ndarray
        The distinct query labels, ascending; a label's position is its class number.
    query : numpy.ndarray of int64
        Class number of every query.
    reference : numpy.ndarray of int64
        Class number of every reference, -1 for a label that no query has.
    """

    values: NDArray[Any]
    query: NDArray[np.int64]
    reference: NDArray[np.int64]


def read(given: Any, argument: str) -> NDArray[Any]:
    """Return labels as an array on the CPU: of numbers, of strings (dtype object), or of numbers of any size (object).

    Raises
    ------
    TypeError
        Something that is neither an array, a tensor nor a list, or elements of another or of mixed type.
    ValueError
        No dimension, or NaN.
    """
    array = _array(given, argument)
    if array.ndim == 0:
        raise ValueError(f"{argument} must hold one label per row, got shape ()")
    if array.dtype.kind in "UST" or array.dtype == object:
        array = _objects(array, argument)
    elif array.dtype.kind not in "biuf":
        raise TypeError(f"{argument} must be numbers or strings, got dtype {array.dtype}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        row = int(np.isnan(array).reshape(len(array), -1).any(axis=1).argmax())
        raise ValueError(f"{argument} must not contain NaN, which equals nothing, found it in row {row}")
    return array


def is_text(labels: NDArray[Any]) -> bool:
    """Whether `labels`, as `read` returns them, are strings."""
    return labels.dtype == object and labels.size > 0 and isinstance(labels.flat[0], str | bytes)


def identify(query: NDArray[Any], reference: NDArray[Any]) -> Classes:
    """Return the class numbers of labels (one dimension) that `read` returned.

    Raises
    ------
    TypeError
        One side holds strings and the other numbers.
    """
    if query is reference:
        values, numbers = np.unique(query, return_inverse=True)
        numbers = numbers.astype(np.int64, copy=False)
        return Classes(values, numbers, numbers)
    given = query
    query, reference = comparable(query, reference)
    _, first, numbers = np.unique(query, return_index=True, return_inverse=True)
    distinct = query[first]
    found = np.full(len(reference), -1, dtype=np.int64)
    if len(distinct):
        places = np.minimum(np.searchsorted(distinct, reference), len(distinct) - 1)
        same = np.asarray(distinct[places] == reference, dtype=bool)
        found[same] = places[same]
    return Classes(given[first], numbers.astype(np.int64, copy=False), found)


def rows(query: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct labels, ascending, and each query's position among them; labels may be rows of numbers."""
    values, numbers = np.unique(query, axis=0, return_inverse=True)
    return values, numbers.reshape(-1).astype(np.int64, copy=False)


def _array(given: Any, argument: str) -> NDArray[Any]:
    if _arrays.is_tensor(given):
        tensor = given.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            tensor = tensor.float()
        return tensor.numpy()  # type: ignore[no-any-return]
    if isinstance(given, np.ndarray):
        return np.asarray(given)
    if isinstance(given, list | tuple):
        array = np.asarray(given) if _is_regular(given) else np.empty(0, dtype=object)
        if array.dtype.kind in "biuf" or not len(given):
            return array
        # NumPy would turn a mixture of numbers and strings into strings, and cut trailing zero bytes off.
        exact = np.empty(len(given), dtype=object)
        exact[:] = given
        return exact
    raise TypeError(f"{argument} must be an array, a tensor or a list, got {type(given).__name__}")


def _is_regular(given: list[Any] | tuple[Any, ...]) -> bool:
    kinds = {type(label) for label in given}
    return not kinds & {str, bytes} and len({np.shape(label) for label in given}) <= 1


def _objects(array: NDArray[Any], argument: str) -> NDArray[Any]:
    array = array.astype(object)
    for kind in (str, bytes, Real):
        if all(isinstance(label, kind) for label in array.flat):
            break
    else:
        kinds = sorted({type(label).__name__ for label in array.flat})
        raise TypeError(f"{argument} must all be strings or all be numbers, got {', '.join(kinds)}")
    if any(label != label for label in array.flat):
        raise ValueError(f"{argument} must not contain NaN, which equals nothing")
    return array


def comparable(left: NDArray[Any], right: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both in one dtype in which equal values and no others are equal.

    Raises
    ------
    TypeError
        One side holds strings and the other numbers.
    """
    if left.size and right.size and is_text(left) != is_text(right):
        forms = ["strings" if is_text(side) else "numbers" for side in (left, right)]
        raise TypeError(
            f"query_labels and reference_labels must both be strings or both be numbers, got {forms[0]} and {forms[1]}"
        )
    kinds = left.dtype.kind + right.dtype.kind
    if "O" in kinds:
        return left.astype(object), right.astype(object)
    if "f" in kinds and set(kinds) & set("biu"):
        whole = left if left.dtype.kind != "f" else right
        if whole.size and (int(whole.max()) > _EXACT or int(whole.min()) < -_EXACT):
            return left.astype(object), right.astype(object)
    both = np.result_type(left.dtype, right.dtype)
    if set(kinds) == set("iu") and both.kind == "f":
        return left.astype(object), right.astype(object)
    return left.astype(both, copy=False), right.astype(both, copy=False)
