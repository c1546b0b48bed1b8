"""Running datasets through a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from nearwise.testers.labels import Column, columns_of, joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

# One batch's embeddings, one tensor for each stream, and its labels as the loader gave them.
Embed = Callable[[Any], tuple[list[Tensor], Any]]


def embed(
    dataset: Any, embed_batch: Embed, *, device: torch.device, loader: Mapping[str, Any], progress: bool
) -> tuple[list[Tensor], list[Column]]:
    """Return the embeddings and labels of a whole dataset, in its order.

    Parameters
    ----------
    dataset : Dataset
        With ``__len__`` and ``__getitem__``.
    embed_batch : callable
        From a batch to one (rows, D) tensor for each stream, and the labels.
    device : torch.device
        Where to keep the embeddings.
    loader : mapping
        Arguments of ``DataLoader``.
    progress : bool
        Show a bar on stderr.

    Returns
    -------
    list of Tensor, list of columns
        Shape (N, D) each, and one column of labels for each level.

    Raises
    ------
    TypeError
        If the dataset has no length.
    ValueError
        If it is empty, or a batch's embeddings and labels do not fit.
    """
    total = _length(dataset)
    if type(dataset) is TensorDataset and loader.get("collate_fn") is None:
        # Handing slices of tensors between processes takes six times as long as cutting them here.
        loader = {**loader, "num_workers": 0}
    batches = DataLoader(dataset, shuffle=False, drop_last=False, **loader)
    streams: list[Tensor] = []
    labels: list[list[Column]] = []
    done = 0
    with torch.no_grad():
        for batch in _shown(batches, progress):
            outputs, batch_labels = embed_batch(batch)
            rows = _rows(outputs)
            if not streams:
                streams = [output.new_empty((total, output.shape[1]), device=device) for output in outputs]
            if done + rows > total:
                raise ValueError(f"dataset says that it has {total} samples and yields more")
            for stream, output in zip(streams, outputs, strict=True):
                stream[done : done + rows] = output
            labels.append(columns_of(batch_labels, rows))
            done += rows
    if done != total:
        raise ValueError(f"dataset says that it has {total} samples and yields {done}")
    return streams, joined(labels)


def moved(data: Any, device: torch.device, dtype: torch.dtype | None) -> Any:
    """Return a batch on a device, tensors of floating point cast to a dtype if given; containers keep their kind."""
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype if data.is_floating_point() else None)
    if isinstance(data, Mapping) and not hasattr(data, "to"):
        return {key: moved(value, device, dtype) for key, value in data.items()}
    if isinstance(data, list | tuple):
        parts = [moved(value, device, dtype) for value in data]
        return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)
    return data.to(device) if hasattr(data, "to") else data


def as_numpy(embeddings: Tensor) -> NDArray[Any]:
    """Return embeddings as NumPy has them: bfloat16, which it lacks, as float32."""
    array: NDArray[Any] = (embeddings.float() if embeddings.dtype == torch.bfloat16 else embeddings).cpu().numpy()
    return array


def _length(dataset: Any) -> int:
    """Return the number of samples, at least one."""
    if not isinstance(dataset, Sized):
        raise TypeError(f"dataset must have a length (__len__), {type(dataset).__name__} has none")
    if len(dataset) == 0:
        raise ValueError(f"dataset must have at least one sample, {type(dataset).__name__} is empty")
    return len(dataset)


def _rows(outputs: list[Tensor]) -> int:
    """Return the number of rows of a batch's outputs, if they are matrices of one length."""
    for output in outputs:
        if not isinstance(output, Tensor):
            raise TypeError(f"the model must return a tensor of embeddings, got {type(output).__name__}")
        if output.ndim != 2 or len(output) != len(outputs[0]):
            raise ValueError(f"the model must return (batch, D) embeddings, got {[tuple(o.shape) for o in outputs]}")
    return len(outputs[0])


def _shown(batches: DataLoader[Any], progress: bool) -> Iterator[Any]:
    """Return the batches, with a bar if wanted."""
    if not progress:
        return iter(batches)
    from tqdm.auto import tqdm

    return iter(tqdm(batches, desc="embedding"))
