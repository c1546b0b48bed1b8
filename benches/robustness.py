"""Data that is hard to filter: what is chosen, how many pairs survive, what a wrong choice would cost."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import nearwise
from rounds import measure, medians

QUERIES, REFERENCES, FEATURES = 2_000, 20_000, 128
METHODS = ("auto", "f32", "i8")


def run(threads: int, rounds: int, quick: bool) -> dict[str, Any]:
    """Results by case, printed as they come."""
    results = {}
    for name, (make, distance, k) in CASES.items():
        generator = np.random.default_rng(0)
        queries, references = (QUERIES // 10, REFERENCES // 10) if quick else (QUERIES, REFERENCES)
        rows = make(generator, queries + references).astype(np.float32)
        results[name] = _run_case(rows[:queries], rows[queries:], k, distance, threads, rounds)
        print(f"{name:<40} {_said(results[name])}", flush=True)
    return results


def _run_case(query: Any, reference: Any, k: int, distance: str, threads: int, rounds: int) -> dict[str, Any]:
    search = partial(nearwise.knn, query, reference, k, distance=distance, threads=threads)
    contestants = {method: partial(search, method=method) for method in METHODS}
    seconds = medians(measure(contestants, rounds))
    stats = {method: search(method=method, stats=True).stats for method in METHODS}
    return {
        "distance": distance,
        "k": k,
        "seconds": seconds,
        "chosen": stats["auto"].method,
        "survivors": {method: stats[method].refined / len(query) for method in METHODS},
    }


def _said(result: dict[str, Any]) -> str:
    seconds, survivors = result["seconds"], result["survivors"]
    each = ", ".join(f"{method} {1000 * seconds[method]:.4g} ms ({survivors[method]:,.4g})" for method in METHODS)
    return f"{result['chosen']:<6} {each}; auto/f32 {seconds['auto'] / seconds['f32']:.2f}"


def _normal(generator: Any, rows: int) -> Any:
    return generator.standard_normal((rows, FEATURES))


def _norms(generator: Any, rows: int) -> Any:
    return _normal(generator, rows) * np.exp(generator.standard_normal((rows, 1)))


def _huge(generator: Any, rows: int) -> Any:
    values = _normal(generator, rows)
    values[:, :4] *= 30
    return values


def _offset(generator: Any, rows: int) -> Any:
    return 1_000 + _normal(generator, rows)


def _copies(generator: Any, rows: int) -> Any:
    return _normal(generator, rows // 10)[generator.integers(rows // 10, size=rows)]


def _clusters(generator: Any, rows: int) -> Any:
    return _normal(generator, 1_000)[generator.integers(1_000, size=rows)] + 1e-3 * _normal(generator, rows)


def _bytes(generator: Any, rows: int) -> Any:
    return np.minimum(255, np.floor(generator.exponential(35, (rows, FEATURES))))


def _student(generator: Any, rows: int) -> Any:
    return generator.standard_t(3, (rows, FEATURES))


def _laplace(generator: Any, rows: int) -> Any:
    return generator.laplace(size=(rows, FEATURES))


CASES: dict[str, tuple[Callable[[Any, int], Any], str, int]] = {
    "normal": (_normal, "sqeuclidean", 10),
    "normal, k = 100": (_normal, "sqeuclidean", 100),
    "normal, k = 1,000": (_normal, "sqeuclidean", 1_000),
    "normal, dot product": (_normal, "dot", 10),
    "norms of e^N(0,1), dot product": (_norms, "dot", 10),
    "norms of e^N(0,1)": (_norms, "sqeuclidean", 10),
    "four features times 30": (_huge, "sqeuclidean", 10),
    "an offset of 1,000": (_offset, "sqeuclidean", 10),
    "each row about ten times": (_copies, "sqeuclidean", 10),
    "1,000 clusters of spread 1e-3": (_clusters, "sqeuclidean", 10),
    "whole numbers 0 to 255": (_bytes, "sqeuclidean", 10),
    "Laplace": (_laplace, "sqeuclidean", 10),
    "Student's t, 3 degrees": (_student, "sqeuclidean", 10),
}
