"""`nearwise threshold`: the score from which on a pair counts as a match."""

import math
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from nearwise import evaluation
from nearwise.cli.scored_pairs import ScoredPairs, read_scored_pairs
from nearwise.cli.strict_json import strict_json

METRICS: dict[str, Callable[[evaluation.MatchCounts], Any]] = {
    "accuracy": evaluation.match_accuracy,
    "balanced-accuracy": evaluation.match_balanced_accuracy,
    "f1": evaluation.match_f1,
    "youden": evaluation.match_youden,
    "mcc": evaluation.match_mcc,
}


@click.command(short_help="The threshold of scores that a metric is best at.")
@click.argument("scores")
@click.argument("labels", required=False)
@click.option("--metric", type=click.Choice(list(METRICS)), help="What to maximise; f1 by default.")
@click.option("--beta", type=float, help="Maximise the F-score of this beta instead.")
@click.option("--max-false-match-rate", type=float, metavar="RATE", help="Maximise recall, false matches at most RATE.")
@click.option("--min-precision", type=float, metavar="P", help="Maximise recall, precision at least P.")
@click.option(
    "--similarity/--distance", default=False, help="Which scores match: large or small. --distance by default."
)
@click.option("--plot", metavar="FILE", help="Draw ROC, precision-recall, DET and the scores (.png, .svg, .pdf).")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object; a threshold that nothing reaches is null."
)
def command(
    scores: str,
    labels: str | None,
    metric: str | None,
    beta: float | None,
    max_false_match_rate: float | None,
    min_precision: float | None,
    similarity: bool,
    plot: str | None,
    as_json: bool,
) -> None:
    """Choose the threshold of SCORES that separates pairs by LABELS best.

    SCORES and LABELS are .npy files, LABELS of bool (or 0 and 1, 1 for a pair that should match); or SCORES alone is a
    .csv or .parquet file with columns score and label.
    """
    name, chosen = _metric(metric, beta, max_false_match_rate, min_precision)
    if plot is not None:
        from nearwise.cli.threshold_plot import check_plot

        check_plot(plot)
    pairs = read_scored_pairs(scores, labels)
    selection = evaluation.select_threshold(pairs.scores, pairs.labels, chosen, is_inverted=similarity)
    report = _report(name, pairs, selection, similarity)
    if plot is not None:
        from nearwise.cli.threshold_plot import draw

        draw(plot, pairs, selection, name, is_inverted=similarity)
    click.echo(strict_json(report) if as_json else _text(report))


def _metric(
    name: str | None, beta: float | None, rate: float | None, precision: float | None
) -> tuple[str, Callable[[evaluation.MatchCounts], Any]]:
    wishes = {"--metric": name, "--beta": beta, "--max-false-match-rate": rate, "--min-precision": precision}
    given = [option for option, value in wishes.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} cannot be combined")
    if beta is not None:
        return f"f-beta, beta {beta:g}", evaluation.match_f_beta(beta)
    if rate is not None:
        return f"recall, false match rate at most {rate:g}", evaluation.recall_at_false_match_rate(rate)
    if precision is not None:
        return f"recall, precision at least {precision:g}", evaluation.precision_floor(precision)
    name = name or "f1"
    return name, METRICS[name]


def _report(
    metric: str, pairs: ScoredPairs, selection: evaluation.ThresholdSelection, is_inverted: bool
) -> dict[str, Any]:
    scores, labels = pairs
    matches = scores >= selection.threshold if is_inverted else scores <= selection.threshold
    equal = evaluation.equal_error_rate(scores, labels, is_inverted=is_inverted)
    return {
        "metric": metric,
        "value": selection.value,
        "threshold": selection.threshold,
        "rule": f"score {'>=' if is_inverted else '<='} threshold",
        "dtype": scores.dtype.name,
        "true_positives": int(np.count_nonzero(matches & labels)),
        "false_positives": int(np.count_nonzero(matches & ~labels)),
        "true_negatives": int(np.count_nonzero(~matches & ~labels)),
        "false_negatives": int(np.count_nonzero(~matches & labels)),
        "equal_error_rate": equal.rate,
        "equal_error_threshold": equal.threshold,
    }


def _text(report: dict[str, Any]) -> str:
    kinds = ("true_positives", "false_positives", "true_negatives", "false_negatives")
    tp, fp, tn, fn = (report[kind] for kind in kinds)
    width = max(len("should not"), *(len(str(count)) for count in (tp, fp, tn, fn))) + 2
    accepts = "" if math.isfinite(report["threshold"]) else ", which is none"
    return "\n".join([
        f"metric     {report['metric']}",
        f"value      {report['value']!r}",
        f"threshold  {report['threshold']!r} ({report['dtype']})",
        f"matches    {report['rule']}{accepts}",
        "",
        f"{'':11}{'should':>{width}}{'should not':>{width}}",
        f"{'matches':11}{tp:>{width}}{fp:>{width}}",
        f"{'does not':11}{fn:>{width}}{tn:>{width}}",
        "",
        f"equal error rate {report['equal_error_rate']:.6g} near threshold {report['equal_error_threshold']!r}",
    ])  # fmt: skip
