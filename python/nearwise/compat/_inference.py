"""`InferenceModel`, as in pytorch-metric-learning 2.9, on nearwise's own search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from nearwise.compat._matching import MatchFinder
from nearwise.evaluation import CustomKNN

if TYPE_CHECKING:
    from collections.abc import Callable


class InferenceModel:
    """A trained model with a store of known embeddings to search.

    Parameters
    ----------
    trunk, embedder : torch.nn.Module
        Applied one after the other, in eval mode, in which they stay; no embedder means the trunk alone.
    match_finder : MatchFinder, optional
        By default cosine similarity with the threshold 0.9.
    normalize_embeddings : bool, default True
        Divide every embedding by its Euclidean norm.
    knn_func : object, optional
        With ``train``, ``add``, ``save``, ``load`` and called as ``(query, k)``. By default exact search by squared
        Euclidean distance, which finds what 2.9's Faiss index finds.
    data_device : str or torch.device, optional
        Where inputs go; by default CUDA if there is one.
    dtype : torch.dtype, optional
        What inputs are cast to.

    Examples
    --------
    >>> model = InferenceModel(torch.nn.Identity(), data_device="cpu")
    >>> model.train_knn(torch.eye(3))
    >>> model.get_nearest_neighbors(torch.tensor([[0.0, 2.0, 0.1]]), k=1).indices
    tensor([[1]])
    >>> model.is_match(torch.eye(3)[:1], torch.eye(3)[:1])
    True
    """

    def __init__(
        self,
        trunk: Any,
        embedder: Any = None,
        match_finder: Any = None,
        normalize_embeddings: bool = True,
        knn_func: Any = None,
        data_device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if data_device is None:
            data_device = "cuda" if torch.cuda.is_available() else "cpu"
        self.trunk = trunk
        self.embedder = torch.nn.Identity() if embedder is None else embedder
        self.match_finder = MatchFinder("cosine", threshold=0.9) if match_finder is None else match_finder
        self.normalize_embeddings = normalize_embeddings
        self.knn_func = CustomKNN("sqeuclidean") if knn_func is None else knn_func
        self.data_device = torch.device(data_device)
        self.dtype = dtype

    def get_embeddings(self, x: Any) -> torch.Tensor:
        """Return the embeddings of a batch, or of a list of samples."""
        batch = _stacked(x)
        if isinstance(batch, torch.Tensor):
            batch = batch.to(self.data_device)
            batch = batch if self.dtype is None else batch.to(self.dtype)
        self.trunk.eval()
        self.embedder.eval()
        with torch.no_grad():
            found: torch.Tensor = self.embedder(self.trunk(batch))
            return torch.nn.functional.normalize(found, dim=1) if self.normalize_embeddings else found

    def get_embeddings_from_tensor_or_dataset(self, inputs: Any, batch_size: int) -> torch.Tensor:
        """Return the embeddings of a tensor, of a list of samples or of a dataset of (sample, label).

        Raises
        ------
        TypeError
            `inputs` is something else.
        """
        inputs = _stacked(inputs)
        if isinstance(inputs, torch.Tensor | list):
            batches = [inputs[start : start + batch_size] for start in range(0, len(inputs), batch_size)]
            return torch.cat([self.get_embeddings(batch) for batch in batches])
        if isinstance(inputs, torch.utils.data.Dataset):
            loader = torch.utils.data.DataLoader(inputs, batch_size=batch_size)
            return torch.cat([self.get_embeddings(batch) for batch, _ in loader])
        raise TypeError(f"inputs must be a tensor, a list or a dataset, got {type(inputs).__name__}")

    def train_knn(self, inputs: Any, batch_size: int = 64) -> None:
        """Store the embeddings of `inputs`, in place of what was stored."""
        self.call_knn(self.knn_func.train, inputs, batch_size)

    def add_to_knn(self, inputs: Any, batch_size: int = 64) -> None:
        """Store the embeddings of `inputs` after those that are stored."""
        self.call_knn(self.knn_func.add, inputs, batch_size)

    def call_knn(self, func: Callable[[torch.Tensor], object], inputs: Any, batch_size: int) -> None:
        """Call `func` with the embeddings of `inputs`."""
        func(self.get_embeddings_from_tensor_or_dataset(inputs, batch_size))

    def get_nearest_neighbors(self, query: Any, k: int) -> Any:
        """Return ``(distances, indices)`` of the k stored embeddings that are nearest to each query."""
        return self.knn_func(self.get_embeddings(query), k)

    def get_matches(
        self, query: Any, ref: Any = None, threshold: float | None = None, return_tuples: bool = False
    ) -> Any:
        """Return which pairs match; see `MatchFinder.get_matching_pairs`."""
        query_emb = self.get_embeddings(query)
        ref_emb = query_emb if ref is None else self.get_embeddings(ref)
        return self.match_finder.get_matching_pairs(query_emb, ref_emb, threshold, return_tuples)

    def is_match(self, x: Any, y: Any, threshold: float | None = None) -> Any:
        """Return whether each sample of `x` matches that of `y`: an array, or one bool for one pair."""
        return self.match_finder.is_match(self.get_embeddings(x), self.get_embeddings(y), threshold)

    def save_knn_func(self, filename: str) -> None:
        """Write what is stored to a file."""
        self.knn_func.save(filename)

    def load_knn_func(self, filename: str) -> None:
        """Read what `save_knn_func` wrote."""
        self.knn_func.load(filename)


def _stacked(x: Any) -> Any:
    """Return a list of tensors as one tensor."""
    if isinstance(x, list) and x and all(isinstance(each, torch.Tensor) for each in x):
        return torch.stack(x)
    return x
