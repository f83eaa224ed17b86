"""Functions of the standard that look into floating-point numbers: signs, neighbors, and a sum of exponentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _core
from ._core import Tensor
from .data_types import finfo, isdtype, result_type

if TYPE_CHECKING:
    from ._core import Operand


def logaddexp(a: Operand, b: Operand) -> Tensor:
    """log(exp(a) + exp(b)), element by element, without overflow.

    Parameters
    ----------
    a, b : Tensor, array or number
        Of any dtype but block formats; one of the two a tensor or an array. Shapes are broadcast as NumPy does.

    Raises
    ------
    ValueError
        For block formats, and shapes that cannot be broadcast.

    >>> gb.logaddexp(gb.tensor([0.0]), gb.tensor([0.0]))
    tensor([0.6931472])
    """
    a, b = _core._operands("logaddexp", a, b)
    dtype = result_type(a, b)
    if dtype in (_core.float16, _core.bfloat16):  # computed in float32, and rounded once
        return logaddexp(a.astype(_core.float32), b.astype(_core.float32)).astype(dtype)
    first = _core.greater(a, b)  # and not maximum and abs, which have other derivatives where a and b are equal
    larger, smaller = _core.where(first, a, b), _core.where(first, b, a)
    # Equal infinities have no difference, and larger ones than any number are the result.
    rest = _core.log1p(_core.exp(_core.subtract(smaller, larger)))
    known = _core.logical_and(_core.isinf(larger), _core.equal(smaller, smaller))
    return _core.where(known, larger, larger + rest)


def signbit(x: Tensor) -> Tensor:
    """Whether each element is below 0, or -0; of a NaN, False.

    Raises
    ------
    ValueError
        For bool and block formats.

    >>> gb.signbit(gb.tensor([-1.0, -0.0, 0.0]))
    tensor([ True,  True, False])
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"[signbit] {type(x).__name__} is not a tensor")
    negative = _core.less(x, 0)
    if not isdtype(x.dtype, "real floating"):
        return negative
    return _core.logical_or(negative, _core.less(_core.reciprocal(x), 0))


def copysign(a: Operand, b: Operand) -> Tensor:
    """The magnitude of `a` with the sign of `b` (see `signbit`), element by element.

    Parameters
    ----------
    a, b : Tensor, array or number
        One of the two a tensor or an array. Shapes are broadcast as NumPy does.

    Raises
    ------
    ValueError
        For bool and block formats, and shapes that cannot be broadcast.

    >>> gb.copysign(gb.tensor([1.0, -2.0]), gb.tensor([-3.0, 0.0]))
    tensor([-1.,  2.])
    """
    a, b = _core._operands("copysign", a, b)
    magnitude = _core.abs(a).astype(result_type(a, b))
    return _core.where(signbit(b), -magnitude, magnitude)


def nextafter(a: Operand, b: Operand) -> Tensor:
    """The number after each element of `a` on the way to `b`; where they are equal, that of `b`.

    The steps follow Rump et al. (Computing predecessor and successor in rounding to nearest, 2009): u(1 + 2u)|a| is
    more than half of the distance to the next number and less than one and a half.

    Parameters
    ----------
    a, b : Tensor, array or number
        Of floats; one of the two a tensor or an array. Shapes are broadcast as NumPy does.

    Returns
    -------
    Tensor
        Of the dtype in which both meet (`result_type`).

    Raises
    ------
    ValueError
        For other dtypes, and shapes that cannot be broadcast.

    >>> gb.nextafter(gb.tensor([1.0, 0.0]), 2)
    tensor([1.0000001e+00, 1.4012985e-45])
    """
    a, b = _core._operands("nextafter", a, b)
    dtype = result_type(a, b)
    if not isdtype(dtype, "real floating"):
        raise ValueError(f"[nextafter] of floats, not of {dtype}")
    facts = finfo(dtype)
    share, least = facts.eps / 2 * (1 + facts.eps), facts.smallest_normal * facts.eps
    # f16 and bf16 take their step in float32, and the last cast rounds it.
    wide = _core.float64 if dtype == _core.float64 else _core.float32
    a, b = a.astype(wide), b.astype(wide)
    size = _core.abs(a)
    outwards = _core.equal(_core.greater(b, a), _core.greater(a, 0))
    small = _core.less(size, 1)  # made larger, so that the step is not a subnormal number
    scaled = _core.where(small, size * 2.0**64, size)
    moved = _core.where(outwards, scaled + scaled * share, scaled - scaled * share)
    moved = _core.where(small, moved * 2.0**-64, moved)
    nearest = _core.where(outwards, size + least, size - least)
    moved = _core.where(_core.less(size, 2 * facts.smallest_normal), nearest, moved)
    moved = _core.where(_core.isinf(size), facts.max, moved)
    moved = _core.where(_core.less(a, 0), -moved, moved)
    moved = _core.where(_core.equal(a, 0), _core.sign(b) * least, moved)
    moved = _core.where(_core.logical_or(_core.equal(a, b), _core.isnan(b)), b, moved)
    return moved.astype(dtype)
