"""Reading recorded results back: of a group the rows, of a tester's split the group and the column of a metric."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from nearwise.logging_presets.csv_table import file_stem
from nearwise.logging_presets.database import ITERATION, identifier
from nearwise.logging_presets.record_keeper import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def group_name(base: str, query: str, references: Iterable[str]) -> str:
    """Return the name of the group for a query split and its references.

    Examples
    --------
    >>> group_name("accuracies", "val", ["val", "train"]), group_name("accuracies", "val", ["val"])
    ('accuracies_VAL_vs_TRAIN_and_VAL', 'accuracies_VAL_vs_self')
    """
    joined = "_and_".join(name.upper() for name in sorted(references))
    return f"{base}_{query.upper()}_vs_{'self' if joined == query.upper() else joined}"


def recorded_group(record_keeper: Any, base: str, key: str) -> str:
    """Return the group of a result that this process has not computed, from what is recorded.

    Parameters
    ----------
    record_keeper : RecordKeeper
        Whose records to look in.
    base : str
        The group name up to the splits.
    key : str
        The key of the result: the query split, or ``<query>_vs_<A>_and_<B>``.

    Raises
    ------
    ValueError
        If the query split alone is asked for and recorded against several reference sets: which of them an evaluation
        calls by the split's name, its order decides.
    """
    by_itself = group_name(base, key, [key])
    query, separator, references = key.partition("_vs_")
    if separator:
        exact = group_name(base, query, references.split("_and_"))
        if record_keeper.table_exists(shortened(exact)):
            return exact
    rows = record_keeper.query("SELECT name FROM sqlite_master WHERE type = 'table'")
    names = [record_keeper.hash_map.get(row["name"], row["name"]) for row in rows]
    start = f"{base}_{key.upper()}_vs_"
    found = sorted(name.removeprefix(start) for name in names if name.startswith(start))
    if len(found) > 1:
        keys = [f"{key}_vs_{key if name == 'self' else name}" for name in found]
        raise ValueError(f"split {key!r} is recorded against several reference sets: ask for one of {keys}")
    return start + found[0] if found else by_itself


def check_apart(splits: Mapping[str, str]) -> None:
    """Check that results have groups of their own.

    Parameters
    ----------
    splits : mapping of str to str
        From the key of each result to the name of its group.

    Raises
    ------
    ValueError
        If two groups have one table or one file: names of splits differ by more than case and separators.

    Examples
    --------
    >>> check_apart({"val": "accuracies_VAL_vs_self", "Val": "accuracies_VAL_vs_self"})
    Traceback (most recent call last):
    ValueError: splits 'val' and 'Val' would have one record, 'accuracies_VAL_vs_self': give them other names
    """
    seen: dict[str, str] = {}
    for key, group in splits.items():
        other = seen.setdefault(file_stem(group).upper(), key)
        if other != key:
            raise ValueError(f"splits {other!r} and {key!r} would have one record, {group!r}: give them other names")


def columns(record_keeper: Any, group: str) -> list[str]:
    """Return the columns of a group's table; none if there is no table."""
    table = identifier(shortened(group))
    return [row["name"] for row in record_keeper.query(f"PRAGMA table_info({table})") if row["name"] != "id"]


def rows(record_keeper: Any, group: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of a group, the last one recorded for each epoch; a number that is missing is NaN."""
    found = newest(record_keeper, group, "epoch", ["epoch", *names])
    return [{name: math.nan if row[name] is None else row[name] for name in row.keys()} for row in found]  # noqa: SIM118


def newest(record_keeper: Any, group: str, key: str, names: Sequence[str]) -> list[Any]:
    """Return the last row recorded for each value of the column `key`, in the order in which the values came first."""
    table = identifier(shortened(group))
    wanted = ", ".join(identifier(name) for name in dict.fromkeys(names))
    each = f"SELECT min(id) AS _first, max(id) AS _last FROM {table} WHERE {identifier(key)} IS NOT NULL"
    found = record_keeper.query(
        f"SELECT {wanted} FROM {table} JOIN ({each} GROUP BY {identifier(key)}) ON id = _last ORDER BY _first"
    )
    return list(found)


def metric_column(tester: Any, metric: str, available: Iterable[str]) -> str:
    """Return the column of a metric: its average over levels if there is one, else its level.

    Raises
    ------
    KeyError
        If neither is available.
    """
    available = list(available)
    average = tester.accuracies_keyname(metric, average=True)
    if average in available:
        return str(average)
    level = tester.label_hierarchy_level
    several = level == "all" or isinstance(level, list | tuple)
    if not several or getattr(tester, "label_levels", None):
        name = tester.accuracies_keyname(metric, label_hierarchy_level=level)
        if name in available:
            return str(name)
    if several:
        # Which levels there were is known to the records alone when another process evaluated.
        suffix = average.partition(metric)[2]
        pattern = re.compile(re.escape(metric) + r"_level\d+" + re.escape(suffix))
        for name in sorted(available):
            if pattern.fullmatch(name):
                return name
    shown = [name for name in available if name not in ("epoch", ITERATION)]
    raise KeyError(f"no values of {metric!r}: there are {shown}")


def best(found: Iterable[dict[str, Any]], column: str, ignore_epoch: Iterable[Any]) -> dict[str, Any] | None:
    """Return the row with the greatest value, the earliest of equals; one with NaN only if there is nothing else."""
    ignored = set(ignore_epoch)
    chosen: dict[str, Any] | None = None
    for row in found:
        if row["epoch"] not in ignored and (chosen is None or is_better(row[column], chosen[column])):
            chosen = row
    return chosen


def is_better(value: float, than: float) -> bool:
    """Return whether a value takes the place of an earlier one."""
    return value > than or (math.isnan(than) and not math.isnan(value))
