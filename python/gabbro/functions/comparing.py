"""Comparisons of tensors, and questions about one."""

from __future__ import annotations

import builtins
from typing import Any

from .. import _core
from .._core import Tensor


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether abs(input - other) <= atol + rtol · abs(other), for each element.

    >>> gb.isclose(gb.tensor([1.0, 2.0]), gb.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    if rtol < 0 or atol < 0:
        raise ValueError(f"[isclose] rtol and atol are not negative: {rtol}, {atol}")
    if input.dtype != other.dtype:
        raise ValueError(f"[isclose] of tensors of one dtype, not of {input.dtype} and {other.dtype}")
    same = input == other
    if equal_nan and input.dtype.is_floating_point:
        same = _core.logical_or(same, _core.logical_and(_core.isnan(input), _core.isnan(other)))
    if input.dtype == _core.bool_:
        return same
    a, b = (
        (input, other) if input.dtype == _core.float64 else (input.astype(_core.float32), other.astype(_core.float32))
    )
    if not input.dtype.is_floating_point and input.device == "cpu":
        a, b = input.astype(_core.float64), other.astype(_core.float64)
    near = _core.abs(a - b) <= atol + rtol * _core.abs(b)
    return _core.logical_or(same, _core.logical_and(near, _core.isfinite(b)))


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> builtins.bool:
    """Whether all elements are close: `isclose`. Evaluates both.

    >>> gb.allclose(gb.tensor([1.0]), gb.tensor([1.0 + 1e-9]))
    True
    """
    return builtins.bool(_core.all(isclose(input, other, rtol, atol, equal_nan)))


def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Whether two tensors have one shape and equal elements, as PyTorch; the standard's function is ``a == b``.

    >>> gb.equal(gb.tensor([1, 2]), gb.tensor([1, 2]))
    True
    """
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        raise TypeError("[equal] two tensors are compared; element by element: eq, or ==")
    return input.shape == other.shape and builtins.bool(_core.all(_core.equal(input, other)))


def is_tensor(obj: Any) -> builtins.bool:
    """Whether an object is a tensor.

    >>> gb.is_tensor(gb.ones(1)), gb.is_tensor(1)
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> builtins.bool:
    """Whether the elements are real numbers.

    >>> gb.is_floating_point(gb.ones(1))
    True
    """
    return input.dtype.is_floating_point


def is_nonzero(input: Tensor) -> builtins.bool:
    """Whether the only element is not 0.

    >>> gb.is_nonzero(gb.tensor([1]))
    True
    """
    return builtins.bool(input != 0)
