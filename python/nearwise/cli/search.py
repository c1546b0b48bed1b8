"""`nearwise search`: exact nearest neighbours, files in, a file or lines out."""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import click
import numpy as np
import numpy.typing as npt

import nearwise
from nearwise._arguments import METHODS
from nearwise.cli.mapped import released
from nearwise.cli.positive import PositiveInteger
from nearwise.cli.progress import progress_bar
from nearwise.cli.reading import STANDARD_INPUT, Source, formats, read_rows, widened
from nearwise.cli.writing import FORMATS, check_target, write_neighbors

DISTANCES = ["euclidean", "sqeuclidean", "cosine", "dot", "manhattan", "chebyshev", "snr"]
LINES_AT_ONCE = 10_000
BUILT_IN = "the built-in embeddings"


@click.command(
    short_help="The k nearest rows of a reference for every row of a query.",
    epilog=f"Files that can be read: {' '.join(formats())}. FILE:NAME names one array of several; - is an .npy or .npz "
    "on standard input; put -- before -:NAME, one array of it.",
)
@click.argument("reference", required=False)
@click.argument("query", required=False)
@click.option("-k", "k", type=PositiveInteger(), default=10, show_default=True, help="Neighbours of each row.")
@click.option("--distance", type=click.Choice(DISTANCES), default="euclidean", show_default=True)
@click.option(
    "-o", "--output", metavar="FILE", help=".npz, .parquet, .ivecs or .fvecs; lines on standard output if none."
)
@click.option("--threads", type=PositiveInteger(), help="Default: NEARWISE_NUM_THREADS, or all processors.")
@click.option("--method", type=click.Choice(METHODS), help="Default: NEARWISE_METHOD, or the fastest.")
@click.option("--nan", "nan_policy", type=click.Choice(["raise", "last"]), default="raise", show_default=True,
              help="Refuse NaN, or rank it after every number.")  # fmt: skip
@click.option("--progress/--no-progress", default=None, help="A progress bar; by default on a terminal.")
@click.option("-v", "--verbose", is_flag=True, help="Say on standard error what was searched and how long it took.")
def command(
    reference: str | None,
    query: str | None,
    k: int,
    distance: str,
    output: str | None,
    threads: int | None,
    method: str | None,
    nan_policy: Literal["raise", "last"],
    progress: bool | None,
    verbose: bool,
) -> None:
    """Find the K nearest rows of REFERENCE for every row of QUERY.

    Without QUERY, every row of REFERENCE is searched for among the others; without REFERENCE too, the built-in
    embeddings are. Standard output gets one line per neighbour: query row, rank, reference row, distance.

    The .ivecs and .fvecs formats hold indices of 32 bits and distances of float32, and are written as a pair.
    """
    if output is not None:
        check_target(output, FORMATS)
    elif sys.stdout is None:
        raise ValueError("standard output is closed: name a file with -o")
    among, asked = _sources(reference, query)
    start = time.perf_counter()
    with progress_bar(progress, "searching") as report, released(among.file, asked.file), _named(reference, query):
        found = nearwise.knn(
            asked.rows,
            among.rows,
            k,
            distance=distance,
            ref_includes_query=query is None,
            threads=threads,
            nan_policy=nan_policy,
            method=method,
            stats=True,
            progress=report,
        )
    if verbose:
        seconds = time.perf_counter() - start
        shape = f"{len(asked.rows)} x {len(among.rows)} rows, {among.rows.shape[1]} features"
        click.echo(f"{shape}, {among.rows.dtype.name}, {distance}, k = {k}: {seconds:.3f} s", err=True)
        how = found.stats
        refined = f", {how.per_query:.1f} exact values per query" if how.method in ("f32", "i8") else ""
        click.echo(f"method {how.method}, instruction set {how.level}{refined}", err=True)
    if output is None:
        _print(found.distances, found.indices)
    else:
        written = write_neighbors(output, found.distances, found.indices)
        if verbose:
            click.echo(f"wrote {' and '.join(map(str, written))}", err=True)


def _sources(reference: str | None, query: str | None) -> tuple[Source, Source]:
    """Return what to search in and what for, the latter widened to the former's element type."""
    if reference is None:
        among = Source(nearwise.load_example().embeddings)
        return among, among
    if query is not None and _title(reference) == _title(query) == STANDARD_INPUT:
        raise ValueError("REFERENCE and QUERY cannot both be on standard input")
    among = read_rows(reference)
    if query is None:
        return among, among
    return among, widened(read_rows(query), among)


@contextmanager
def _named(reference: str | None, query: str | None) -> Iterator[None]:
    """Let errors of the search speak of the files instead of the arguments that these became."""
    among = _title(reference)
    names = {"reference": among, "query": among if query is None else _title(query)}
    try:
        yield
    except (ValueError, TypeError) as error:
        text = str(error)
        if query is None:
            text = text.replace("query and reference", "reference").replace("the query's own", "the row itself")
        text = re.sub(r"^(query|reference)\b", lambda found: names[found[0]], text)
        text = re.sub(r"(?<= and )reference(?= must)", lambda _: among, text)
        text = text.replace("the number of reference rows", f"the number of rows of {among}")
        raise ValueError(text.replace("nan_policy", "--nan")) from error


def _title(path: str | None) -> str:
    if path is None:
        return BUILT_IN
    return STANDARD_INPUT if path == "-" or path.startswith("-:") else path


def _print(distances: npt.NDArray[Any], indices: npt.NDArray[Any]) -> None:
    count, k = indices.shape
    ranks = np.tile(np.arange(1, k + 1), min(count, LINES_AT_ONCE)).astype(str)
    for start in range(0, count, LINES_AT_ONCE):
        some = slice(start, start + LINES_AT_ONCE)
        rows = np.repeat(np.arange(start, start + len(indices[some])), k).astype(str)
        columns = (rows, ranks[: len(rows)], indices[some].ravel().astype(str), distances[some].ravel().astype(str))
        sys.stdout.write("".join(f"{a}\t{b}\t{c}\t{d}\n" for a, b, c, d in zip(*columns, strict=True)))
    sys.stdout.flush()
