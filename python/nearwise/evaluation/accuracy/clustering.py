"""NMI and AMI: clusters by k-means, scores by scikit-learn."""

from __future__ import annotations

import logging
import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from nearwise.evaluation.accuracy import foreign

if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger(__name__)

_SEED = 1234
_MISSING = "NMI and AMI need scikit-learn: install nearwise[clustering]"


def check_present() -> None:
    """Refuse to begin what could not be scored.

    Raises
    ------
    ModuleNotFoundError
        scikit-learn is not installed.
    """
    if find_spec("sklearn") is None:
        raise ModuleNotFoundError(_MISSING)


def cluster(query: Any, query_labels: Any, kmeans_func: Callable[[Any, int], Any] | None) -> Any:
    """Return the cluster number of every query, in as many clusters as there are distinct labels.

    Raises
    ------
    ModuleNotFoundError
        No function was given and neither Faiss nor scikit-learn is installed.
    """
    count = len(np.unique(foreign.to_numpy(query_labels)))
    if count == 0:
        return np.empty(0, dtype=np.int64)
    with foreign.no_grad():
        return (kmeans_func or default())(query, count)


def default() -> Callable[[Any, int], Any]:
    """Return Faiss's k-means with 20 iterations, or scikit-learn's where Faiss is missing; both seeded."""
    from nearwise.evaluation.faiss_kmeans import FaissKMeans

    if find_spec("faiss") is None and find_spec("sklearn") is not None:
        return _by_sklearn
    return FaissKMeans(niter=20, seed=_SEED)


def score(name: str, query_labels: Any, cluster_labels: Any) -> float:
    """Return a score of scikit-learn's for two partitions of the queries; NaN, with a warning, where there is none.

    Raises
    ------
    ModuleNotFoundError
        scikit-learn is not installed.
    """
    try:
        from sklearn import metrics
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_MISSING) from error
    if len(query_labels) == 0:
        _logger.warning("there is no query to cluster: its score is NaN")
        return math.nan
    _, labels = np.unique(foreign.to_numpy(query_labels), return_inverse=True)
    return float(getattr(metrics, name)(labels.reshape(-1), foreign.to_numpy(cluster_labels).reshape(-1)))


def _by_sklearn(query: Any, count: int) -> Any:
    from sklearn.cluster import KMeans

    rows = np.asarray(foreign.to_numpy(query), dtype=np.float32)
    return KMeans(count, n_init=1, max_iter=20, random_state=_SEED).fit_predict(rows)
