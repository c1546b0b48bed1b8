"""The pictures of a threshold. The only module that names matplotlib."""

from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from nearwise.cli.scored_pairs import ScoredPairs
from nearwise.cli.writing import check_target, replaced
from nearwise.evaluation import ThresholdCurve, ThresholdSelection, threshold_curve

FORMATS = (".png", ".svg", ".pdf")
POINTS = 4000
POSITIVE, NEGATIVE, CHOSEN = "#0072b2", "#d55e00", "#000000"
_TICKS = (0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999)
Array = npt.NDArray[Any]


def check_plot(path: str) -> None:
    """Refuse early what `draw` would refuse after the work.

    Raises
    ------
    ValueError
        No known format.
    FileNotFoundError
        The folder does not exist.
    ModuleNotFoundError
        matplotlib is not installed.
    """
    check_target(path, FORMATS)
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise ModuleNotFoundError("plots need matplotlib: pip install 'nearwise[plot]'") from None


def draw(path: str, pairs: ScoredPairs, selection: ThresholdSelection, metric: str, *, is_inverted: bool) -> None:
    """Draw ROC, precision over recall, DET and both classes' scores, with the selection marked in each.

    Parameters
    ----------
    path
        .png, .svg or .pdf.
    pairs
        What was chosen from.
    selection
        What was chosen.
    metric
        Its name, for the title.
    is_inverted
        True for similarities.
    """
    from matplotlib.figure import Figure

    curve = threshold_curve(*pairs, is_inverted=is_inverted)
    chosen = int(np.flatnonzero(curve.thresholds == selection.threshold)[0])
    shown = _thinned(len(curve), chosen)
    figure = Figure(figsize=(10, 8), layout="constrained")
    axes = figure.subplots(2, 2)
    _roc(axes[0, 0], curve, shown, chosen)
    _precision_recall(axes[0, 1], curve, shown, chosen)
    _det(axes[1, 0], curve, shown, chosen)
    _histograms(axes[1, 1], pairs, selection.threshold, is_inverted)
    sign = "≥" if is_inverted else "≤"
    figure.suptitle(f"{metric} = {selection.value:.4g} where score {sign} {selection.threshold:.6g}")
    target = Path(path)
    with replaced(target) as file:
        figure.savefig(file, format=target.suffix.lower()[1:], dpi=120)


def _thinned(count: int, chosen: int) -> Array:
    """Return the indices of at most so many points as a picture shows, ends and the chosen one among them."""
    some = np.linspace(0, count - 1, min(count, POINTS)).round().astype(int)
    return np.union1d(some, [chosen])


def _mark(axes: Any, x: float, y: float) -> None:
    axes.plot([x], [y], "o", color=CHOSEN, zorder=3, label="chosen")


def _roc(axes: Any, curve: ThresholdCurve, shown: Array, chosen: int) -> None:
    x, y = curve.false_match_rate, curve.true_match_rate
    area = float(np.sum(np.diff(x) * (y[1:] + y[:-1])) / 2)
    axes.plot([0, 1], [0, 1], ":", color="0.6")
    axes.plot(x[shown], y[shown], color=POSITIVE)
    _mark(axes, x[chosen], y[chosen])
    axes.set(title=f"ROC, area {area:.4f}", xlabel="false match rate", ylabel="true match rate", aspect="equal")


def _precision_recall(axes: Any, curve: ThresholdCurve, shown: Array, chosen: int) -> None:
    x, y = curve.true_match_rate, curve.precision
    # From the second on: accepting nothing has no precision.
    axes.plot(x[shown[1:]], y[shown[1:]], color=POSITIVE)
    if chosen > 0:
        _mark(axes, x[chosen], y[chosen])
    axes.set(title="Precision and recall", xlabel="recall", ylabel="precision", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))


def _det(axes: Any, curve: ThresholdCurve, shown: Array, chosen: int) -> None:
    """Draw both error rates on scales on which normal scores make a straight line."""
    deviate = NormalDist().inv_cdf
    finest = [0.5 / float(np.add(*counts)) for counts in
              ((curve.counts.false_positives[0], curve.counts.true_negatives[0]),
               (curve.counts.true_positives[0], curve.counts.false_negatives[0]))]  # fmt: skip

    def scaled(rates: Array, least: float) -> list[float]:
        return [deviate(min(max(float(rate), least), 1 - least)) for rate in rates]

    x, y = scaled(curve.false_match_rate[shown], finest[0]), scaled(curve.false_non_match_rate[shown], finest[1])
    axes.plot(x, y, color=POSITIVE)
    at = int(np.searchsorted(shown, chosen))
    _mark(axes, x[at], y[at])
    axes.axline((0, 0), slope=1, linestyle=":", color="0.6")
    ticks, names = [deviate(tick) for tick in _TICKS], [f"{100 * tick:g} %" for tick in _TICKS]
    axes.set_xticks(ticks, names, fontsize="small")
    axes.set_yticks(ticks, names, fontsize="small")
    axes.set(title="Detection error trade-off", xlabel="false match rate", ylabel="false non-match rate",
             xlim=(ticks[0] - 0.3, ticks[-1] + 0.3), ylim=(ticks[0] - 0.3, ticks[-1] + 0.3))  # fmt: skip


def _histograms(axes: Any, pairs: ScoredPairs, threshold: float, is_inverted: bool) -> None:
    scores = pairs.scores.astype(np.float64)
    edges = np.histogram_bin_edges(scores, bins=60)
    for label, color, name in ((True, POSITIVE, "should match"), (False, NEGATIVE, "should not")):
        of_class = scores[pairs.labels == label]
        axes.hist(
            of_class, edges, weights=np.full(len(of_class), 1 / len(of_class)), color=color, alpha=0.55, label=name
        )
    if np.isfinite(threshold):
        axes.axvline(threshold, color=CHOSEN, label="threshold")
    name = "similarity" if is_inverted else "distance"
    axes.set(title="Scores", xlabel=name, ylabel="part of the class")
    axes.legend()
