"""JSON as its standard has it: no Infinity, no NaN."""

import json
import math
from collections.abc import Mapping
from typing import Any


def strict_json(value: Any, *, indent: int | None = None) -> str:
    """Write a value as JSON; numbers that JSON cannot hold become null.

    Parameters
    ----------
    value
        Mappings with string keys, lists, tuples, strings, numbers, booleans and None.
    indent
        As `json.dumps` takes it.

    Examples
    --------
    >>> strict_json({"threshold": float("inf"), "value": 0.5})
    '{"threshold": null, "value": 0.5}'
    """
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
