"""Finding what is to be recorded in a trainer's objects, and handing it to the writers."""

from __future__ import annotations

import datetime
import hashlib
import json
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearwise._files import replacing
from nearwise.logging_presets.record_writer import RecordWriter, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_LONGEST = 64
# Containers whose type says nothing.
_ANONYMOUS = ("ModuleDict", "ModuleList")


class RecordKeeper:
    """Records numbers, and the recordable attributes of objects, as series in groups.

    Parameters
    ----------
    tensorboard_writer : SummaryWriter, optional
        Gets every number as scalar ``<group>/<series>``.
    record_writer : RecordWriter, optional
        Gets everything.
    attributes_to_search_for : iterable of str, optional
        Attributes of objects that list the names of further attributes to record, such as ``_record_these``.

    Attributes
    ----------
    hash_map : dict
        For each shortened group name the whole one; kept in ``hash_map.json`` beside the records.
    """

    def __init__(
        self,
        tensorboard_writer: Any = None,
        record_writer: RecordWriter | None = None,
        attributes_to_search_for: Iterable[str] | None = None,
    ) -> None:
        self.tensorboard_writer = tensorboard_writer
        self.record_writer = record_writer
        self.attributes_to_search_for = list(attributes_to_search_for or ())
        self.hash_map: dict[str, str] = {}
        if record_writer is not None and self._hash_file.exists():
            self.hash_map = json.loads(self._hash_file.read_text())

    def append_primitive(self, group: str, series: str, value: Any, global_iteration: Any) -> None:
        """Record one value of a series.

        Raises
        ------
        ValueError
            If the group has no name.
        """
        if group == "":
            raise ValueError("group must have a name, got an empty string")
        name = shortened(group)
        if name != group:
            self.hash_map[name] = group
        self.append_data(name, series, value, global_iteration)

    def append_data(self, group_name: str, series_name: str, value: Any, iteration: Any) -> None:
        """Hand one value to the writers, under the group name as it is."""
        number = plain(value)
        if self.tensorboard_writer and isinstance(number, Number) and isinstance(iteration, int):
            self.tensorboard_writer.add_scalar(f"{group_name}/{series_name}", number, iteration)
        if self.record_writer:
            self.record_writer.append(group_name, series_name, number, iteration)

    def update_records(
        self,
        record_these: Mapping[str, Any],
        global_iteration: Any,
        custom_attr_func: Callable[[Any], Mapping[str, Any]] | None = None,
        parent_name: str = "",
        recursive_types: Iterable[type] | None = None,
    ) -> None:
        """Record values, and the recordable attributes of objects.

        Parameters
        ----------
        record_these : mapping
            Values are recorded as series of the group `parent_name`. A mapping becomes a group of its own, and so does
            an object, by its name here and that of its class.
        global_iteration : int
            The position in every series.
        custom_attr_func : callable, optional
            From an object to more values of its group.
        parent_name : str
            The group that names are joined to.
        recursive_types : iterable of type, optional
            Attributes of these types are searched too; for ``torch.nn.Module``, submodules.
        """
        walk = _Walk(self, global_iteration, custom_attr_func, tuple(recursive_types or ()))
        walk.values(record_these, parent_name)

    def get_record(self, group_name: str) -> dict[str, dict[Any, Any]]:
        """Return what was recorded of a group since the last saving."""
        return self._writer.records.get(group_name, {})

    def save_records(self) -> None:
        """Write everything to disk."""
        if self.record_writer is not None:
            self.record_writer.save_records()
            if self.hash_map and (
                not self._hash_file.exists() or json.loads(self._hash_file.read_text()) != self.hash_map
            ):
                with replacing(self._hash_file) as file:
                    file.write(json.dumps(self.hash_map, indent=2).encode())
        if self.tensorboard_writer is not None:
            self.tensorboard_writer.flush()

    def query(self, query: str, *args: Any, **kwargs: Any) -> Any:
        """Return what `RecordWriter.query` does."""
        return self._writer.query(query, *args, **kwargs)

    def table_exists(self, table_name: str, *args: Any, **kwargs: Any) -> bool:
        """Return whether a group has records on disk."""
        return self._writer.table_exists(table_name, *args, **kwargs)

    @property
    def _writer(self) -> RecordWriter:
        """The record writer, which reading needs."""
        if self.record_writer is None:
            raise ValueError("record_writer is needed to read records, got None")
        return self.record_writer

    @property
    def _hash_file(self) -> Path:
        """Where shortened names are kept."""
        return Path(self._writer.folder, "hash_map.json")


def shortened(group: str) -> str:
    """Return a group name fit for a file: more than 64 characters between the first and last underscore are hashed.

    Examples
    --------
    >>> shortened("accuracies_normalized_VAL_vs_self")
    'accuracies_normalized_VAL_vs_self'
    >>> len(shortened("accuracies_" + "x" * 200 + "_self"))
    80
    """
    first, *middle, last = group.split("_") if group.count("_") > 1 else (group, "")
    joined = "_".join(middle)
    if len(joined) <= _LONGEST:
        return group
    return f"{first}_{hashlib.sha256(joined.encode()).hexdigest()}_{last}"


class _Walk:
    """One search through objects for values to record."""

    def __init__(
        self,
        keeper: RecordKeeper,
        iteration: Any,
        custom: Callable[[Any], Mapping[str, Any]] | None,
        recursive: tuple[type, ...],
    ) -> None:
        self.keeper, self.iteration, self.custom, self.recursive = keeper, iteration, custom, recursive
        self.visited: set[int] = set()

    def values(self, these: Mapping[str, Any], group: str) -> None:
        """Record the entries of a mapping in a group."""
        for name, value in these.items():
            if value is None:
                continue
            if _is_value(value):
                self.keeper.append_primitive(group, name, value, self.iteration)
            elif isinstance(value, dict):
                self.values(value, _joined(group, name))
            else:
                self.thing(value, name, group)

    def thing(self, thing: Any, name: str, group: str) -> None:
        """Record the recordable attributes of an object, and of what it is made of."""
        if id(thing) in self.visited:
            return
        self.visited.add(id(thing))
        wrapped = getattr(thing, "module", thing)
        own = name if type(wrapped).__name__ in _ANONYMOUS else f"{name}_{type(wrapped).__name__}"
        listed = [n for a in self.keeper.attributes_to_search_for for n in getattr(wrapped, a, None) or ()]
        self.values({n: getattr(wrapped, n) for n in listed}, _joined(group, own))
        if self.custom is not None:
            self.values(self.custom(wrapped), _joined(group, own))
        if self.recursive:
            for attribute, value in list(getattr(thing, "__dict__", {}).items()):
                self.parts(value, attribute, own)

    def parts(self, value: Any, attribute: str, owner: str) -> None:
        """Record what an attribute holds, if it is of the types to search: an object, a mapping or list of objects."""
        things = tuple(kind for kind in self.recursive if kind is not dict)
        if things and isinstance(value, things):
            self.thing(value, f"{owner}_{attribute}", "")
        elif dict in self.recursive and isinstance(value, dict):
            # Of the tables that every module has, only the submodules hold anything recordable.
            if attribute == "_modules" or not attribute.startswith("_"):
                group = f"{owner}_{attribute}"
                self.values({k: v for k, v in value.items() if _is_value(v) or isinstance(v, self.recursive)}, group)
        elif isinstance(value, list | tuple) and value and all(isinstance(x, self.recursive) for x in value):
            for i, part in enumerate(value):
                self.values({f"{owner}_{attribute}{i}": part}, "")


def _joined(group: str, name: str) -> str:
    """Return a name within a group."""
    return f"{group}_{name}" if group else name


def _is_value(value: Any) -> bool:
    """Return whether something is recorded itself: a number, a string, a date, an array of numbers."""
    simple = isinstance(value, Number | str | bytes | datetime.datetime | list)
    return simple or (hasattr(value, "tolist") and hasattr(value, "dtype"))
