"""In-place forms: ``x.add_(y)`` gives `x` the value of ``x.add(y)``, of its shape and dtype, and returns `x`."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Tensor
from . import conversions

# Methods with an in-place form, which changes nothing but the elements.
NAMES = [
    "abs",
    "acos",
    "acosh",
    "add",
    "addcdiv",
    "addcmul",
    "addmm",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "baddbmm",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "cumprod",
    "cumsum",
    "deg2rad",
    "div",
    "divide",
    "eq",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmod",
    "frac",
    "ge",
    "gt",
    "hypot",
    "index_add",
    "index_copy",
    "index_fill",
    "le",
    "lerp",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "lt",
    "masked_fill",
    "mul",
    "multiply",
    "nan_to_num",
    "ne",
    "neg",
    "negative",
    "nextafter",
    "pow",
    "rad2deg",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "rsqrt",
    "scatter",
    "scatter_add",
    "sgn",
    "sigmoid",
    "sign",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "subtract",
    "tan",
    "tanh",
    "tril",
    "triu",
    "trunc",
    "xlogy",
]

# Operators that write into the tensor's memory where that is possible.
_FAST = {"add": "__iadd__", "sub": "__isub__", "mul": "__imul__", "div": "__itruediv__"}


def _written(self: Tensor, name: str, value: Tensor) -> Tensor:
    if value.shape != self.shape:
        raise ValueError(f"[{name}_] the result has shape {value.shape}, and the tensor {self.shape}")
    if value.dtype != self.dtype:
        if value.dtype.is_floating_point and not self.dtype.is_floating_point:
            raise ValueError(f"[{name}_] the result is {value.dtype}, and the tensor {self.dtype}")
        value = value.astype(self.dtype)
    self[...] = value
    return self


def in_place(name: str) -> Callable[..., Tensor]:
    """The in-place form of a method."""
    method = getattr(Tensor, name)
    fast = getattr(Tensor, _FAST[name]) if name in _FAST else None

    @functools.wraps(method)
    def changed(self: Tensor, *args: Any, **options: Any) -> Tensor:
        if (
            fast is not None
            and len(args) == 1
            and not options
            and (not isinstance(args[0], Tensor) or args[0].dtype == self.dtype)
        ):
            result: Tensor = fast(self, args[0])
            return result
        return _written(self, name, method(self, *args, **options))

    changed.__name__ = changed.__qualname__ = f"{name}_"
    changed.__doc__ = f"`{name}` in place: the tensor itself with the result's elements."
    changed.__module__ = __name__
    changed.__annotations__ = {}
    del changed.__wrapped__
    with contextlib.suppress(ValueError):  # of a function of C++
        changed.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return changed


def fill_(self: Tensor, value: Any) -> Tensor:
    """Gets one number everywhere."""
    if isinstance(value, Tensor) and value.ndim:
        raise ValueError(f"[fill_] the value is a number or of shape (), not of shape {value.shape}")
    if isinstance(value, Tensor):
        value = value.astype(self.dtype)
    self[...] = value
    return self


def zero_(self: Tensor) -> Tensor:
    """Becomes 0 everywhere."""
    return fill_(self, 0)


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Gets the elements of another tensor, which broadcasts, of any dtype and device."""
    if isinstance(src, Tensor):
        src = conversions.to(src, dtype=self.dtype, device=self.device)
    self[...] = src
    return self


def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Gets a number on the main diagonal: of a matrix, or of more axes of one length."""
    if self.ndim < 2 or wrap or (self.ndim > 2 and len(set(self.shape)) > 1):
        raise ValueError(f"[fill_diagonal_] of a matrix or a cube, and without wrap, not of shape {self.shape}")
    inside: Any = None
    for axis in range(1, self.ndim):
        first = _core.arange(self.shape[0], dtype=_core.int32, device=self.device)
        other = _core.arange(self.shape[axis], dtype=_core.int32, device=self.device)
        same = first.reshape(-1, *(1,) * (self.ndim - 1)) == other.reshape(-1, *(1,) * (self.ndim - 1 - axis))
        inside = same if inside is None else _core.logical_and(inside, same)
    return _written(self, "fill_diagonal", _core.where(inside, fill_value, self))


def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Gets the first elements of `source` where the mask is True."""
    inside = _core.broadcast_to(mask, self.shape)
    count = int(_core.sum(inside.astype(_core.int32)))
    if count > source.reshape(-1).shape[0]:
        raise ValueError(f"[masked_scatter_] {source.reshape(-1).shape[0]} elements for {count} positions")
    self[inside] = source.reshape(-1)[:count]
    return self


def index_put_(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Gets values at index tensors: ``x[indices] = values``."""
    if accumulate:
        raise ValueError("[index_put_] accumulate=True is not supported: use index_add_ or scatter_add_")
    self[tuple(indices)] = values
    return self


def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """Not supported: a tensor keeps its shape."""
    raise ValueError("[unsqueeze_] a tensor keeps its shape: x = x.unsqueeze(dim)")


def squeeze_(self: Tensor, dim: Any = None) -> Tensor:
    """Not supported: a tensor keeps its shape."""
    raise ValueError("[squeeze_] a tensor keeps its shape: x = x.squeeze(dim)")


def t_(self: Tensor) -> Tensor:
    """Not supported: a tensor keeps its shape."""
    raise ValueError("[t_] a tensor keeps its shape: x = x.t()")


def resize_(self: Tensor, *sizes: Any) -> Tensor:
    """Not supported: a tensor keeps its shape."""
    raise ValueError("[resize_] a tensor keeps its shape: make another one, as x.new_zeros(...)")
