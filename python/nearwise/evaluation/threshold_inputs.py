"""Scores and labels of any kind as the arrays that a sweep reads, and the complaints about those that are neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearwise._arrays import FLOATS, is_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NATIVE = {np.dtype(name): np.dtype(name) for name in ("float16", "float32", "float64")}
_BOOL = np.dtype(bool)


def read_scores(scores: Any) -> NDArray[Any]:
    """Return scores as a contiguous array, bfloat16 as the uint16 of its bits; shares memory where it can.

    Parameters
    ----------
    scores : numpy.ndarray or torch.Tensor of shape (pairs,)
        float16, bfloat16, float32 or float64.

    Raises
    ------
    TypeError
        Neither an array nor a tensor.
    ValueError
        Another number of dimensions or another dtype.
    """
    array = _array("scores", scores, "float16, bfloat16, float32 or float64")
    dtype = array.dtype
    if dtype in _NATIVE:
        pass
    elif dtype.name == "bfloat16" or (dtype == np.uint16 and is_tensor(scores)):
        array = array.view(np.uint16)
    elif dtype.name in FLOATS:
        array = array.astype(dtype.newbyteorder("="))
    else:
        raise ValueError(f"scores must have a floating dtype ({', '.join(FLOATS)}), got {dtype.name}")
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else array.copy()


def read_labels(labels: Any) -> NDArray[np.uint8]:
    """Return boolean labels as a contiguous array of bytes; shares memory where it can.

    Parameters
    ----------
    labels : numpy.ndarray or torch.Tensor of shape (pairs,)
        bool, True for a pair that should match.

    Raises
    ------
    TypeError
        Neither an array nor a tensor.
    ValueError
        Another number of dimensions, or labels that are not bool.
    """
    array = _array("labels", labels, "bool")
    if array.dtype != _BOOL:
        raise ValueError(f"labels must have dtype bool, got {array.dtype.name}{_advice(array)}")
    if not array.flags.c_contiguous:
        array = array.copy()
    return array.view(np.uint8)


def _array(argument: str, given: Any, expected: str) -> NDArray[Any]:
    if type(given) is np.ndarray:
        array: NDArray[Any] = given
    elif is_tensor(given):
        array = _from_tensor(argument, given)
    elif isinstance(given, np.ndarray) and not isinstance(given, np.ma.MaskedArray):
        array = np.asarray(given)
    else:
        raise TypeError(f"{argument} must be a NumPy array or a torch tensor of {expected}, got {type(given).__name__}")
    if array.ndim != 1:
        raise ValueError(f"{argument} must have 1 dimension, got shape {array.shape}")
    return array


def _from_tensor(argument: str, tensor: Any) -> NDArray[Any]:
    import torch

    if type(tensor) is torch.Tensor:
        try:
            # Refuses whatever needs a closer look, and is several times as fast as looking.
            return tensor.numpy()
        except (TypeError, RuntimeError):
            pass
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        raise TypeError(f"{argument} must be a dense tensor that holds data, got {tensor.layout} on {tensor.device}")
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)  # type: ignore[no-any-return]
    try:
        return tensor.resolve_neg().numpy()  # type: ignore[no-any-return]
    except TypeError:
        name = str(tensor.dtype).removeprefix("torch.")
        raise ValueError(f"{argument} must have a dtype that NumPy has, or bfloat16, got {name}") from None


def _advice(labels: NDArray[Any]) -> str:
    """Return how to turn common encodings of two classes into bool, as the end of a message."""
    if labels.size > 0 and labels.dtype.kind in "iuf":
        low, high = labels.min(), labels.max()
        if (low, high) in ((0, 1), (0, 0), (1, 1)):
            return " of 0 and 1; pass labels == 1"
        if (low, high) == (-1, 1):
            return " with the values -1 and 1; pass labels > 0, and no ignored pairs"
        return f" from {low} to {high}; pass labels == whatever means a match"
    if labels.dtype.kind in "USTO":
        return "; pass labels == whatever means a match"
    return ""
