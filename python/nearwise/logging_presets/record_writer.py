"""Records on disk: a CSV file for each group beside one SQLite database."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearwise._files import replacing
from nearwise.logging_presets.database import ITERATION, Database, identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Columns = dict[str, list[Any]]


class RecordWriter:
    """Collects series of values and appends them to ``<folder>/<group>.csv`` and ``<folder>/logs.db``.

    The database is written first, in one transaction for all groups, and decides. CSV files are replaced whole; one
    that a killed process left behind the database is completed when the folder is opened again.

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
        os.makedirs(folder, exist_ok=True)
        self.local_db = Database(os.path.join(folder, "logs.db"))
        self.global_db = (
            None
            if global_db_path is None
            else Database(global_db_path, experiment=experiment_name, is_new=is_new_experiment)
        )
        for group in self.local_db.tables():
            _complete(self._csv_path(group), group, self.local_db)

    def append(self, group_name: str, series_name: str, input_val: Any, iteration: Any) -> None:
        """Take a value of a series; the last one for an iteration counts. It is on disk after `save_records`."""
        self.records.setdefault(group_name, {}).setdefault(series_name, {})[iteration] = plain(input_val)

    def save_records(self) -> None:
        """Append what was taken since the last time to all files."""
        groups = {group: self._columns(series) for group, series in self.records.items()}
        groups = {group: columns for group, columns in groups.items() if len(columns) > 1}
        if groups:
            self.local_db.write(groups)
            for group, columns in groups.items():
                _append_csv(self._csv_path(group), columns)
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

    def _csv_path(self, group: str) -> Path:
        """Return the CSV file of a group."""
        return Path(self.folder, f"{group.replace(os.sep, '_')}.csv")

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


def _append_csv(path: Path, columns: Columns) -> None:
    """Append rows to a CSV file, with a header where the columns are new or differ from the last header."""
    before = _whole_lines(path)
    headers = [row for row in csv.reader(io.StringIO(before)) if row and row[0] == ITERATION]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if not headers or headers[-1] != list(columns):
        writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    with replacing(path) as file:
        file.write(before.encode())
        file.write(text.getvalue().encode())


def _whole_lines(path: Path) -> str:
    """Return the text of a file up to its last line break; nothing if there is no file."""
    if not path.exists():
        return ""
    text = path.read_bytes().decode()
    return text[: text.rfind("\n") + 1]


def _complete(path: Path, group: str, database: Database) -> None:
    """Append to a CSV file the rows that only the database has."""
    present = sum(1 for row in csv.reader(io.StringIO(_whole_lines(path))) if row and row[0] != ITERATION)
    rows = database.query(f"SELECT * FROM {identifier(group)} ORDER BY id LIMIT -1 OFFSET ?", (present,))
    if rows and ITERATION in rows[0].keys():  # noqa: SIM118 - a Row iterates over its values
        names = [name for name in rows[0].keys() if name != "id"]  # noqa: SIM118
        _append_csv(path, {name: [row[name] for row in rows] for name in names})
