"""Scores and labels of pairs from files."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearwise.cli.damage import damage_named

Array = npt.NDArray[Any]
_WORDS = {"1": True, "true": True, "0": False, "false": False}


class ScoredPairs(NamedTuple):
    """One score and one label for each pair."""

    scores: Array
    labels: npt.NDArray[np.bool_]


def read_scored_pairs(scores: str, labels: str | None) -> ScoredPairs:
    """Read the pairs of two .npy files, or of two columns of one CSV or Parquet file.

    Parameters
    ----------
    scores
        An .npy file; or, without `labels`, a .csv or .parquet file. Its columns are those named `score` and `label`, or
        the only two. A CSV file begins with their names.
    labels
        An .npy file of bool, or of 0 and 1.

    Raises
    ------
    ValueError
        Another format, a damaged file, other columns, or labels that are neither bool nor 0 and 1.
    OSError
        A file cannot be read.
    """
    path = Path(scores)
    if labels is not None:
        return ScoredPairs(_read_npy(path), _as_bool(labels, _read_npy(Path(labels))))
    readers = {".csv": _read_csv, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path}: without a file of labels, expected a .csv or .parquet file of scores and labels")
    return reader(path)


def _read_npy(path: Path) -> Array:
    if path.suffix.lower() != ".npy":
        raise ValueError(f"{path}: unknown format {path.suffix!r}, expected an .npy file for scores and one for labels")
    with path.open("rb") as stream, damage_named(path, "an .npy file"):
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _read_csv(path: Path) -> ScoredPairs:
    try:
        return _pairs_of_csv(path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: not a CSV file in UTF-8: {error}") from None


def _pairs_of_csv(path: Path) -> ScoredPairs:
    with path.open(newline="", encoding="utf-8-sig") as stream:
        rows = csv.reader(stream)
        score, label = _columns(path, _header(path, next(rows, [])))
        scores, labels = [], []
        for number, row in enumerate(rows, start=2):
            if not row:
                continue
            try:
                scores.append(float(row[score]))
                labels.append(_WORDS[row[label].strip().lower()])
            except (ValueError, IndexError, KeyError):
                expected = "a number and a label of 0, 1, false or true"
                raise ValueError(f"{path}: line {number}: expected {expected}, got {row}") from None
    return ScoredPairs(np.array(scores, dtype=np.float64), np.array(labels, dtype=bool))


def _header(path: Path, names: list[str]) -> list[str]:
    """Return the names of the columns, or say that the file begins with a pair instead."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return names
    if numbers:
        raise ValueError(
            f"{path}: line 1: expected the names of the columns, such as score,label, got {','.join(names)}"
        )
    return names


def _read_parquet(path: Path) -> ScoredPairs:
    from nearwise.cli.parquet import read_pairs

    scores, labels = read_pairs(path, lambda names: _columns(path, names))
    return ScoredPairs(scores, _as_bool(str(path), labels))


def _columns(path: Path, names: list[str]) -> tuple[int, int]:
    """Return where the scores and the labels are."""
    plain = [name.strip().lower() for name in names]
    if "score" in plain and "label" in plain:
        return plain.index("score"), plain.index("label")
    if len(plain) == 2:
        # One name is enough to tell which is which.
        return (1, 0) if plain[0] == "label" or plain[1] == "score" else (0, 1)
    raise ValueError(
        f"{path}: expected columns named score and label, or two columns, got {', '.join(names) or 'none'}"
    )


def _as_bool(path: str, labels: Array) -> npt.NDArray[np.bool_]:
    if labels.dtype == np.dtype(bool):
        return labels
    if labels.dtype.kind in "iu" and np.isin(labels, (0, 1)).all():
        return labels.astype(bool)
    raise ValueError(f"{path}: labels must be bool, or 0 and 1, got {labels.dtype.name}")
