"""The numbers of `nearwise evaluate`: one mapping, from which the table, the JSON and the report are made."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import nearwise
from nearwise import distances
from nearwise.cli.examples import find_examples
from nearwise.cli.labelled import Labelled
from nearwise.cli.labels import plain
from nearwise.cli.pairs import histogram, sampled_pairs
from nearwise.cli.progress import progress_bar
from nearwise.evaluation import AccuracyCalculator, CustomKNN
from nearwise.evaluation.accuracy import inputs
from nearwise.evaluation.accuracy.evaluation import Evaluation
from nearwise.evaluation.accuracy.relevance import Relevance

Array = npt.NDArray[Any]
CLUSTERING = ("AMI", "NMI")
CURVE_POINTS = 50


class Task(NamedTuple):
    """What to measure.

    Attributes
    ----------
    query
        Whose labels are predicted.
    reference
        What is searched; None searches the query itself.
    includes_query
        The reference begins with the query, and no row finds itself.
    metrics
        Names that `AccuracyCalculator` knows.
    k
        How far the rank curves go.
    distance
        By name.
    threads
        None for all.
    """

    query: Labelled
    reference: Labelled | None
    includes_query: bool
    metrics: Sequence[str]
    k: int
    distance: str
    threads: int | None = None


def measure(task: Task, *, progress: bool | None) -> dict[str, Any]:
    """Evaluate.

    Returns
    -------
    dict
        Numbers, strings, lists and mappings of these, as JSON holds them.

    Raises
    ------
    ValueError
        NaN in the embeddings, or no query with a label that a reference has.
    """
    query, among = task.query, task.reference or task.query
    rows, labels = (query.rows, among.rows), (query.labels, among.labels)
    self_query = task.reference is None or task.includes_query
    distance = distances.resolve(task.distance)
    ranking = _rank(task, progress)
    with progress_bar(progress, "comparing pairs") as report:
        pairs = sampled_pairs(rows, ranking.sides, distance, self_query=self_query, report=report)
    with progress_bar(progress, "finding examples") as report:
        examples = find_examples(
            rows,
            labels,
            ranking.per_query("precision_at_1"),
            distance=task.distance,
            self_query=self_query,
            threads=task.threads,
            report=report,
        )
    ranked = [name for name in task.metrics if name not in CLUSTERING]
    depths = curve_depths(task.k)
    found = {name: ranking.mean(name) for name in ranked} | _clustering(task)
    left_out = int(np.sum(ranking.relevant.of_query <= 0))
    return {
        "nearwise": nearwise.__version__,
        "query": _about(query),
        "reference": None if task.reference is None else _about(task.reference),
        "self_query": self_query,
        "distance": {"name": task.distance, "larger_is_nearer": distance.is_inverted},
        "queries": {"all": len(query.rows), "evaluated": len(query.rows) - left_out, "left_out": left_out},
        "metrics": {name: found[name] for name in task.metrics},
        "class_means": {name: ranking.mean_of_class_means(name) for name in ranked},
        "classes": ranking.classes(ranked),
        "left_out_labels": [plain(label) for label in ranking.relevant.classes[ranking.relevant.of_class <= 0]],
        "curves": {
            "k": depths,
            "precision": [ranking.mean(f"precision_at_{k}") for k in depths],
            "recall": [ranking.mean(f"recall_at_{k}") for k in depths],
        },
        "pairs": histogram(pairs),
        "examples": examples,
    }


def curve_depths(k: int) -> list[int]:
    """Return at which k the rank curves have points: everywhere, or thinned out for large k.

    Examples
    --------
    >>> curve_depths(4), len(curve_depths(100_000)) <= CURVE_POINTS, curve_depths(100_000)[-1]
    ([1, 2, 3, 4], True, 100000)
    """
    if k <= CURVE_POINTS:
        return list(range(1, k + 1))
    return sorted({*np.geomspace(1, k, CURVE_POINTS).round().astype(int).tolist()})


class _Ranking:
    """The values of metrics after one search, averaged in several ways."""

    def __init__(self, names: Sequence[str], relevant: Relevance, scores: Any) -> None:
        self.relevant = relevant
        self._scores = scores
        self._numbers = {name: number for number, name in enumerate(names)}

    @property
    def sides(self) -> tuple[Array, Array]:
        """Class numbers of the queries and of the references."""
        assert self.relevant.reference is not None, "labels are compared by equality"
        return self.relevant.query, self.relevant.reference

    def mean(self, name: str) -> float:
        mean: float = self._scores.mean(self._numbers[name])
        return mean

    def mean_of_class_means(self, name: str) -> float:
        mean: float = self._scores.mean_of_class_means(self._numbers[name], self.relevant.query)
        return mean

    def per_query(self, name: str) -> Array:
        values: Array = self._scores.values(self._numbers[name])
        return values

    def classes(self, names: Sequence[str]) -> list[dict[str, Any]]:
        relevant = self.relevant
        sizes = np.bincount(relevant.query, minlength=len(relevant.classes))
        means = [self._scores.class_means(self._numbers[name], relevant.query) for name in names]
        places = np.flatnonzero(relevant.of_class > 0)
        return [
            {
                "label": plain(relevant.classes[place]),
                "queries": int(sizes[place]),
                "relevant": int(relevant.of_class[place]),
                "metrics": dict(zip(names, values, strict=True)),
            }
            for place, *values in zip(places, *means, strict=True)
        ]


def _rank(task: Task, progress: bool | None) -> _Ranking:
    ranked = {name for name in task.metrics if name not in CLUSTERING}
    curves = {f"{kind}_at_{k}" for k in curve_depths(task.k) for kind in ("precision", "recall")}
    names = sorted(ranked | curves | {"precision_at_1"})
    knn = CustomKNN(distances.resolve(task.distance), threads=task.threads)
    query, reference = task.query, task.reference
    searched = (None, None, True) if reference is None else (reference.rows, reference.labels, task.includes_query)
    try:
        given = inputs.read(query.rows, query.labels, *searched)
    except ValueError as error:
        raise _with_file(error, task) from error
    if not _any_relevant(given):
        why = "no label occurs twice" if reference is None else f"none of its labels is one of {reference.name}"
        raise ValueError(f"{query.name}: {why}, so there is nothing to find")
    with progress_bar(progress, "ranking") as report:
        evaluation = Evaluation(AccuracyCalculator(include=names, knn_func=knn), given, names)
        relevant, scores = evaluation.scored(report)
    assert scores is not None, "some query has a relevant reference"
    return _Ranking(evaluation.built_in, relevant, scores)


def _with_file(error: ValueError, task: Task) -> ValueError:
    """Return what is said of an argument as said of the file that it came from."""
    argument, _, rest = str(error).partition(" ")
    side = {"query": task.query, "reference": task.reference}.get(argument)
    return error if side is None else ValueError(f"{side.name}: its rows {rest}")


def _any_relevant(given: inputs.Inputs) -> bool:
    """Return whether any label of the query is one of the reference, the query's own row aside."""
    if given.query_labels.dtype.kind != given.reference_labels.dtype.kind:
        return True  # the evaluation says what is wrong
    counts = Counter(given.reference_labels.tolist())
    return any(counts[label] > given.ref_includes_query for label in given.query_labels.tolist())


def _clustering(task: Task) -> dict[str, float]:
    names = [name for name in task.metrics if name in CLUSTERING]
    if not names:
        return {}
    found: dict[str, Any] = AccuracyCalculator(include=names).get_accuracy(task.query.rows, task.query.labels)
    return found


def _about(side: Labelled) -> dict[str, Any]:
    return {
        "source": side.name,
        "rows": len(side.rows),
        "features": side.rows.shape[1],
        "dtype": side.rows.dtype.name,
        "classes": len(np.unique(side.labels)),
    }
