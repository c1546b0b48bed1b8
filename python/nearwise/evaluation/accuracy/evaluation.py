"""One call of a calculator, from checked inputs to numbers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from nearwise import _progress
from nearwise._arguments import checked_threads
from nearwise.evaluation.accuracy import custom, rank, relevance, retrieval, selection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nearwise import _core
    from nearwise.evaluation.accuracy.calculator import AccuracyCalculator
    from nearwise.evaluation.accuracy.inputs import Inputs
    from nearwise.evaluation.accuracy.relevance import Relevance

    Progress = bool | Callable[[int, int], object]

_logger = logging.getLogger(__name__)


class Evaluation:
    """The metrics `names` of `calculator` on `inputs`.

    Metrics with a method of the user's are called with everything that may concern them; the built-in rank metrics
    are scored together, from neighbours or during the search.
    """

    def __init__(self, calculator: AccuracyCalculator, inputs: Inputs, names: Sequence[str]) -> None:
        self.calculator = calculator
        self.inputs = inputs
        self.names = names
        # A subclass may say that a built-in metric needs no neighbours; it is computed all the same.
        self.built_in = [name for name in names if not selection.is_overridden(calculator, name) and rank.metric(name)]
        self.called = [name for name in names if name not in self.built_in]

    def averages(self, progress: Progress = False) -> dict[str, float | list[float]]:
        """Return every metric, averaged as the calculator says."""
        calculator = self.calculator
        values: dict[str, float | list[float]] = {}
        kwargs: dict[str, Any] = {}
        if self.called:
            kwargs = custom.common(self.inputs, calculator.label_comparison_fn)
        if self.built_in or set(self.called) & set(calculator.requires_knn()):
            relevant = self._relevance()
            scores = self._scores(relevant, kwargs, progress)
            for number, name in enumerate(self.built_in):
                values[name] = self._average(scores, number, relevant)
        if set(self.called) & set(calculator.requires_clustering()):
            kwargs["cluster_labels"] = calculator.get_cluster_labels(**kwargs)
        for name in self.called:
            values[name] = getattr(calculator, f"calculate_{name}")(**kwargs)
        return {name: values[name] for name in self.names}

    def per_query(self, progress: Progress = False) -> dict[str, np.ndarray[Any, Any]]:
        """Return the built-in rank metrics of every query."""
        self.called = []
        if not self.built_in:
            return {}
        scores = self._scores(self._relevance(), {}, progress)
        if scores is None:
            nothing = np.full(len(self.inputs.query), np.nan)
            return {name: nothing.copy() for name in self.built_in}
        return {name: scores.values(number) for number, name in enumerate(self.built_in)}

    def scored(self, progress: Progress = False) -> tuple[Relevance, _core.Scores | None]:
        """Return the classes and every value of `built_in`, to be averaged in several ways after one search.

        None stands for the values if no query can have one.
        """
        self.called = []
        relevant = self._relevance()
        return relevant, self._scores(relevant, {}, progress)

    def _relevance(self) -> Relevance:
        return relevance.find(self.inputs, self.calculator._compare)

    def _average(self, scores: _core.Scores | None, number: int, relevant: Relevance) -> float | list[float]:
        calculator = self.calculator
        if scores is None:
            return custom.nan_result(len(relevant.classes), calculator.return_per_class)
        return rank.average(
            scores,
            number,
            relevant.query,
            avg_of_avgs=calculator.avg_of_avgs,
            return_per_class=calculator.return_per_class,
        )

    def _scores(self, relevant: Relevance, kwargs: dict[str, Any], progress: Progress) -> _core.Scores | None:
        """Score the built-in metrics, and put what others need into `kwargs`; None if no query can have a value."""
        needs = set(self.called) & set(self.calculator.requires_knn())
        if relevant.most == 0:
            _logger.warning("no label of the query is among those of the reference (other than the query itself)")
            if needs:
                kwargs.update(custom.without_neighbors(self.inputs, relevant))
            return None
        metrics = [each for name in self.built_in if (each := rank.metric(name))]
        k, depth = self._depth(metrics, relevant, everything=bool(needs))
        formula = retrieval.core_formula(self.calculator.knn_func, self.inputs)
        if formula and not needs and relevant.reference is not None and _counting_pays(depth, self.inputs.available):
            classes = (relevant.query, relevant.reference)
            threads = checked_threads(getattr(self.calculator.knn_func, "threads", None))
            with _progress.reporter(progress) as report:
                return rank.score_search(metrics, k, self.inputs, classes, formula, threads, report)
        found = retrieval.neighbors(self.calculator.knn_func, self.inputs, depth, progress)
        if needs:
            kwargs.update(custom.with_neighbors(self.inputs, relevant, found))
        if relevant.reference is None:
            matches = relevance.matches(self.inputs, relevant, found.indices)
            return rank.score_matches(metrics, k, matches, relevant.of_query)
        classes = (relevant.query, relevant.reference)
        return rank.score_neighbors(metrics, k, found.indices, classes, relevant.of_query)

    def _depth(
        self, metrics: Sequence[rank.Metric], relevant: Relevance, *, everything: bool
    ) -> tuple[int | None, int]:
        """Return how many neighbours count (None: all) and how many to search for."""
        available, wanted = self.inputs.available, self.calculator.k
        at = max((each.at or 0 for each in metrics), default=0)
        if wanted is None:
            deepest = available if everything else rank.depth(metrics, relevant.most, available)
            return None, deepest
        k = relevant.most if wanted == "max_bin_count" else wanted
        if k < relevant.most and any(each.r for each in metrics):
            _logger.warning(
                "k=%d is below %d, the most relevant references of a query: metrics at R are too small; "
                "k='max_bin_count' is enough for them, and average precision at %d is mean_average_precision",
                k,
                relevant.most,
                k,
            )
        k = min(k, available)
        return k, min(max(k, at), available)


def _counting_pays(depth: int, available: int) -> bool:
    """Whether counting ranks is expected to beat searching for `depth` neighbours; the bound is an estimate."""
    return depth > 256 or 2 * depth > available
