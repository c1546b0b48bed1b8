"""What is said of wrong arguments: one function for each that several calls take."""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

THREADS_VARIABLE = "NEARWISE_NUM_THREADS"
METHOD_VARIABLE = "NEARWISE_METHOD"
METHODS = ("auto", "f32", "i8", "direct")
MOST_THREADS = 4096
LARGEST_BATCH = 2**31 - 1


def positive(argument: str, value: object) -> int:
    """Return `value` as an int, or say that `argument` must be a positive integer."""
    return _integer(argument, value, 1, "a positive integer")


def natural(argument: str, value: object) -> int:
    """Return `value` as an int, or say that `argument` must be an integer of at least 0."""
    return _integer(argument, value, 0, "an integer of at least 0")


def _integer(argument: str, value: object, least: int, expected: str) -> int:
    # bool counts as an integer to Python, and truth values as positions to NumPy and torch.
    is_truth = isinstance(value, bool) or getattr(value, "dtype", "").__str__() in ("bool", "torch.bool")
    try:
        number = None if is_truth else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{argument} must be {expected}, got {value!r}")
    if number < least:
        raise ValueError(f"{argument} must be {expected}, got {number}")
    return number


def check_flag(argument: str, value: object) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{argument} must be a bool, got {value!r}")


def checked_flag(argument: str, value: object) -> bool:
    """Return `value` as a bool, or say that `argument` must be one.

    Examples
    --------
    >>> checked_flag("stats", 1)
    Traceback (most recent call last):
        ...
    TypeError: stats must be a bool, got 1
    """
    check_flag(argument, value)
    return bool(value)


def check_callable(argument: str, value: object) -> None:
    """Refuse what is given and cannot be called.

    Examples
    --------
    >>> check_callable("knn_func", 3)
    Traceback (most recent call last):
        ...
    TypeError: knn_func must be callable or None, got 3
    """
    if not (value is None or callable(value)):
        raise TypeError(f"{argument} must be callable or None, got {value!r}")


def torch_device(argument: str, device: Any) -> torch.device:
    """Return a device of torch's, given as one or by name.

    Examples
    --------
    >>> torch_device("data_device", "foo")
    Traceback (most recent call last):
        ...
    ValueError: data_device must be one that torch knows, got 'foo'
    """
    import torch

    try:
        return torch.device(device)
    except TypeError as error:
        raise TypeError(f"{argument} must be a string or a torch.device, got {device!r}") from error
    except RuntimeError as error:
        raise ValueError(f"{argument} must be one that torch knows, got {device!r}") from error


def check_nan_policy(nan_policy: object) -> None:
    """Refuse what is no policy."""
    if not isinstance(nan_policy, str):
        raise TypeError(f"nan_policy must be raise or last, got {nan_policy!r}")
    if nan_policy not in ("raise", "last"):
        raise ValueError(f"nan_policy must be raise or last, got {nan_policy!r}")


def check_included(queries: int, references: int) -> None:
    """Refuse a reference that is too short to start with the query."""
    if queries > references:
        raise ValueError(
            "reference must start with the rows of query when ref_includes_query is set, "
            f"got {queries} query rows and {references} reference rows"
        )


def checked_k(k: object, queries: int, references: int, ref_includes_query: bool) -> int:
    """Return `k` as an int between 1 and what a query can have."""
    number = positive("k", k)
    if references == 0:
        raise ValueError("reference must have at least one row, got none")
    if ref_includes_query:
        check_included(queries, references)
    available = references - bool(ref_includes_query)
    if number > available:
        without = " other than the query's own" if ref_includes_query else ""
        raise ValueError(f"k must be between 1 and {available}, the number of reference rows{without}, got {number}")
    return number


def checked_method(method: str | None) -> str:
    """Return the method asked for by argument or environment."""
    name, argument = method, "method"
    if name is None:
        name, argument = os.environ.get(METHOD_VARIABLE, "").strip() or "auto", METHOD_VARIABLE
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be a name, got {name!r}")
    if name not in METHODS:
        raise ValueError(f"{argument} must be auto, f32, i8 or direct, got {name!r}")
    return name


def given_batch(batch_size: object) -> int | None:
    """Return the batch size asked for, if one is; beyond any number of rows, one that the core can be told."""
    return None if batch_size is None else min(positive("batch_size", batch_size), LARGEST_BATCH)


def given_threads(threads: object, argument: str = "threads") -> int | None:
    """Return the number of threads asked for, if one is."""
    if threads is None:
        return None
    number = positive(argument, threads)
    if number > MOST_THREADS:
        raise ValueError(f"{argument} must be at most {MOST_THREADS}, got {number}")
    return number


def checked_threads(threads: object) -> int:
    """Return the number of threads asked for by argument or environment; 0 leaves it to the backend."""
    given = given_threads(threads)
    if given is not None:
        return given
    text = os.environ.get(THREADS_VARIABLE, "").strip()
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(f"{THREADS_VARIABLE} must be a positive integer, got {text!r}")
    return given_threads(int(text), THREADS_VARIABLE) or 0
