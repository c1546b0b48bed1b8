"""Embeddings of any kind on their way in, results of the same kind on their way out.

`rows` wraps whatever a caller passes (a NumPy array, a torch tensor, an object with ``__dlpack__``) without copying
it; `Rows.numpy` and `Rows.torch` hand it to a backend, and `Rows.give_back` turns a backend's result into the
caller's kind on the caller's device. A copy is made only where memory cannot be read as it is: elements that are
unaligned or of the other byte order, or a tensor of another device for a backend that works on the CPU.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLOATS = ("float16", "bfloat16", "float32", "float64")
_CPU_DLPACK = 1
_BLOCK_BYTES = 1 << 22


def is_tensor(given: object) -> bool:
    """Whether `given` is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.Tensor)


@dataclass(frozen=True, eq=False)
class Rows:
    """A matrix as its caller gave it, one embedding a row.

    Attributes
    ----------
    given : numpy.ndarray or torch.Tensor
        The caller's own memory: a plain array, or a tensor without autograd graph.
    kind : str
        ``"numpy"``, ``"torch"``, or the name of the library that an object with ``__dlpack__`` came from.
    device : str
        Where it lives, in torch's spelling.
    dtype : str
        Name of the element type.
    namespace : object or None
        The array library's namespace, for an object that says it.
    """

    given: Any
    kind: str
    device: str
    dtype: str
    namespace: Any = None

    def __len__(self) -> int:
        return int(self.given.shape[0])

    @property
    def features(self) -> int:
        """Number of features of each row."""
        return int(self.given.shape[1])

    @property
    def where(self) -> str:
        """Kind and device, for messages."""
        return f"{self.kind} on {self.device}"

    def numpy(self) -> NDArray[Any]:
        """Return the rows as the core reads them: any strides, native elements, bfloat16 as uint16 bits."""
        array = _tensor_to_numpy(self.given) if is_tensor(self.given) else self.given
        if array.dtype.name == "bfloat16":
            array = array.view(np.uint16)
        if not (array.dtype.isnative and array.flags.aligned):
            array = np.array(array, dtype=array.dtype.newbyteorder("="))
        return array

    def torch(self) -> Any:
        """Return the rows as a tensor on their own device; memory is shared where torch can express its strides."""
        if is_tensor(self.given):
            return self.given
        import torch

        array = self.numpy()
        if any(stride < 0 for stride in array.strides) or not array.flags.writeable:
            array = array.copy()
        if self.dtype == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    def give_back(self, result: Any) -> Any:
        """Return a backend's `result` (array or tensor) as this caller's kind, on this caller's device."""
        if self.kind == "torch":
            if not is_tensor(result):
                import torch

                result = torch.from_numpy(np.ascontiguousarray(result))
            return result.to(self.given.device)
        if is_tensor(result):
            result = result.detach().cpu().numpy()
        if self.namespace is not None and hasattr(self.namespace, "from_dlpack"):
            return self.namespace.from_dlpack(result)
        return result

    def slice(self, start: int, stop: int) -> Rows:
        """Return the rows `start` to `stop`."""
        return Rows(self.given[start:stop], self.kind, self.device, self.dtype, self.namespace)


@dataclass(frozen=True, eq=False)
class Stored:
    """Rows kept by this package: a contiguous copy on the CPU, handed out as whatever kind a query is.

    Attributes
    ----------
    array : numpy.ndarray
        As `Rows.numpy` gives it.
    dtype : str
        Name of the element type.
    """

    array: NDArray[Any]
    dtype: str

    @classmethod
    def copy_of(cls, side: Rows) -> Stored:
        """Return a copy of `side`."""
        return cls(np.array(side.numpy(), order="C", copy=True), side.dtype)

    @classmethod
    def joined(cls, parts: tuple[Stored, ...]) -> Stored:
        """Return `parts`, which are of one form, one after the other."""
        return cls(np.concatenate([part.array for part in parts]), parts[0].dtype)

    @property
    def form(self) -> str:
        """Element type and number of features, for messages."""
        return f"{self.dtype} with {self.array.shape[1]} features"

    def like(self, query: Rows) -> Any:
        """Return the rows as an array or tensor of the kind, and on the device, of `query`.

        Raises
        ------
        ValueError
            `query` has another element type.
        """
        if query.dtype != self.dtype:
            raise ValueError(f"query must have the dtype of the stored rows, {self.dtype}, got {query.dtype}")
        if query.kind == "torch":
            import torch

            if self.dtype == "bfloat16":
                return torch.from_numpy(self.array.view(np.int16)).view(torch.bfloat16).to(query.given.device)
            return torch.from_numpy(self.array).to(query.given.device)
        array = self.array.view(query.given.dtype) if self.dtype == "bfloat16" else self.array
        return array if query.namespace is None else query.namespace.from_dlpack(array)


class Pair(NamedTuple):
    """Two sides of a call that fit each other."""

    query: Rows
    reference: Rows


def rows(given: Any, argument: str, *, any_dtype: bool = False) -> Rows:
    """Wrap an argument of a caller.

    Parameters
    ----------
    given : numpy.ndarray, torch.Tensor or an object with ``__dlpack__``
        Shape (rows, features).
    argument : str
        Its name, for messages.
    any_dtype : bool
        Let every element type pass, for a distance that is not ours.

    Raises
    ------
    TypeError
        Another type, or an element type that is no float16, bfloat16, float32 or float64.
    ValueError
        Another number of dimensions than two.
    """
    wrapped = _wrap(given, argument)
    if wrapped.given.ndim != 2:
        shape = tuple(wrapped.given.shape)
        raise ValueError(f"{argument} must have 2 dimensions (rows, features), got shape {shape}")
    if wrapped.dtype not in FLOATS and not any_dtype:
        expected = "float16, bfloat16, float32 or float64"
        raise TypeError(f"{argument} must have dtype {expected}, got {wrapped.dtype}")
    return wrapped


def pair(
    query: Any,
    reference: Any,
    names: tuple[str, str] = ("query", "reference"),
    *,
    any_dtype: bool = False,
) -> Pair:
    """Wrap two sides and check that they are of one kind, device, element type and number of features.

    Raises
    ------
    TypeError
        As `rows`, or the two are of different kinds.
    ValueError
        As `rows`, or the two differ in device, element type or number of features.
    """
    sides = Pair(rows(query, names[0], any_dtype=any_dtype), rows(reference, names[1], any_dtype=any_dtype))
    check_fit(*sides, names, any_dtype=any_dtype)
    return sides


def check_fit(left: Rows, right: Rows, names: tuple[str, str], *, any_dtype: bool) -> None:
    """Check what `pair` says about two sides."""
    both = f"{names[0]} and {names[1]}"
    if left.kind != right.kind:
        raise TypeError(f"{both} must be of the same kind, got {left.where} and {right.where}")
    if left.device != right.device:
        raise ValueError(f"{both} must be on the same device, got {left.where} and {right.where}")
    if any_dtype:
        return
    if left.dtype != right.dtype:
        raise ValueError(f"{both} must have the same dtype, got {left.dtype} and {right.dtype}")
    if left.features != right.features:
        raise ValueError(f"{both} must have the same number of features, got {left.features} and {right.features}")


def first_nan_row(side: Rows) -> int | None:
    """Return the number of the first row that holds NaN, or None; reads in blocks."""
    if side.dtype not in FLOATS or side.features == 0:
        return None
    step = max(1, _BLOCK_BYTES // (8 * side.features))
    for start in range(0, len(side), step):
        block = side.slice(start, start + step).given
        bad = block.isnan().any(dim=1).cpu().numpy() if is_tensor(block) else np.isnan(block).any(axis=1)
        if bad.any():
            return start + int(bad.argmax())
    return None


def _wrap(given: Any, argument: str) -> Rows:
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(f"{argument} must not be a masked array: fill or drop the masked rows first")
    if isinstance(given, np.ndarray):
        return _from_numpy(np.asarray(given), "numpy")
    if is_tensor(given):
        return _from_tensor(given.detach(), "torch", argument)
    if hasattr(given, "__dlpack__"):
        return _from_dlpack(given, argument)
    expected = "a NumPy array, a torch tensor or an object with __dlpack__"
    hint = " (convert it with numpy.asarray)" if isinstance(given, list | tuple) or hasattr(given, "__array__") else ""
    raise TypeError(f"{argument} must be {expected}, got {type(given).__name__}{hint}")


def _from_numpy(array: NDArray[Any], kind: str, namespace: Any = None) -> Rows:
    # `name` is the same for both byte orders.
    return Rows(array, kind, "cpu", array.dtype.name, namespace)


def _from_tensor(tensor: Any, kind: str, argument: str, namespace: Any = None) -> Rows:
    import torch

    if tensor.is_quantized:
        raise TypeError(f"{argument} must not be quantized, got {tensor.dtype}: dequantize it first")
    if tensor.layout != torch.strided:
        raise TypeError(f"{argument} must be a dense tensor, got layout {tensor.layout}")
    if tensor.device.type == "meta":
        raise TypeError(f"{argument} must hold data, got a tensor on the meta device")
    return Rows(tensor.resolve_neg(), kind, str(tensor.device), str(tensor.dtype).removeprefix("torch."), namespace)


def _from_dlpack(given: Any, argument: str) -> Rows:
    module = type(given).__module__.partition(".")[0]
    # A script's own class has no library's name.
    kind = type(given).__qualname__ if module == "__main__" else module
    namespace = given.__array_namespace__() if hasattr(given, "__array_namespace__") else None
    if given.__dlpack_device__()[0] != _CPU_DLPACK:
        import torch

        return _from_tensor(torch.utils.dlpack.from_dlpack(given), kind, argument, namespace)
    try:
        return _from_numpy(np.from_dlpack(given), kind, namespace)
    except (BufferError, RuntimeError, TypeError) as error:
        # NumPy's reader knows no bfloat16; the library's own conversion may.
        if not hasattr(given, "__array__"):
            raise TypeError(f"{argument} cannot be read through __dlpack__: {error}") from error
        return _from_numpy(np.asarray(given), kind, namespace)


def _tensor_to_numpy(tensor: Any) -> NDArray[Any]:
    import torch

    tensor = tensor.cpu()
    if tensor.dtype == torch.bfloat16:
        bits: NDArray[Any] = tensor.view(torch.int16).numpy()
        return bits.view(np.uint16)
    array: NDArray[Any] = tensor.numpy()
    return array
