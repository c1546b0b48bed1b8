"""The records of an experiment as SQLite tables: one for each group, one row for each iteration."""

from __future__ import annotations

import datetime
import json
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

ITERATION = "~iteration~"
_EXPERIMENTS = "experiment_ids"


class Database:
    """A SQLite file of records.

    A local file holds one experiment. A global one holds several by name: table ``experiment_ids`` lists them and every
    other table has a column ``experiment_id``.

    Parameters
    ----------
    path : path
        The file; made when first written.
    experiment : str, optional
        Makes the file a global one and names the experiment in it.
    is_new : bool
        Whether the experiment begins now: it then must have no records yet.

    Raises
    ------
    ValueError
        If an experiment that should begin has records.
    """

    def __init__(self, path: str | os.PathLike[str], *, experiment: str | None = None, is_new: bool = False) -> None:
        self.db_path = Path(path)
        self.experiment = experiment
        if experiment is not None:
            with self._connected() as connection, connection:
                _begin(connection, experiment, is_new)

    def write(self, groups: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Append rows to the tables of some groups, all of them or, on an error, none.

        Parameters
        ----------
        groups : mapping of mapping of sequence
            For each group its columns, of one length. Values are numbers, strings, lists, datetimes or None. Tables and
            columns that are missing are made.
        """
        with self._connected() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            number = self._experiment_number(connection)
            for group, columns in groups.items():
                _append(connection, group, columns, number)
            if number is not None:
                connection.execute(f"UPDATE {_EXPERIMENTS} SET has_records = 1 WHERE id = ?", (number,))

    def query(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Return the rows of a SQL query; lists come back as lists.

        Raises
        ------
        sqlite3.OperationalError
            If a table or column does not exist.
        """
        with self._connected() as connection:
            return connection.execute(query, tuple(values)).fetchall()

    def table_exists(self, table_name: str) -> bool:
        """Return whether there is such a table."""
        return bool(self.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table_name,)))

    def tables(self) -> list[str]:
        """Return the names of the groups."""
        found = self.query("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        return [row["name"] for row in found if row["name"] != _EXPERIMENTS]

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for a while; another process may hold the file until then.

        Raises
        ------
        ValueError
            If the file is damaged, or no database.
        """
        with closing(sqlite3.connect(self.db_path, timeout=60)) as connection:
            connection.row_factory = _row
            try:
                yield connection
            except sqlite3.DatabaseError as error:
                # The classes derived from it say what is wrong with a statement.
                if type(error) is not sqlite3.DatabaseError:
                    raise
                raise ValueError(f"{self.db_path} must be a whole SQLite database: {error}") from error

    def _experiment_number(self, connection: sqlite3.Connection) -> int | None:
        """Return the experiment's id in a global file."""
        if self.experiment is None:
            return None
        found = connection.execute(f"SELECT id FROM {_EXPERIMENTS} WHERE experiment_name = ?", (self.experiment,))
        return int(found.fetchone()["id"])


def identifier(name: str) -> str:
    """Return a table or column name for SQL; unlike a double-quoted one, a missing name is never taken for a string."""
    return f"[{name.replace(']', '_')}]"


def _begin(connection: sqlite3.Connection, experiment: str, is_new: bool) -> None:
    """Make the experiment's entry in a global file."""
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {_EXPERIMENTS} "
        "(id integer primary key autoincrement, experiment_name text unique, has_records integer)"
    )
    found = connection.execute(
        f"SELECT has_records FROM {_EXPERIMENTS} WHERE experiment_name = ?", (experiment,)
    ).fetchone()
    if is_new and found is not None and found["has_records"]:
        raise ValueError(
            f"experiment_name {experiment!r} has records already: set is_new_experiment=False to go on with it"
        )
    if found is None:
        connection.execute(f"INSERT INTO {_EXPERIMENTS} (experiment_name, has_records) VALUES (?, 0)", (experiment,))


def _append(
    connection: sqlite3.Connection, group: str, columns: Mapping[str, Sequence[Any]], number: int | None
) -> None:
    """Append rows to the table of one group."""
    names, kinds, values = [], [], []
    for name, column in columns.items():
        kind = _kind(column)
        names.append(identifier(f"{name}_list" if kind == "json" else name))
        kinds.append(kind)
        values.append([_stored(value) for value in column])
    if number is not None:
        names.insert(0, "experiment_id")
        kinds.insert(0, f"integer REFERENCES {_EXPERIMENTS}(id) ON UPDATE CASCADE ON DELETE CASCADE")
        values.insert(0, [number] * len(values[0]))
    table = identifier(group)
    declared = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    connection.execute(f"CREATE TABLE IF NOT EXISTS {table} (id integer primary key autoincrement, {declared})")
    present = {identifier(row["name"]).lower() for row in connection.execute(f"PRAGMA table_info({table})")}
    for name, kind in zip(names, kinds, strict=True):
        if name.strip("[]") != "experiment_id" and name.lower() not in present:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
    marks = ", ".join("?" * len(names))
    connection.executemany(
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", list(zip(*values, strict=True))
    )


def _kind(column: Sequence[Any]) -> str:
    """Return the declared type of a column."""
    value = next((value for value in column if value is not None), None)
    for kind, types in (("json", list), ("timestamp", datetime.datetime), ("text", str), ("integer", int)):
        if isinstance(value, types):
            return kind
    return "real"


def _stored(value: Any) -> Any:
    """Return a value as SQLite keeps it; NaN becomes NULL there."""
    if isinstance(value, list):
        return json.dumps(value).encode()
    return value.isoformat(" ") if isinstance(value, datetime.datetime) else value


def _row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> sqlite3.Row:
    """Return a row with lists decoded."""
    names = [column[0] for column in cursor.description]
    decoded = tuple(
        json.loads(value) if isinstance(value, bytes) and name.endswith("_list") else value
        for name, value in zip(names, values, strict=True)
    )
    return sqlite3.Row(cursor, decoded)
