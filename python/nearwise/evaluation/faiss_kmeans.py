"""`FaissKMeans`: k-means clustering by Faiss."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from nearwise import _arrays
from nearwise._arguments import positive
from nearwise.evaluation import faiss_knn

_logger = logging.getLogger(__name__)


class FaissKMeans:
    """K-means clustering by Faiss, as the ``kmeans_func`` of an evaluation.

    Parameters
    ----------
    **kwargs
        Passed to ``faiss.Kmeans`` at each call (``niter``, ``seed``, ``gpu``, …). Equal seeds give equal clusters.

    Raises
    ------
    ModuleNotFoundError
        Faiss is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> labels = FaissKMeans(niter=10, seed=1)(np.repeat([[0.0], [20.0]], 40, axis=0), 2)
    >>> len(set(labels[:40].tolist())), len(set(labels[40:].tolist())), bool(labels[0] == labels[-1])
    (1, 1, False)
    """

    # Tells the evaluation that it may pass every kind of input.
    _reads_arrays = True

    def __init__(self, **kwargs: Any) -> None:
        faiss_knn.load()
        self.kwargs = kwargs

    def __call__(self, x: Any, num_clusters: int) -> Any:
        """Return the cluster of every row of `x`.

        Parameters
        ----------
        x : array or tensor of shape (rows, features)
            Clustered as a float32 copy on the CPU.
        num_clusters : int
            At most the number of rows.

        Returns
        -------
        array or tensor of shape (rows,)
            int64, of the kind and on the device of `x`.

        Raises
        ------
        TypeError
            A number of clusters that is no integer.
        ValueError
            Fewer rows than clusters, or NaN.
        """
        faiss = faiss_knn.load()
        side = _arrays.rows(x, "x")
        num_clusters = positive("num_clusters", num_clusters)
        if num_clusters > len(side):
            raise ValueError(f"num_clusters must be between 1 and the {len(side)} rows of x, got {num_clusters}")
        faiss_knn.refuse_nan(side, "x")
        rows = faiss_knn.single(side).copy()
        _logger.info("clustering %d rows of %d features into %d", len(side), side.features, num_clusters)
        kmeans = faiss.Kmeans(side.features, int(num_clusters), **self.kwargs)
        kmeans.train(rows)
        _, nearest = kmeans.index.search(rows, 1)
        return side.give_back(np.ascontiguousarray(nearest[:, 0], dtype=np.int64))
