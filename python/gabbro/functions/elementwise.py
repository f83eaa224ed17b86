"""Functions of each element that PyTorch has besides the array API standard's."""

from __future__ import annotations

import builtins
import math
from typing import Any

from .. import _core
from .._core import Tensor
from ._arguments import ABSENT, into


def _scaled(other: Any, alpha: Any) -> Any:
    if isinstance(alpha, (int, float)) and alpha == 1:
        return other
    return other * alpha


def add(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """input + alpha · other.

    >>> gb.add(gb.tensor([1.0]), gb.tensor([2.0]), alpha=10)
    tensor([21.])
    """
    return into("add", out, _core.add(input, _scaled(other, alpha)))


def sub(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """input - alpha · other.

    >>> gb.sub(gb.tensor([1.0]), gb.tensor([2.0]), alpha=10)
    tensor([-19.])
    """
    return into("sub", out, _core.subtract(input, _scaled(other, alpha)))


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha · input.

    >>> gb.rsub(gb.tensor([1.0]), 3.0)
    tensor([2.])
    """
    return _core.subtract(other, _scaled(input, alpha))


def mul(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """input · other.

    >>> gb.mul(gb.tensor([2.0]), 3.0)
    tensor([6.])
    """
    return into("mul", out, _core.multiply(input, other))


def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """input / other; with `rounding_mode` ``"floor"`` or ``"trunc"`` rounded to a whole number.

    >>> gb.div(gb.tensor([-7.0]), 2.0, rounding_mode="trunc")
    tensor([-3.])
    """
    if rounding_mode is None:
        return into("div", out, _core.divide(input, other))
    if rounding_mode == "floor":
        return into("div", out, _core.floor_divide(input, other))
    if rounding_mode == "trunc":
        return into("div", out, _core.trunc_divide(input, other))
    raise ValueError(f"[div] rounding_mode is None, 'floor' or 'trunc', not {rounding_mode!r}")


def fmod(input: Any, other: Any) -> Tensor:
    """The remainder with the sign of `input`.

    >>> gb.fmod(gb.tensor([-7.0]), 3.0)
    tensor([-1.])
    """
    a, b = _core._operands("fmod", input, other)
    if a.dtype.is_floating_point or b.dtype.is_floating_point:
        size = _core.remainder(_core.abs(a), _core.abs(b))
        # An infinite divisor leaves the dividend.
        size = _core.where(_core.isinf(b), _core.where(_core.isfinite(a), _core.abs(a), math.nan), size)
        sign = _core.where(a < 0, -1.0, 1.0)  # the gradient by b is that of -trunc(a / b)
        return size * sign.astype(size.dtype)
    return a - b * _core.trunc_divide(a, b)


def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The elements held within [min, max]; either may be missing, or a tensor.

    >>> gb.clamp(gb.tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0. , 0.5, 1. ])
    """
    if min is None and max is None:
        raise ValueError("[clamp] min, max or both are needed")
    if not input.dtype.is_floating_point and (isinstance(min, float) or isinstance(max, float)):
        input = input.astype(_core.float32)
    from ..data_types import result_type

    for bound in (min, max):
        if isinstance(bound, Tensor) and bound.dtype != input.dtype:
            input = input.astype(result_type(input.dtype, bound.dtype))
    return into("clamp", out, _core.clip(input, min, max))


def clamp_min(input: Tensor, min: Any) -> Tensor:
    """The elements, at least `min`.

    >>> gb.clamp_min(gb.tensor([-2.0, 3.0]), 0)
    tensor([0., 3.])
    """
    return clamp(input, min, None)


def clamp_max(input: Tensor, max: Any) -> Tensor:
    """The elements, at most `max`.

    >>> gb.clamp_max(gb.tensor([-2.0, 3.0]), 0)
    tensor([-2.,  0.])
    """
    return clamp(input, None, max)


def addcmul(input: Tensor, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
    """input + value · tensor1 · tensor2.

    >>> gb.addcmul(gb.tensor([1.0]), gb.tensor([2.0]), gb.tensor([3.0]), value=0.5)
    tensor([4.])
    """
    product: Tensor = _scaled(tensor1 * tensor2, value)
    return input + product


def addcdiv(input: Tensor, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
    """input + value · tensor1 / tensor2.

    >>> gb.addcdiv(gb.tensor([1.0]), gb.tensor([6.0]), gb.tensor([3.0]), value=0.5)
    tensor([2.])
    """
    quotient: Tensor = _scaled(tensor1 / tensor2, value)
    return input + quotient


def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight · (end - input), exact at both ends.

    >>> gb.lerp(gb.tensor([0.0]), gb.tensor([10.0]), 0.25)
    tensor([2.5])
    """
    difference = end - input
    if isinstance(weight, Tensor):
        return _core.where(_core.abs(weight) < 0.5, input + weight * difference, end - difference * (1 - weight))
    share = float(weight)
    return input + difference * share if builtins.abs(share) < 0.5 else end - difference * (1 - share)


def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """With numbers in place of NaN and of infinities; without numbers the largest and the smallest of the dtype.

    >>> gb.nan_to_num(gb.tensor([gb.nan, 1.0]))
    tensor([0., 1.])
    """
    if not input.dtype.is_floating_point:
        return +input
    from ..data_types import finfo

    facts = finfo(input.dtype)
    high = facts.max if posinf is None else posinf
    low = facts.min if neginf is None else neginf
    x = _core.where(_core.isnan(input), nan if nan is not None else 0.0, input)
    ends = [_core.full((), end, dtype=x.dtype, device=x.device) for end in (high, low)]
    return _core.where(_core.isinf(x), _core.where(x > 0, *ends), x)


def frac(input: Tensor) -> Tensor:
    """input - trunc(input).

    >>> gb.frac(gb.tensor([-1.5]))
    tensor([-0.5])
    """
    return input - _core.trunc(input)


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), of numbers held within [eps, 1 - eps].

    >>> gb.logit(gb.tensor([0.5]))
    tensor([0.])
    """
    x = input if eps is None else _core.clip(input, eps, 1 - eps)
    return _core.log(x / (1 - x))


def float_power(input: Any, exponent: Any) -> Tensor:
    """The power in float64, which CPUs alone compute.

    >>> gb.float_power(gb.tensor([2]), 3).dtype
    gabbro.float64
    """
    a = input.astype(_core.float64) if isinstance(input, Tensor) else input
    b = exponent.astype(_core.float64) if isinstance(exponent, Tensor) else exponent
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = _core.tensor(a, dtype=_core.float64)
    return _core.pow(a, b)


def erfc(input: Tensor) -> Tensor:
    """1 - erf(x).

    >>> gb.erfc(gb.tensor([0.0]))
    tensor([1.])
    """
    return 1 - _core.erf(input)


def erfinv(input: Tensor) -> Tensor:
    """The inverse of `erf` on [-1, 1]: NaN outside (Giles 2010, with a step of Newton's in the wider dtype).

    >>> gb.erfinv(gb.tensor([0.0, 1.0]))
    tensor([ 0., inf])
    """
    x = input if input.dtype.is_floating_point else input.astype(_core.float32)
    half = x.dtype in (_core.float16, _core.bfloat16)
    wide = x.astype(_core.float32) if half else x
    with_history = wide
    wide = wide.detach()
    inside = _core.where(_core.abs(wide) < 1, wide, 0.0)
    w = -_core.log((1 - inside) * (1 + inside))
    near, far = w - 2.5, _core.sqrt(w) - 3.0
    first = _polynomial(
        near,
        (
            2.81022636e-08,
            3.43273939e-07,
            -3.5233877e-06,
            -4.39150654e-06,
            0.00021858087,
            -0.00125372503,
            -0.00417768164,
            0.246640727,
            1.50140941,
        ),
    )
    second = _polynomial(
        far,
        (
            -0.000200214257,
            0.000100950558,
            0.00134934322,
            -0.00367342844,
            0.00573950773,
            -0.0076224613,
            0.00943887047,
            1.00167406,
            2.83297682,
        ),
    )
    y = _core.where(w < 5, first, second) * inside
    steps = 2 if wide.dtype == _core.float64 else 1
    for _ in range(steps):
        y = y - (_core.erf(y) - inside) * _core.exp(y * y) * (math.sqrt(math.pi) / 2)
    size = _core.abs(wide)
    edge = _core.where(size == 1, math.inf, math.nan) * _core.sign(wide)
    y = _core.where(size < 1, y, edge.astype(y.dtype))
    if with_history.requires_grad:
        slope = _core.exp(y * y) * (math.sqrt(math.pi) / 2)
        y = y + (with_history - wide) * slope.detach()
    return y.astype(x.dtype) if half else y


def _polynomial(x: Tensor, factors: tuple[float, ...]) -> Tensor:
    result = x * factors[0] + factors[1]
    for factor in factors[2:]:
        result = result * x + factor
    return result


def xlogy(input: Any, other: Any) -> Tensor:
    """input · log(other); 0 where input is 0 and other not NaN.

    >>> gb.xlogy(gb.tensor([0.0]), gb.tensor([0.0]))
    tensor([0.])
    """
    a, b = _core._operands("xlogy", input, other)
    zero = _core.logical_and(a == 0, _core.logical_not(_core.isnan(b)))
    return _core.where(zero, 0.0, a * _core.log(_core.where(zero, 1.0, b)))


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below 0, 1 above 0, and `values` at 0.

    >>> gb.heaviside(gb.tensor([-1.0, 0.0, 2.0]), gb.tensor(0.5))
    tensor([0. , 0.5, 1. ])
    """
    return _core.where(input == 0, values, (input > 0).astype(input.dtype))


def sgn(input: Tensor) -> Tensor:
    """The sign of each element.

    >>> gb.sgn(gb.tensor([-2.0]))
    tensor([-1.])
    """
    return _core.sign(input)


def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians.

    >>> gb.deg2rad(gb.tensor([180.0]))
    tensor([3.1415927])
    """
    return input * (math.pi / 180)


def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees.

    >>> gb.rad2deg(gb.tensor([0.0]))
    tensor([0.])
    """
    return input * (180 / math.pi)


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """To the nearest whole number, or with a number of decimals; ties go to the even one.

    >>> gb.round(gb.tensor([1.234]), decimals=1)
    tensor([1.2])
    """
    if decimals == 0:
        return _core.round(input)
    scale = 10.0 ** builtins.abs(decimals)
    return _core.round(input * scale) / scale if decimals > 0 else _core.round(input / scale) * scale


def sinc(input: Tensor) -> Tensor:
    """sin(πx) / (πx), and 1 at 0.

    >>> gb.sinc(gb.tensor([0.0]))
    tensor([1.])
    """
    x = input * math.pi
    zero = x == 0
    safe = _core.where(zero, 1.0, x)
    return _core.where(zero, 1.0, _core.sin(safe) / safe)


def pow(input: Any, exponent: Any = ABSENT, *, b: Any = ABSENT, out: Tensor | None = None) -> Tensor:
    """input to the power of exponent.

    >>> gb.pow(gb.tensor([2.0]), 3)
    tensor([8.])
    """
    return into("pow", out, _core.pow(input, exponent if b is ABSENT else b))
