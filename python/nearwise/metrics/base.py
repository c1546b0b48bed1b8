"""What the embedding metrics share: the node they hang on, their states, the memory across batches."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors

from nearwise.metrics.state import declare_states


class _Borrowed:
    """Holds an object that a metric uses and does not own: copies share it, pickles leave it out.

    Without it a module kept as an attribute would join the metric's parameters, its copies and its checkpoints.
    """

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, Any]) -> _Borrowed:
        return self

    def __reduce__(self) -> tuple[type[_Borrowed], tuple[()]]:
        return _Borrowed, ()


class EmbeddingMetric(Metric):
    """A metric of the embeddings of one batch, or of a memory of the newest embeddings of all batches.

    Subclasses declare their states with `MetricState` annotations and call `remember` in ``update``.

    Parameters
    ----------
    node : object, optional
        What the metric is attached to. Its attribute ``cross_batch_memory_size`` (int or None) sets the memory. It is
        read once; the object is neither copied with the metric nor pickled.
    cross_batch_memory_size : int or None, optional
        Rows to remember, at least 1; None for no memory. Wins over the node's.
    **kwargs
        Options of ``torchmetrics.Metric``.

    Raises
    ------
    TypeError
        If the size is not an integer, or the node lacks the attribute.
    ValueError
        If the size is below 1, or a keyword is not an option of ``torchmetrics.Metric``.
    """

    supported_tasks: ClassVar[tuple[str, ...]] = ("embeddings",)
    is_differentiable = False

    memory_embeddings: Tensor
    memory_labels: Tensor
    cross_batch_memory_size: int | None

    def __init__(self, **kwargs: Any) -> None:
        node = kwargs.pop("node", None)
        size = _memory_size(node, kwargs)
        super().__init__(**kwargs)
        self._node = _Borrowed(node)
        self.cross_batch_memory_size = size
        declare_states(self)
        if size is not None:
            self.add_state("memory_embeddings", default=torch.empty(0, 0), dist_reduce_fx=None)
            self.add_state("memory_labels", default=torch.empty(0, dtype=torch.int64), dist_reduce_fx=None)
            # Keeps a MetricCollection from taking metrics of different memory for the same while their counts agree.
            self.add_state("memory_limit", default=torch.tensor(size), dist_reduce_fx=None)

    @property
    def node(self) -> Any:
        """The object that the metric is attached to, or None."""
        return self._node.value

    @property
    def full_state_update(self) -> bool:  # type: ignore[override]
        """Whether ``forward`` runs ``update`` twice: the memory's rows are not a sum over batches."""
        return self.cross_batch_memory_size is not None

    @property
    def cross_batch_memory(self) -> list[tuple[Tensor, Tensor]]:
        """The remembered (embedding, label) pairs, oldest first; empty without a memory."""
        if self.cross_batch_memory_size is None:
            return []
        return list(zip(self.memory_embeddings, self.memory_labels, strict=True))

    def remember(self, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor] | None:
        """Take a batch into account and return the rows to score.

        Parameters
        ----------
        embeddings : Tensor
            Shape (B, D), floating.
        labels : Tensor
            Shape (B,).

        Returns
        -------
        (Tensor, Tensor) or None
            The batch, without a memory; all of the memory, once it is full; None while there is nothing to score.
        """
        embeddings, labels = _checked(embeddings, labels)
        size = self.cross_batch_memory_size
        if len(embeddings) == 0:
            return None
        if size is None:
            return embeddings, labels
        device = self.memory_labels.device
        embeddings, labels = embeddings[-size:].to(device), labels[-size:].to(device)
        keep = min(len(self.memory_labels), size - len(labels))
        if keep == 0:
            self.memory_embeddings, self.memory_labels = embeddings.clone(), labels.clone()
        else:
            self.memory_embeddings = torch.cat([self.memory_embeddings[-keep:], embeddings])
            self.memory_labels = torch.cat([self.memory_labels[-keep:], labels])
        return (self.memory_embeddings, self.memory_labels) if len(self.memory_labels) == size else None

    def _sync_dist(self, dist_sync_fn: Any = gather_all_tensors, process_group: Any = None) -> None:
        """Gather the states of all processes but the memory, which belongs to the process that filled it."""
        reductions = self._reductions
        try:
            self._reductions = {name: fx for name, fx in reductions.items() if not name.startswith("memory_")}
            super()._sync_dist(dist_sync_fn, process_group=process_group)
        finally:
            self._reductions = reductions


def has_partner(labels: Tensor) -> Tensor:
    """Return which of the labels (N,) occur more than once, as bool (N,)."""
    _, label, members = torch.unique(labels, return_inverse=True, return_counts=True)
    return torch.gt(members[label], 1)


def _memory_size(node: Any, kwargs: dict[str, Any]) -> int | None:
    """Return the memory that the keyword or else the node asks for."""
    if "cross_batch_memory_size" in kwargs:
        size = kwargs.pop("cross_batch_memory_size")
    elif node is None:
        return None
    elif hasattr(node, "cross_batch_memory_size"):
        size = node.cross_batch_memory_size
    else:
        raise TypeError(f"node must have an attribute cross_batch_memory_size, got {type(node).__name__}")
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, Integral):
        raise TypeError(f"cross_batch_memory_size must be an integer or None, got {type(size).__name__}")
    if size < 1:
        raise ValueError(f"cross_batch_memory_size must be at least 1, got {size}")
    return int(size)


def _checked(embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two arguments, detached, if they fit each other."""
    for name, given in (("embeddings", embeddings), ("target", labels)):
        if not isinstance(given, Tensor):
            raise TypeError(f"{name} must be a torch tensor, got {type(given).__name__}")
    if not embeddings.is_floating_point():
        raise TypeError(f"embeddings must be floating, got {embeddings.dtype}")
    if embeddings.ndim != 2 or labels.ndim != 1:
        raise ValueError(
            f"embeddings must be (B, D) and target (B,), got {tuple(embeddings.shape)} and {tuple(labels.shape)}"
        )
    if len(embeddings) != len(labels):
        raise ValueError(f"embeddings and target must be of one length, got {len(embeddings)} and {len(labels)}")
    return embeddings.detach(), labels.detach().to(embeddings.device)
