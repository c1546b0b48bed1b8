"""The nearest other row of every row, kept up to date while rows come in at one end and leave at the other.

A memory of s rows that takes b new ones has changed little: rows keep their nearest neighbour unless it left or a new
row is nearer. So a batch costs a search of the b new rows against all, of the old rows against the b new ones, and of
the few rows whose neighbour left against all: about 3·b·s pairs rather than s². The result is the one that a full
search gives, bit for bit, because a pair's distance does not depend on the search that computes it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nearwise.neighbors import knn

# Below this share of rows to search anew the bookkeeping pays (benches/metrics.py).
_WORTH_A_THIRD = 3


def nearest_other(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Distance and index of each row's nearest other row, ties to the smaller index, NaN last.

    Parameters
    ----------
    embeddings : Tensor
        Shape (N, D), N at least 2.

    Returns
    -------
    (Tensor, Tensor)
        Euclidean distances (N,) and int64 indices (N,).

    Examples
    --------
    >>> import torch
    >>> nearest_other(torch.tensor([[0.0], [1.0], [3.0]]))
    (tensor([1., 1., 2.]), tensor([1, 0, 1]))
    """
    found = knn(embeddings, embeddings, 1, ref_includes_query=True, nan_policy="last")
    return found.distances[:, 0], found.indices[:, 0]


def nearest_after(embeddings: Tensor, added: int, distances: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """As `nearest_other`, from its result before the last rows came and as many first rows left.

    Parameters
    ----------
    embeddings : Tensor
        Shape (N, D), the rows now.
    added : int
        How many of the last rows are new; as many have left at the front.
    distances, indices : Tensor
        What `nearest_other` gave for the N rows before, shape (N,).
    """
    total = len(embeddings)
    kept = total - added
    distances, indices = distances[added:].clone(), indices[added:] - added
    lost = torch.nonzero(indices < 0)[:, 0]
    if added < 2 or _WORTH_A_THIRD * (2 * added + len(lost)) > total:
        return nearest_other(embeddings)
    old, new = embeddings[:kept], embeddings[kept:]

    fresh = knn(old, new, 1, nan_policy="last")
    nearer = _less(fresh.distances[:, 0], distances)
    distances = torch.where(nearer, fresh.distances[:, 0], distances)
    indices = torch.where(nearer, fresh.indices[:, 0] + kept, indices)
    if len(lost):
        # The row itself may or may not be among its two nearest; the first that is another row is the answer.
        two = knn(embeddings[lost], embeddings, 2, nan_policy="last")
        pick = (two.indices[:, 0] == lost).long()[:, None]
        distances[lost] = two.distances.gather(1, pick)[:, 0]
        indices[lost] = two.indices.gather(1, pick)[:, 0]

    before = knn(new, old, 1, nan_policy="last")
    among_distances, among_indices = nearest_other(new)
    nearer = _less(among_distances, before.distances[:, 0])
    return (
        torch.cat([distances, torch.where(nearer, among_distances, before.distances[:, 0])]),
        torch.cat([indices, torch.where(nearer, among_indices + kept, before.indices[:, 0])]),
    )


def _less(new: Tensor, old: Tensor) -> Tensor:
    """Where a row of greater index takes the place: only if strictly nearer, NaN being farthest."""
    return (new < old) | (old.isnan() & ~new.isnan())
