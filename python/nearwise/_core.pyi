from collections.abc import Callable
from typing import Any, Literal, final

from numpy.typing import NDArray

__all__ = [
    "Candidates",
    "Distance",
    "Index",
    "Scores",
    "__version__",
    "best_threshold",
    "levels",
    "matrix",
    "pairwise",
    "rank_all",
    "rank_matches",
    "rank_neighbors",
    "search",
    "topk",
]

__version__: str

def levels() -> tuple[str, list[str]]: ...

@final
class Distance:
    def __new__(
        cls,
        kind: Literal["lp", "dot", "cosine", "snr"],
        *,
        p: float = 2.0,
        power: float = 1.0,
        normalize: float | None = None,
    ) -> Distance: ...
    @property
    def is_inverted(self) -> bool: ...

def search(
    query: NDArray[Any],
    reference: NDArray[Any],
    k: int,
    distance: Distance,
    *,
    exclude_self: bool = False,
    nan_last: bool = False,
    threads: int = 0,
    batch: int = 0,
    method: str = "auto",
    progress: Callable[[int, int], object] | None = None,
) -> tuple[NDArray[Any], NDArray[Any], tuple[str, str, int]]: ...

@final
class Index:
    def __new__(
        cls,
        reference: NDArray[Any],
        distance: Distance,
        *,
        nan_last: bool = False,
        threads: int = 0,
        method: str = "auto",
    ) -> Index: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def search(
        self,
        query: NDArray[Any],
        reference: NDArray[Any],
        k: int,
        *,
        exclude_self: bool = False,
        nan_last: bool = False,
        threads: int = 0,
        batch: int = 0,
        method: str = "auto",
        progress: Callable[[int, int], object] | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any], tuple[str, str, int]]: ...

def matrix(query: NDArray[Any], reference: NDArray[Any], distance: Distance, *, threads: int = 0) -> NDArray[Any]: ...
def pairwise(x: NDArray[Any], y: NDArray[Any], distance: Distance, *, threads: int = 0) -> NDArray[Any]: ...
def topk(
    matrix: NDArray[Any], k: int, *, largest: bool, self_offset: int | None = None, threads: int = 0
) -> NDArray[Any]: ...
def best_threshold(
    scores: NDArray[Any],
    labels: NDArray[Any],
    metric: str,
    beta_squared: tuple[int, int],
    is_inverted: bool,
    threads: int = 0,
) -> tuple[float, float]: ...

@final
class Candidates:
    def __new__(cls, scores: NDArray[Any], labels: NDArray[Any], is_inverted: bool, threads: int = 0) -> Candidates: ...
    def __len__(self) -> int: ...
    def counts(self) -> list[NDArray[Any]]: ...
    def threshold(self, index: int) -> float: ...
    def thresholds(self) -> NDArray[Any]: ...

@final
class Scores:
    def values(self, metric: int) -> NDArray[Any]: ...
    def mean(self, metric: int) -> float: ...
    def class_means(self, metric: int, classes: NDArray[Any]) -> list[float]: ...
    def mean_of_class_means(self, metric: int, classes: NDArray[Any]) -> float: ...

def rank_neighbors(
    indices: NDArray[Any],
    query_classes: NDArray[Any],
    reference_classes: NDArray[Any],
    relevant: NDArray[Any],
    metrics: list[tuple[str, int | None]],
) -> Scores: ...
def rank_matches(matches: NDArray[Any], relevant: NDArray[Any], metrics: list[tuple[str, int | None]]) -> Scores: ...
def rank_all(
    query: NDArray[Any],
    reference: NDArray[Any],
    query_classes: NDArray[Any],
    reference_classes: NDArray[Any],
    distance: Distance,
    metrics: list[tuple[str, int | None]],
    *,
    exclude_self: bool = False,
    threads: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> Scores: ...
