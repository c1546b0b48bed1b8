"""Parquet files: a matrix from one, neighbours into one. The only module that names pyarrow."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Pick = Callable[[object, Mapping[str, str], str | None], str]


def read_matrix(path: Path, name: str | None, pick: Pick) -> Array:
    """Return a column of lists of floats, or else all columns of floats side by side."""
    pyarrow = _pyarrow()
    schema = _schema(pyarrow, path)
    types = pyarrow.types
    floats = [field.name for field in schema if types.is_floating(field.type)]
    lists = {field.name: str(field.type) for field in schema if _is_list_of_floats(types, field.type)}
    if name is None and not lists and floats:
        table = pyarrow.parquet.read_table(path, columns=floats)
        return np.stack([_values(path, table[column]) for column in floats], axis=1)
    chosen = pick(path, lists, name)
    column = pyarrow.parquet.read_table(path, columns=[chosen])[chosen].combine_chunks()
    if column.null_count:
        raise ValueError(f"{path}: {column.null_count} rows of {chosen} are null")
    lengths = np.unique(pyarrow.compute.list_value_length(column).to_numpy(zero_copy_only=False))
    if len(lengths) > 1:
        raise ValueError(f"{path}: the rows of {chosen} have between {lengths[0]} and {lengths[-1]} values")
    return _values(path, column.flatten()).reshape(len(column), -1 if len(column) else 0)


def read_labels(path: Path) -> dict[str, Array]:
    """Return the columns of whole numbers, booleans and strings."""
    pyarrow = _pyarrow()
    types = pyarrow.types
    schema = _schema(pyarrow, path)
    kinds = (types.is_integer, types.is_boolean, types.is_string, types.is_large_string, types.is_dictionary)
    names = [field.name for field in schema if any(is_kind(field.type) for is_kind in kinds)]
    table = pyarrow.parquet.read_table(path, columns=names)
    for name in names:
        if table[name].null_count:
            raise ValueError(f"{path}: {table[name].null_count} rows of {name} are null")
    return {name: np.asarray(table[name].to_pylist()) for name in names}


def read_pairs(path: Path, choose: Callable[[list[str]], tuple[int, int]]) -> tuple[Array, Array]:
    """Return the two columns that `choose` finds among the names."""
    pyarrow = _pyarrow()
    chosen = choose(_schema(pyarrow, path).names)
    table = pyarrow.parquet.read_table(path)
    columns = [table.column(index) for index in chosen]
    nulls = sum(column.null_count for column in columns)
    if nulls:
        raise ValueError(f"{path}: {nulls} scores or labels are null")
    first, second = (column.to_numpy() for column in columns)
    return first, second


def write_neighbors(path: Path, distances: Array, indices: Array) -> None:
    """Write two columns of lists, one row per query."""
    pyarrow = _pyarrow()
    k = distances.shape[1]
    columns = {
        name: pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.ravel()), k)
        if k
        else pyarrow.nulls(len(values))
        for name, values in (("indices", indices), ("distances", distances))
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def _values(path: Path, column: Any) -> Array:
    if column.null_count:
        raise ValueError(f"{path}: {column.null_count} values are null")
    values: Array = column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False)
    return values


def _is_list_of_floats(types: Any, kind: Any) -> bool:
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and types.is_floating(kind.value_type))


def _schema(pyarrow: Any, path: Path) -> Any:
    try:
        return pyarrow.parquet.read_schema(path)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path}: not a Parquet file: {error}") from None


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise ModuleNotFoundError("Parquet files need pyarrow: pip install 'nearwise[parquet]'") from None
    return pyarrow
