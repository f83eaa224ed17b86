"""PyTorch's older constructors: classes of one dtype."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from .. import _core
from .._core import DType, Tensor
from ._arguments import sizes


def constructed(arguments: Any, dtype: DType = _core.float32) -> Tensor:
    """What ``gabbro.Tensor(...)`` gives: of lengths a tensor of unspecified elements, of numbers these as float32."""
    arguments = tuple(arguments)
    if not arguments:
        return _core.zeros(0, dtype=dtype)
    if len(arguments) == 1 and not hasattr(arguments[0], "__index__"):
        data = arguments[0]
        if isinstance(data, Tensor) and data.dtype != dtype:
            raise TypeError(f"[Tensor] a {dtype} tensor is wanted, not {data.dtype}: x.to({dtype!r})")
        return _core.asarray(data, dtype=dtype)
    if len(arguments) == 1 and isinstance(arguments[0], (Tensor, np.ndarray)):
        return _core.asarray(arguments[0], dtype=dtype)
    return _core.zeros(sizes("Tensor", arguments), dtype=dtype)


class _TypedTensor(type):
    """The class of `FloatTensor` and its like: tensors of one dtype are their instances."""

    dtype: DType

    def __call__(cls, *arguments: Any) -> Tensor:
        return constructed(arguments, cls.dtype)

    def __instancecheck__(cls, instance: Any) -> builtins.bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype


def _typed(name: str, dtype: DType) -> Any:
    text = f"``{name}([1, 2])`` and ``{name}(2, 3)``: a {dtype} tensor, as PyTorch's older constructors make it.\n\n"
    text += f"    >>> gb.{name}([1]).dtype\n    {dtype!r}\n    "
    return _TypedTensor(name, (), {"dtype": dtype, "__doc__": text, "__module__": "gabbro"})


FloatTensor = _typed("FloatTensor", _core.float32)


DoubleTensor = _typed("DoubleTensor", _core.float64)


HalfTensor = _typed("HalfTensor", _core.float16)


BFloat16Tensor = _typed("BFloat16Tensor", _core.bfloat16)


LongTensor = _typed("LongTensor", _core.int64)


IntTensor = _typed("IntTensor", _core.int32)


ShortTensor = _typed("ShortTensor", _core.int16)


CharTensor = _typed("CharTensor", _core.int8)


ByteTensor = _typed("ByteTensor", _core.uint8)


BoolTensor = _typed("BoolTensor", _core.bool_)
