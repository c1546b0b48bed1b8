"""Medians of the distances between embeddings."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor
from torchmetrics.utilities.distributed import gather_all_tensors

from nearwise.distances import LpDistance
from nearwise.metrics.base import EmbeddingMetric, has_partner
from nearwise.metrics.state import MetricState

_EUCLIDEAN = LpDistance(normalize_embeddings=False)
_BLOCK = 1 << 22


class MedianDistances(EmbeddingMetric):
    """Medians of four sets of Euclidean distances, for watching how an embedding space spreads.

    ==========================================  =====================================================================
    key of the result                           distances collected
    ==========================================  =====================================================================
    ``MedianDistance``                          each unordered pair
    ``MedianClosestDistance``                   each embedding and its nearest other one
    ``MedianClosestPositiveDistance``           each embedding and its nearest other one of its label
    ``MedianClosestVsClosestPositiveDistance``  the third minus the second, for the same embeddings
    ==========================================  =====================================================================

    The last two leave out embeddings that have no other of their label. The median of an even number of values is the
    lower of the two in the middle, over all batches together and exact. A NaN embedding makes the medians NaN.

    Parameters
    ----------
    node : object, optional
        Whose attribute ``cross_batch_memory_size`` (int or None) sets the memory.
    cross_batch_memory_size : int or None, optional
        Rows to remember across batches, at least 1. Wins over the node's. With a memory nothing is collected until it
        is full; after that every batch collects the distances of all of it.
    **kwargs
        Options of ``torchmetrics.Metric``.

    Attributes
    ----------
    all_distances, closest_distances, positive_distances, closest_vs_positive_distances : list of Tensor
        One tensor for each scored batch: float64 for float64 embeddings, float32 for the rest.
    cross_batch_memory : list of (Tensor, Tensor)
        The remembered embeddings and labels, oldest first.

    Raises
    ------
    TypeError
        If the size is not an integer, or the node lacks the attribute.
    ValueError
        If the size is below 1, or a keyword is not an option of ``torchmetrics.Metric``.

    Notes
    -----
    An exact median needs all values, so ``all_distances`` grows by 2·N·(N−1) bytes (float32) for each scoring of N
    rows: 130 kB for a batch of 256, but 2 MB for each batch with a memory of 1,024 and 537 MB with one of 16,384.
    ``compute`` takes about twice the state for a moment. Beyond the state an update needs one block of 4 million
    distances.

    Examples
    --------
    >>> import torch
    >>> from nearwise.metrics import MedianDistances
    >>> medians = MedianDistances()
    >>> embeddings = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [10.0, 0.0], [11.0, 0.0]])
    >>> medians.update(embeddings, torch.tensor([0, 0, 1, 1, 2]))
    >>> {name: value.item() for name, value in medians.compute().items()}
    {'MedianDistance': 7.0, 'MedianClosestDistance': 1.0, 'MedianClosestPositiveDistance': 1.0,
     'MedianClosestVsClosestPositiveDistance': 0.0}
    """

    all_distances: Annotated[list[Tensor], MetricState()]
    closest_distances: Annotated[list[Tensor], MetricState()]
    positive_distances: Annotated[list[Tensor], MetricState()]
    closest_vs_positive_distances: Annotated[list[Tensor], MetricState()]

    def update(self, embeddings: Tensor, target: Tensor) -> None:
        """Collect the distances of a batch, or of the memory that it joins.

        Parameters
        ----------
        embeddings : Tensor
            Shape (B, D), floating.
        target : Tensor
            Labels, shape (B,).

        Raises
        ------
        TypeError
            If the embeddings are not floating.
        ValueError
            If the shapes do not fit.
        """
        scored = self.remember(embeddings, target)
        if scored is None:
            return
        pairs, closest, positive = _distances(*scored)
        partnered = has_partner(scored[1])
        self.all_distances.append(pairs)
        self.closest_distances.append(closest if len(closest) > 1 else closest[:0])
        self.positive_distances.append(positive[partnered])
        self.closest_vs_positive_distances.append((positive - closest)[partnered])

    def compute(self) -> dict[str, Tensor]:
        """Return the four medians as scalars; NaN for a set without values."""
        return {
            "MedianDistance": _lower_median(self.all_distances),
            "MedianClosestDistance": _lower_median(self.closest_distances),
            "MedianClosestPositiveDistance": _lower_median(self.positive_distances),
            "MedianClosestVsClosestPositiveDistance": _lower_median(self.closest_vs_positive_distances),
        }

    def _sync_dist(self, dist_sync_fn: Any = gather_all_tensors, process_group: Any = None) -> None:
        """Gather the distances of all processes, as float64 if any has float64 ones: processes may differ in that."""
        states = [name for name, value in self.metric_state.items() if isinstance(value, list)]
        wide = any(part.dtype == torch.float64 for name in states for part in getattr(self, name))
        flag = torch.tensor(int(wide), device=self.device)
        if any(dist_sync_fn(flag, group=process_group or self.process_group)):
            for name in states:
                parts = getattr(self, name) or [torch.empty(0, device=self.device)]
                setattr(self, name, [part.double() for part in parts])
        super()._sync_dist(dist_sync_fn, process_group=process_group)


def _distances(embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distances of all pairs i < j, row by row, and each row's least to another and to one of its label."""
    total = len(embeddings)
    dtype = torch.float64 if embeddings.dtype == torch.float64 else torch.float32
    pairs = torch.empty(total * (total - 1) // 2, dtype=dtype, device=embeddings.device)
    closest = torch.full((total,), torch.nan, dtype=dtype, device=embeddings.device)
    positive = closest.clone()
    step = max(1, _BLOCK // max(1, total))
    written = 0
    for start in range(0, total, step):
        block = embeddings[start : start + step]
        values = _EUCLIDEAN(block, embeddings[start:])
        upper = torch.ones_like(values, dtype=torch.bool).triu_(1)
        chosen = values[upper]
        pairs[written : written + len(chosen)] = chosen
        written += len(chosen)
        same = labels[start : start + step, None] == labels[None, start:]
        for least, wanted in ((closest, upper), (positive, upper & same)):
            shown = values.where(wanted, torch.nan)
            least[start : start + step] = least[start : start + step].fmin(_nanmin(shown, 1))
            least[start:] = least[start:].fmin(_nanmin(shown, 0))
    return pairs, closest, positive


def _nanmin(values: Tensor, dim: int) -> Tensor:
    """Return the least number along a dimension; NaN where there is none."""
    missing = values.isnan()
    return values.masked_fill(missing, torch.inf).amin(dim).masked_fill(missing.all(dim), torch.nan)


def _lower_median(state: list[Tensor] | Tensor) -> Tensor:
    """Return the lower middle of a list state, or of what synchronising made of it."""
    if isinstance(state, Tensor):
        state = [state]
    values = torch.cat(state) if state else torch.empty(0)
    return values.median() if len(values) else values.new_tensor(torch.nan)
