"""Records on disk: a CSV file for each group beside one SQLite database."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearwise.logging_presets.csv_table import Columns, CsvTable, file_stem
from nearwise.logging_presets.database import ITERATION, Database, identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class RecordWriter:
    """Collects series of values and appends them to ``<folder>/<group>.csv`` and ``<folder>/logs.db``.

    The database is written first, in one transaction for all groups, and decides. CSV files are appended to; one that a
    killed process left behind the database is completed when the folder is opened again.

    Parameters
    ----------
    folder : path
        Made if missing.
    global_db_path : path, optional
        A database of several experiments to write to as well.
    experiment_name : str, optional
        The name in it; needed with `global_db_path`.
    is_new_experiment : bool
        Whether the experiment must not have records in it yet.
    save_lists : bool
        Keep values that are lists; otherwise they are dropped.

    Raises
    ------
    ValueError
        If `global_db_path` comes without `experiment_name`, or a new experiment has records.

    Examples
    --------
    >>> import tempfile
    >>> writer = RecordWriter(tempfile.mkdtemp())
    >>> writer.append("losses", "total_loss", 0.5, 1)
    >>> writer.save_records()
    >>> writer.query("SELECT total_loss FROM losses", return_dict=True)
    {'total_loss': [0.5]}
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        global_db_path: str | os.PathLike[str] | None = None,
        experiment_name: str | None = None,
        is_new_experiment: bool = True,
        save_lists: bool = False,
    ) -> None:
        if global_db_path is not None and experiment_name is None:
            raise ValueError("global_db_path needs experiment_name, got None")
        self.folder = str(folder)
        self.save_lists = save_lists
        self.experiment_name = experiment_name
        self.records: dict[str, dict[str, dict[Any, Any]]] = {}
        self._tables: dict[str, CsvTable] = {}
        os.makedirs(folder, exist_ok=True)
        self.local_db = Database(os.path.join(folder, "logs.db"))
        self.global_db = (
            None
            if global_db_path is None
            else Database(global_db_path, experiment=experiment_name, is_new=is_new_experiment)
        )
        for group in self.local_db.tables():
            _complete(self._csv(group), group, self.local_db)

    def append(self, group_name: str, series_name: str, input_val: Any, iteration: Any) -> None:
        """Take a value of a series; the last one for an iteration counts. It is on disk after `save_records`.

        Raises
        ------
        TypeError
            If it is no number, string, bytes, datetime or None, nor a list of numbers and strings.
        ValueError
            If it is an integer of more than 64 bits.
        """
        value = _storable(plain(input_val), group_name, series_name)
        self.records.setdefault(group_name, {}).setdefault(series_name, {})[iteration] = value

    def save_records(self) -> None:
        """Append what was taken since the last time to all files."""
        groups = {group: self._columns(series) for group, series in self.records.items()}
        groups = {group: columns for group, columns in groups.items() if len(columns) > 1}
        if groups:
            self.local_db.write(groups)
            for group, columns in groups.items():
                self._csv(group).append(columns)
            if self.global_db is not None:
                self.global_db.write(groups)
        self.records = {}

    def get_db(self, use_global_db: bool) -> Database:
        """Return the local or the global database.

        Raises
        ------
        ValueError
            If there is no global one.
        """
        if not use_global_db:
            return self.local_db
        if self.global_db is None:
            raise ValueError("use_global_db needs a global_db_path, which was not given")
        return self.global_db

    def query(
        self, query: str, values: Sequence[Any] = (), use_global_db: bool = False, return_dict: bool = False
    ) -> Any:
        """Return the rows of a SQL query, or with `return_dict` a list for each column (empty without rows)."""
        found = self.get_db(use_global_db).query(query, values)
        if return_dict:
            return {name: [row[name] for row in found] for name in found[0].keys()} if found else {}  # noqa: SIM118
        return found

    def table_exists(self, table_name: str, use_global_db: bool = False) -> bool:
        """Return whether a group has records on disk."""
        return self.get_db(use_global_db).table_exists(table_name)

    def _csv(self, group: str) -> CsvTable:
        """Return the CSV file of a group."""
        if group not in self._tables:
            self._tables[group] = CsvTable(Path(self.folder, f"{file_stem(group)}.csv"))
        return self._tables[group]

    def _columns(self, series: Mapping[str, Mapping[Any, Any]]) -> Columns:
        """Return the series of a group as columns over all their iterations."""
        kept = {
            name: values
            for name, values in series.items()
            if self.save_lists or not any(isinstance(value, list) for value in values.values())
        }
        iterations = sorted({i for values in kept.values() for i in values}, key=lambda i: (isinstance(i, str), i))
        columns: Columns = {ITERATION: iterations}
        columns.update({name: [values.get(i) for i in iterations] for name, values in kept.items()})
        return columns


def plain(value: Any) -> Any:
    """Return a value as a Python number, string or list; a sequence of one is its element.

    Examples
    --------
    >>> import numpy as np
    >>> plain(np.float32(0.5)), plain([3]), plain(np.arange(2)), plain("a")
    (0.5, 3, [0, 1], 'a')
    """
    if hasattr(value, "detach"):
        value = value.detach()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return plain(value[0]) if len(value) == 1 else [plain(x) for x in value]
    return value


def _storable(value: Any, group: str, series: str) -> Any:
    """Return a value if every file can hold it: one that none can would keep all others from being saved."""
    where = f"series {series!r} of group {group!r}"
    if isinstance(value, list):
        for part in value:
            if isinstance(part, bytes | datetime.datetime):
                raise TypeError(f"values must be lists of numbers or strings, got a {type(part).__name__} in {where}")
            _storable(part, group, series)
    elif not (value is None or isinstance(value, int | float | str | bytes | datetime.datetime)):
        raise TypeError(f"values must be numbers, strings or lists of them, got {type(value).__name__} in {where}")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"values must be integers of at most 64 bits, got {value} in {where}")
    return value


def _complete(table: CsvTable, group: str, database: Database) -> None:
    """Append to a CSV file the rows that only the database has."""
    found = database.query(f"SELECT * FROM {identifier(group)} ORDER BY id LIMIT -1 OFFSET ?", (table.count_rows(),))
    if found and ITERATION in found[0].keys():  # noqa: SIM118 - a Row iterates over its values
        names = [name for name in found[0].keys() if name != "id"]  # noqa: SIM118
        table.append({name: [row[name] for row in found] for name in names})
