"""One CSV file of records: rows are appended, with a header wherever the columns change."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING, Any

from nearwise.logging_presets.database import ITERATION

if TYPE_CHECKING:
    from pathlib import Path

Columns = dict[str, list[Any]]


def file_stem(group: str) -> str:
    """Return the name of a group's file without its suffix.

    Examples
    --------
    >>> file_stem("accuracies_A/B_vs_self")
    'accuracies_A_B_vs_self'
    """
    return group.replace(os.sep, "_")


class CsvTable:
    """A CSV file whose first column is the iteration.

    Each save takes time for its own rows only: the file is read once, to find its last header, and cut once where a
    killed process left a part of a line.

    Parameters
    ----------
    path : Path
        The file; made when first written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._header: list[str] | None = None
        self._opened = False

    def count_rows(self) -> int:
        """Return how many whole rows the file has, headers aside."""
        return sum(1 for row in self._whole_rows() if row[0] != ITERATION)

    def append(self, columns: Columns) -> None:
        """Append rows; a header goes before them where the columns differ from the last one's."""
        if not self._opened:
            self._open()
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        if self._header != list(columns):
            writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        with self.path.open("ab") as file:
            file.write(text.getvalue().encode())
        self._header = list(columns)

    def _open(self) -> None:
        """Find the last header, and cut off a last line that is not whole."""
        headers = [row for row in self._whole_rows() if row[0] == ITERATION]
        self._header = headers[-1] if headers else None
        if self.path.exists():
            os.truncate(self.path, len(self._whole_lines()))
        self._opened = True

    def _whole_rows(self) -> list[list[str]]:
        """Return the rows of the whole lines.

        Raises
        ------
        ValueError
            If the file is no CSV in UTF-8.
        """
        try:
            text = self._whole_lines().decode()
            return [row for row in csv.reader(io.StringIO(text), strict=True) if row]
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{self.path} must be a CSV file of records, got something else: {error}") from error

    def _whole_lines(self) -> bytes:
        """Return the bytes of the file up to its last line break; none if there is no file."""
        if not self.path.exists():
            return b""
        content = self.path.read_bytes()
        return content[: content.rfind(b"\n") + 1]
