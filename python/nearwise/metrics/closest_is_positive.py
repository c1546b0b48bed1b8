"""Share of embeddings whose nearest other embedding has their label."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from nearwise.metrics.base import EmbeddingMetric, has_partner
from nearwise.metrics.nearest import nearest_after, nearest_other
from nearwise.metrics.state import MetricState


class ClosestIsPositiveAccuracy(EmbeddingMetric):
    """Of the embeddings that have another of their label, the share whose nearest other embedding has it.

    Distances are Euclidean, exact, ties to the embedding that came first. A NaN embedding is nobody's match. Nothing of
    size N × N is held, and with a memory a batch is compared with the memory, not the memory with itself again.

    Parameters
    ----------
    node : object, optional
        Whose attribute ``cross_batch_memory_size`` (int or None) sets the memory.
    cross_batch_memory_size : int or None, optional
        Rows to remember across batches, at least 1. Wins over the node's. With a memory nothing is scored until it is
        full; after that every batch scores all of it.
    **kwargs
        Options of ``torchmetrics.Metric``.

    Attributes
    ----------
    correct, total : Tensor
        Matches and counted embeddings so far, int64.
    cross_batch_memory : list of (Tensor, Tensor)
        The remembered embeddings and labels, oldest first. It belongs to its process: synchronising leaves it alone.

    Raises
    ------
    TypeError
        If the size is not an integer, or the node lacks the attribute.
    ValueError
        If the size is below 1, or a keyword is not an option of ``torchmetrics.Metric``.

    Notes
    -----
    A memory of s rows of D float32 holds 4·s·D bytes for the embeddings and 20·s for labels and neighbours.

    Examples
    --------
    >>> import torch
    >>> from nearwise.metrics import ClosestIsPositiveAccuracy
    >>> accuracy = ClosestIsPositiveAccuracy()
    >>> embeddings = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [10.0, 0.0], [11.0, 0.0]])
    >>> accuracy.update(embeddings, torch.tensor([0, 0, 1, 1, 2]))
    >>> accuracy.compute()
    tensor(0.5000)
    """

    higher_is_better = True
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    correct: Annotated[Tensor, MetricState(default=0)]
    total: Annotated[Tensor, MetricState(default=0)]
    memory_nearest: Tensor
    memory_distances: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.cross_batch_memory_size is not None:
            self.add_state("memory_nearest", default=torch.empty(0, dtype=torch.int64), dist_reduce_fx=None)
            self.add_state("memory_distances", default=torch.empty(0), dist_reduce_fx=None)

    def update(self, predictions: Tensor, target: Tensor) -> None:
        """Count the matches of a batch, or of the memory that it joins.

        Parameters
        ----------
        predictions : Tensor
            Embeddings, shape (B, D), floating.
        target : Tensor
            Labels, shape (B,).

        Raises
        ------
        TypeError
            If the embeddings are not floating.
        ValueError
            If the shapes do not fit.
        """
        scored = self.remember(predictions, target)
        if scored is None:
            return
        embeddings, labels = scored
        if len(labels) < 2:
            return
        if self.cross_batch_memory_size is None:
            distances, nearest = nearest_other(embeddings)
        else:
            distances, nearest = self._nearest_in_memory(embeddings, added=len(predictions))
        counted = has_partner(labels)
        match = counted & (labels[nearest] == labels) & ~distances.isnan()
        self.correct += match.sum().to(self.correct.device)
        self.total += counted.sum().to(self.total.device)

    def compute(self) -> Tensor:
        """Return ``correct / total``, a scalar between 0 and 1; NaN when nothing was counted since the last reset."""
        correct, total = int(self.correct), int(self.total)
        return torch.tensor(correct / total if total else float("nan"), device=self.correct.device)

    def _nearest_in_memory(self, embeddings: Tensor, *, added: int) -> tuple[Tensor, Tensor]:
        """Return the nearest other row of each row of the full memory, from those before this batch if known."""
        distances, nearest = self.memory_distances, self.memory_nearest
        # Should the search be interrupted, the next one must not start from neighbours of an older memory.
        self.memory_nearest = nearest[:0]
        if len(nearest) == len(embeddings) and distances.dtype == _distance_dtype(embeddings):
            found = nearest_after(embeddings, min(added, len(embeddings)), distances, nearest)
        else:
            found = nearest_other(embeddings)
        self.memory_distances, self.memory_nearest = found
        return found


def _distance_dtype(embeddings: Tensor) -> torch.dtype:
    """Return the dtype in which distances of such embeddings come."""
    return torch.float64 if embeddings.dtype == torch.float64 else torch.float32
