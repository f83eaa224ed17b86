"""A tensor's dtype, device and memory: methods of PyTorch's."""

from __future__ import annotations

import builtins
from typing import Any

from .. import _core
from .._core import Device, DType, Tensor
from ._arguments import refuse

_TYPES = {
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
    "float16": "HalfTensor",
    "bfloat16": "BFloat16Tensor",
    "int64": "LongTensor",
    "int32": "IntTensor",
    "int16": "ShortTensor",
    "int8": "CharTensor",
    "uint8": "ByteTensor",
    "bool": "BoolTensor",
}
_DTYPES = {name: dtype for dtype, name in _TYPES.items()}


def _is_dtype(value: Any) -> bool:
    return isinstance(value, (DType, builtins.type)) or hasattr(value, "itemsize")


def to(
    self: Tensor,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    other: Tensor | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """With another dtype, on another device, or both; as another tensor has them. Itself where it has them already.

    Parameters
    ----------
    *args : DType, Device, str or Tensor
        ``x.to(dtype)``, ``x.to(device)``, ``x.to(device, dtype)``, ``x.to(other)``; then `non_blocking` and `copy`.
    non_blocking : bool
        Allowed: copies are made when the value is needed, in the device's order.
    copy : bool
        Another tensor, also where nothing changes.

    >>> gb.tensor([1.5]).to(gb.int64)
    tensor([1])
    >>> gb.tensor([1.0]).to("cpu").device
    gabbro.Device('cpu')
    """
    refuse("to", memory_format=memory_format)
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
    elif rest and (rest[0] is None or (isinstance(rest[0], (Device, str)) and not _names_dtype(rest[0]))):
        device = rest.pop(0)
        if rest and not isinstance(rest[0], bool):
            dtype = rest.pop(0)
    elif (rest and _is_dtype(rest[0])) or (rest and isinstance(rest[0], str)):
        dtype = rest.pop(0)
    if (rest and not all(isinstance(flag, bool) for flag in rest)) or len(rest) > 2:
        raise TypeError(f"[to] {rest[0]!r} is neither a dtype nor a device")
    if len(rest) == 2:
        copy = rest[1]
    if other is not None:
        dtype, device = other.dtype, other.device
    x = self
    if device is not None and x.device != device:
        x = _moved(x, device)
    if dtype is not None and _core._dtype(dtype) != x.dtype:
        x = x.astype(dtype)
    return clone(x) if copy and x is self else x


def _names_dtype(text: Any) -> bool:
    if isinstance(text, str):
        try:
            _core._dtype(text)
        except TypeError:
            return False
        return True
    return False


_moved = Tensor.to


_numpy = Tensor.numpy


def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The elements as a NumPy array: read-only, since tensors do not change, and without a copy on the CPU.

    `force` allows what is allowed here in any case: tensors of a GPU, and those that require a gradient.
    """
    return _numpy(self)


def cpu(self: Tensor) -> Tensor:
    """On the CPU; itself where it is there."""
    return to(self, device="cpu")


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """On a GPU: NVIDIA's, or, as in PyTorch for ROCm, AMD's on a machine without NVIDIA's."""
    return to(self, device="cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)


def is_cuda(self: Tensor) -> bool:
    """Whether it lives on a GPU."""
    return str(self.device).startswith(("cuda", "rocm"))


def type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """With another dtype, or without an argument the name of its type, such as 'torch.FloatTensor'."""
    if dtype is None:
        return f"torch.{'cuda.' if is_cuda(self) else ''}{_TYPES[str(self.dtype)]}"
    if isinstance(dtype, str):
        name = dtype.split(".")[-1]
        if ".cuda." in dtype:
            return cuda(self).astype(_DTYPES.get(name, name))
        return self.astype(_DTYPES.get(name, name))
    return self.astype(getattr(dtype, "dtype", dtype))


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """With the dtype and on the device of another tensor."""
    return to(self, other)


def _cast(dtype: DType) -> Any:
    def cast(self: Tensor) -> Tensor:
        return self if self.dtype == dtype else self.astype(dtype)

    cast.__doc__ = f"The elements as {dtype}; itself where they are."
    return cast


float = _cast(_core.float32)
double = _cast(_core.float64)
half = _cast(_core.float16)
bfloat16 = _cast(_core.bfloat16)
long = _cast(_core.int64)
int = _cast(_core.int32)
short = _cast(_core.int16)
char = _cast(_core.int8)
byte = _cast(_core.uint8)
bool_ = _cast(_core.bool_)


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """Another tensor of the same values: writes to one are not seen by the other. Gradients go through it.

    >>> x = gb.zeros(2)
    >>> y = gb.clone(x)
    >>> y[0] = 5
    >>> x
    tensor([0., 0.])
    """
    refuse("clone", memory_format=None if str(memory_format).endswith("preserve_format") else memory_format)
    return input * 1 if input.requires_grad else +input  # with a step in the history: a leaf cannot be written to


def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself: layouts are chosen by the planner."""
    refuse("contiguous", memory_format=None if str(memory_format).endswith("contiguous_format") else memory_format)
    return self


def is_contiguous(self: Tensor) -> bool:
    """True: layouts are not visible."""
    return True


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: copies to a GPU go through pinned memory of the device's pool."""
    return self


def is_pinned(self: Tensor) -> bool:
    """False: a tensor's memory is pageable."""
    return False


def detach_(self: Tensor) -> Tensor:
    """Forgets how it was computed."""
    if self.is_leaf:
        return self.requires_grad_(False)
    self._forget_history()
    return self


def get_device(self: Tensor) -> Any:
    """The number of the GPU; -1 on the CPU."""
    return -1 if not is_cuda(self) else self.device.index


def data_(self: Tensor) -> Tensor:
    """The values without their history: a view, whose writes change the tensor."""
    return self.detach()


def set_data(self: Tensor, value: Any) -> None:
    """Gives the tensor other values, of its shape and dtype; the history for gradients stays."""
    if not isinstance(value, Tensor):
        raise TypeError(f"[data] a tensor is assigned to data, not {value!r}")
    if value.shape != self.shape or value.dtype != self.dtype:
        raise ValueError(
            f"[data] {value.dtype} {value.shape} cannot be the data of a {self.dtype} tensor of shape {self.shape}"
        )
    self.detach()[...] = value.detach()
