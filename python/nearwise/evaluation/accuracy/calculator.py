"""`AccuracyCalculator`: retrieval and clustering metrics of labelled embeddings."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nearwise._arguments import check_callable, check_flag, torch_device
from nearwise.distances import LpDistance
from nearwise.evaluation.accuracy import clustering, custom, inputs, rank, relevance, selection
from nearwise.evaluation.accuracy.evaluation import Evaluation
from nearwise.evaluation.custom_knn import CustomKNN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


class AccuracyCalculator:
    """Retrieval and clustering metrics of labelled embeddings.

    Per query, with R the number of references of its label (itself left out), and averaged over the queries:

    - ``precision_at_1``: whether the nearest reference has the query's label;
    - ``r_precision``: the part of the R nearest that has it;
    - ``mean_average_precision_at_r``: over the R nearest, the precision at each match, summed and divided by R;
    - ``mean_average_precision``: the same over all that were retrieved;
    - ``mean_reciprocal_rank``: one over the rank of the first match;
    - ``precision_at_<k>`` and ``recall_at_<k>`` (whether the k nearest hold any match), where `include` names them; the
      parameter `k` does not cut these;
    - ``NMI`` and ``AMI`` of a k-means clustering of the queries, where `include` names them or `kmeans_func` is given.

    A query whose label no reference has (none other than itself, for a query among its own references) takes no part.
    Values are exact fractions, rounded once to float64.

    Parameters
    ----------
    include, exclude : tuple or list of str
        Metrics to compute, and not to compute; all of the first five by default.
    avg_of_avgs : bool, default False
        Average within each label first, and these averages afterwards.
    return_per_class : bool, default False
        Return the averages of the labels, ascending, as a list.
    k : int, "max_bin_count" or None, default None
        How many neighbours count: all by default; with ``"max_bin_count"`` the largest R. A number is cut to what the
        reference has. Below R it makes the metrics at R smaller, and says so in a warning.
    label_comparison_fn : callable, optional
        ``(x, y)`` to booleans, broadcasting over labels of one or two dimensions; equality by default.
    device : str or torch.device, optional
        Where to compute; by default where the query is.
    knn_func : callable, optional
        ``(query, k, reference, ref_includes_query)`` to ``(distances, indices)``. By default exact search by squared
        Euclidean distance, without normalising.
    kmeans_func : callable, optional
        ``(query, num_clusters)`` to one whole number per query.

    Notes
    -----
    Functions that are not this package's, and ``calculate_NAME`` methods of a subclass, are called with torch tensors
    (with NumPy arrays where torch is not installed). With a search of this package and metrics of this package, ranks
    are counted during the search, and memory does not grow with the number of pairs.

    Examples
    --------
    >>> import numpy as np
    >>> embeddings = np.array([[0.0], [1.0], [3.0], [7.0], [15.0], [31.0]])
    >>> labels = np.array([0, 0, 0, 0, 1, 1])
    >>> AccuracyCalculator(include=("precision_at_1", "r_precision")).get_accuracy(embeddings, labels)
    {'precision_at_1': 0.8333333333333334, 'r_precision': 0.8333333333333334}
    """

    # Whether kinds and devices of input may be mixed, as in pytorch-metric-learning 2.9.
    _mixed = False

    def __init__(
        self,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        avg_of_avgs: bool = False,
        return_per_class: bool = False,
        k: int | Literal["max_bin_count"] | None = None,
        label_comparison_fn: Callable[[Any, Any], Any] | None = None,
        device: Any = None,
        knn_func: Callable[..., Any] | None = None,
        kmeans_func: Callable[[Any, int], Any] | None = None,
    ) -> None:
        check_flag("avg_of_avgs", avg_of_avgs)
        check_flag("return_per_class", return_per_class)
        for argument, function in (
            ("label_comparison_fn", label_comparison_fn),
            ("knn_func", knn_func),
            ("kmeans_func", kmeans_func),
        ):
            check_callable(argument, function)
        if avg_of_avgs and return_per_class:
            raise ValueError("avg_of_avgs and return_per_class must not both be set")
        self.avg_of_avgs = avg_of_avgs
        self.return_per_class = return_per_class
        self.k = _checked_k(k)
        self.device = _checked_device(device)
        self.knn_func = _default_knn() if knn_func is None else knn_func
        self.kmeans_func = kmeans_func
        self._compare = label_comparison_fn
        self._selection = selection.Selection.of(self, include, exclude)
        self._refuse_clustering_by_comparison(self._selection.default)

    @property
    def label_comparison_fn(self) -> Callable[[Any, Any], Any]:
        """The comparison of labels; equality unless one was given."""
        return relevance.EQUALITY if self._compare is None else self._compare

    def get_accuracy(
        self,
        query: Any,
        query_labels: Any,
        reference: Any = None,
        reference_labels: Any = None,
        ref_includes_query: bool = False,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        progress: bool | Callable[[int, int], object] = False,
    ) -> dict[str, float | list[float]]:
        """Return the metrics by name.

        Parameters
        ----------
        query : array or tensor of shape (queries, features)
            Floating or whole numbers (these become float32).
        query_labels : array, tensor or list of shape (queries,)
            Numbers, compared by value whatever their size, or strings. Of the query's kind, unless they are strings
            or a list. With a `label_comparison_fn` also (queries, n).
        reference, reference_labels : optional
            The same for what is searched; without them the query is its own reference, and no row finds itself.
        ref_includes_query : bool, default False
            The query is the first rows of the reference; no row finds itself.
        include, exclude : tuple or list of str
            Narrow the metrics of the instance for this call.
        progress : bool or callable, default False
            Show a bar during the search (needs tqdm), or call with (work done, work in all).

        Returns
        -------
        dict of str to float or list of float
            NaN, with a warning in the log, if no query has a relevant reference.

        Raises
        ------
        TypeError
            An argument of another type, or kinds of input that do not fit.
        ValueError
            A wrong value, NaN in the embeddings, lengths that differ, or a name that this instance does not compute.
        NotImplementedError
            NMI or AMI together with a `label_comparison_fn`.
        ModuleNotFoundError
            NMI or AMI without the packages that they need.
        """
        run = self._run(query, query_labels, reference, reference_labels, ref_includes_query, include, exclude)
        return run.averages(progress)

    def get_per_query(
        self,
        query: Any,
        query_labels: Any,
        reference: Any = None,
        reference_labels: Any = None,
        ref_includes_query: bool = False,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        progress: bool | Callable[[int, int], object] = False,
    ) -> dict[str, NDArray[np.float64]]:
        """Return the built-in rank metrics of every query, before averaging.

        Parameters
        ----------
        query, query_labels, reference, reference_labels, ref_includes_query, include, exclude, progress
            As `get_accuracy` takes them; metrics that have no value per query are left out.

        Returns
        -------
        dict of str to numpy.ndarray of float64, shape (queries,)
            NaN for a query without relevant references.

        Examples
        --------
        >>> import numpy as np
        >>> embeddings, labels = np.array([[0.0], [1.0], [3.0]]), np.array(["a", "b", "a"])
        >>> AccuracyCalculator(include=["mean_reciprocal_rank"]).get_per_query(embeddings, labels)
        {'mean_reciprocal_rank': array([0.5, nan, 0.5])}
        """
        run = self._run(query, query_labels, reference, reference_labels, ref_includes_query, include, exclude)
        return run.per_query(progress)

    def get_curr_metrics(self) -> list[str]:
        """Return the names that `get_accuracy` computes by default, in its order."""
        return list(self._selection.default)

    def requires_knn(self) -> list[str]:
        """Return the metrics that need neighbours; override it to add some of your own."""
        return [name for name in selection.methods(self) if rank.metric(name)]

    def requires_clustering(self) -> list[str]:
        """Return the metrics that need a clustering; override it to add some of your own."""
        return ["NMI", "AMI"]

    def description(self) -> str:
        """Return ``"avg_of_avgs"`` if the instance averages so, else an empty string."""
        return "avg_of_avgs" if self.avg_of_avgs else ""

    def get_cluster_labels(self, query: Any, query_labels: Any, **kwargs: Any) -> Any:
        """Return the cluster number of every query, in as many clusters as there are distinct labels."""
        return clustering.cluster(query, query_labels, self.kmeans_func)

    def calculate_precision_at_1(self, **kwargs: Any) -> float | list[float]:
        """Return whether the nearest reference has the query's label."""
        return self._rank_metric("precision_at_1", **kwargs)

    def calculate_r_precision(self, **kwargs: Any) -> float | list[float]:
        """Return the part of the R nearest that has the query's label."""
        return self._rank_metric("r_precision", **kwargs)

    def calculate_mean_average_precision_at_r(self, **kwargs: Any) -> float | list[float]:
        """Return, over the R nearest, the precision at each match, summed and divided by R."""
        return self._rank_metric("mean_average_precision_at_r", **kwargs)

    def calculate_mean_average_precision(self, **kwargs: Any) -> float | list[float]:
        """Return, over all that were retrieved, the precision at each match, summed and divided by R."""
        return self._rank_metric("mean_average_precision", **kwargs)

    def calculate_mean_reciprocal_rank(self, **kwargs: Any) -> float | list[float]:
        """Return one over the rank of the first match."""
        return self._rank_metric("mean_reciprocal_rank", **kwargs)

    def calculate_NMI(self, query_labels: Any, cluster_labels: Any, **kwargs: Any) -> float:  # noqa: N802
        """Return the mutual information of labels and clusters, normalised by their mean entropy (scikit-learn)."""
        return clustering.score("normalized_mutual_info_score", query_labels, cluster_labels)

    def calculate_AMI(self, query_labels: Any, cluster_labels: Any, **kwargs: Any) -> float:  # noqa: N802
        """Return the mutual information of labels and clusters, adjusted for chance (scikit-learn)."""
        return clustering.score("adjusted_mutual_info_score", query_labels, cluster_labels)

    def _rank_metric(self, name: str, **kwargs: Any) -> float | list[float]:
        """Compute a built-in metric from what a ``calculate_NAME`` method is called with."""
        return custom.rank_metric(self, name, **kwargs)

    def _run(
        self,
        query: Any,
        query_labels: Any,
        reference: Any,
        reference_labels: Any,
        ref_includes_query: bool,
        include: Sequence[str],
        exclude: Sequence[str],
    ) -> Evaluation:
        names = self._selection.narrowed(self, include, exclude)
        self._refuse_clustering_by_comparison(names)
        if any(name in names and not selection.is_overridden(self, name) for name in ("NMI", "AMI")):
            clustering.check_present()
        given = inputs.read(
            query,
            query_labels,
            reference,
            reference_labels,
            ref_includes_query,
            device=self.device,
            mixed=self._mixed,
        )
        return Evaluation(self, given, names)

    def _refuse_clustering_by_comparison(self, names: Sequence[str]) -> None:
        if self._compare is not None and set(names) & set(self.requires_clustering()):
            raise NotImplementedError("clustering metrics are not defined with a label_comparison_fn")


def _default_knn() -> CustomKNN:
    return CustomKNN(LpDistance(normalize_embeddings=False, power=2), batch_size=256)


def _checked_k(k: Any) -> int | Literal["max_bin_count"] | None:
    if k is None or (isinstance(k, str) and k == "max_bin_count"):
        return k  # type: ignore[return-value]
    try:
        number = 0 if isinstance(k, bool | np.bool_) else operator.index(k)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"k must be a positive integer, 'max_bin_count' or None, got {k!r}")
    return number


def _checked_device(device: Any) -> Any:
    if device is None or device == "cpu":
        return device
    if not isinstance(device, str) and type(device).__module__ != "torch":
        raise TypeError(f"device must be a string, a torch.device or None, got {type(device).__name__}")
    return torch_device("device", device)
