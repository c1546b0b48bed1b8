"""`nearwise evaluate`: retrieval metrics of labelled embeddings, as a table, as JSON and as a report."""

from pathlib import Path

import click

from nearwise.cli.evaluate_table import table
from nearwise.cli.labelled import Labelled, built_in, read_labelled, same_type
from nearwise.cli.labels import LABEL_FORMATS
from nearwise.cli.mapped import released
from nearwise.cli.measurements import CLUSTERING, Task, measure
from nearwise.cli.positive import PositiveInteger
from nearwise.cli.reading import formats
from nearwise.cli.search import DISTANCES
from nearwise.cli.strict_json import strict_json
from nearwise.cli.writing import check_target, replaced
from nearwise.evaluation import AccuracyCalculator

DEFAULT_K = 20
RETRIEVAL = (
    "precision_at_1",
    "r_precision",
    "mean_average_precision_at_r",
    "mean_average_precision",
    "mean_reciprocal_rank",
)


@click.command(
    short_help="Retrieval metrics of labelled embeddings; a report.",
    epilog=f"Embeddings are read from {' '.join(formats())}, labels from {' '.join(LABEL_FORMATS)}. FILE:NAME names "
    "one array of several; labels in the file of the embeddings are those named labels or label.",
)
@click.argument("embeddings", required=False)
@click.option("--labels", metavar="FILE", help="One label for each row; by default in the file of the embeddings.")
@click.option("--reference", metavar="FILE", help="Search here instead of among the embeddings themselves.")
@click.option("--reference-labels", metavar="FILE", help="By default in the file of the reference.")
@click.option("--ref-includes-query", is_flag=True, help="The reference begins with the embeddings; none finds itself.")
@click.option("--metrics", metavar="NAMES", help="Separated by commas; all but clustering, and at K, by default.")
@click.option("-k", "k", type=PositiveInteger(), metavar="K",
              help=f"How far rank curves go; {DEFAULT_K} by default.")  # fmt: skip
@click.option("--distance", type=click.Choice(DISTANCES), default="euclidean", show_default=True)
@click.option("--json", "json_to", metavar="FILE", help="Write every number; - writes to standard output, no table.")
@click.option("--html", "html_to", metavar="FILE", help="Write a report: one page that needs nothing else.")
@click.option("--threads", type=PositiveInteger(), help="Default: NEARWISE_NUM_THREADS, or all processors.")
@click.option("--progress/--no-progress", default=None, help="Progress bars; by default on a terminal.")
def command(
    embeddings: str | None,
    labels: str | None,
    reference: str | None,
    reference_labels: str | None,
    ref_includes_query: bool,
    metrics: str | None,
    k: int | None,
    distance: str,
    json_to: str | None,
    html_to: str | None,
    threads: int | None,
    progress: bool | None,
) -> None:
    """Measure how well the labels of EMBEDDINGS are found again in their nearest neighbours.

    Every row is searched for among the others, or in a reference; without EMBEDDINGS the built-in ones are evaluated.
    A row whose label no other has (none in the reference) is left out.

    Metrics: precision_at_1, r_precision, mean_average_precision_at_r, mean_average_precision, mean_reciprocal_rank;
    precision_at_<k> and recall_at_<k> (whether there is any match among the k nearest) of any k; NMI and AMI of a
    k-means clustering.
    """
    if reference is None and (reference_labels is not None or ref_includes_query):
        option = "--reference-labels" if reference_labels is not None else "--ref-includes-query"
        raise click.UsageError(f"{option} needs --reference")
    if embeddings is None and (labels is not None or reference is not None):
        raise click.UsageError(f"{'--labels' if labels is not None else '--reference'} needs EMBEDDINGS")
    chosen = None if metrics is None else _names(metrics)
    for path, suffixes in ((html_to, (".html", ".htm")), (json_to if json_to != "-" else None, (".json",))):
        if path is not None:
            check_target(path, suffixes)
    query = built_in() if embeddings is None else read_labelled(embeddings, labels, "--labels")
    among = None if reference is None else read_labelled(reference, reference_labels, "--reference-labels")
    if among is not None:
        query = same_type(query, among)
    depth = _depth(k, query, among, ref_includes_query)
    names = _default(depth) if chosen is None else chosen
    task = Task(query, among, ref_includes_query, names, depth, distance, threads)
    with released(query.source.file, among.source.file if among else None):
        found = measure(task, progress=progress)
    if json_to == "-":
        click.echo(strict_json(found, indent=1))
    else:
        click.echo(table(found))
    if json_to not in (None, "-"):
        _write(json_to, strict_json(found, indent=1) + "\n")
    if html_to is not None:
        from nearwise.cli.report import page

        _write(html_to, page(found))


def _names(given: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    try:
        AccuracyCalculator(include=names)
    except ValueError:
        known = ", ".join([*RETRIEVAL, "precision_at_<k>", "recall_at_<k>", *CLUSTERING])
        wrong = ", ".join(name for name in names if not _is_known(name))
        raise click.UsageError(f"--metrics: unknown {wrong}; known are {known}") from None
    if not names:
        raise click.UsageError("--metrics: no name given")
    return names


def _is_known(name: str) -> bool:
    try:
        AccuracyCalculator(include=[name])
    except ValueError:
        return False
    return True


def _default(k: int) -> list[str]:
    """Return the metrics where none are named: those of the library, and both at K."""
    names = [*RETRIEVAL, f"precision_at_{k}", f"recall_at_{k}"]
    return list(dict.fromkeys(names))


def _depth(k: int | None, query: Labelled, reference: Labelled | None, includes_query: bool) -> int:
    among = reference or query
    available = len(among.rows) - (reference is None or includes_query)
    if available < 1:
        raise ValueError(f"{among.name}: expected at least two rows, got {len(among.rows)}")
    if k is not None and k > available:
        raise ValueError(f"-k: expected at most {available}, the neighbours that a row of {query.name} has, got {k}")
    return min(k or DEFAULT_K, available)


def _write(path: str, text: str) -> None:
    with replaced(Path(path)) as file:
        file.write_text(text, encoding="utf-8")
    click.echo(f"wrote {path}", err=True)
