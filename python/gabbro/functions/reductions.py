"""Reductions with PyTorch's arguments, and with the array API standard's if `axis` is named."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import _core
from .._core import Tensor
from ._arguments import ABSENT, axes_of, is_standard, only

_HALF = (_core.float16, _core.bfloat16)


class ValuesAndIndices(NamedTuple):
    """A result of `max`, `min`, `sort`, `topk` and the like along an axis: the values, and where they were, int64."""

    values: Tensor
    indices: Tensor


def _as_indices(x: Tensor) -> Tensor:
    return x.astype(_core.int64)


def sum(
    input: Tensor,
    dim: Any = ABSENT,
    keepdim: Any = ABSENT,
    *,
    dtype: Any = None,
    axis: Any = ABSENT,
    keepdims: Any = ABSENT,
) -> Tensor:
    """The sum of all elements, or along axes. Integers and bool give int64.

    Parameters
    ----------
    input : Tensor
    dim : int or tuple of int, optional
        The axes; without it all. The array API standard's name for it is `axis`.
    keepdim : bool
        Whether these axes stay, with length 1; the standard's name is `keepdims`.
    dtype : DType, optional
        Of the elements that are added, and of the result.

    >>> gb.sum(gb.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([3., 7.])
    """
    axes, kept = axes_of("sum", dim, keepdim, axis, keepdims)
    return _core.sum(input, axes, kept, dtype=dtype)


def mean(
    input: Tensor,
    dim: Any = ABSENT,
    keepdim: Any = ABSENT,
    *,
    dtype: Any = None,
    axis: Any = ABSENT,
    keepdims: Any = ABSENT,
) -> Tensor:
    """The arithmetic mean of all elements, or along axes: arguments as `sum`.

    >>> gb.mean(gb.tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
    tensor([2., 3.])
    """
    axes, kept = axes_of("mean", dim, keepdim, axis, keepdims)
    return _core.mean(input if dtype is None else input.astype(dtype), axes, kept)


def prod(
    input: Tensor,
    dim: Any = ABSENT,
    keepdim: Any = ABSENT,
    *,
    dtype: Any = None,
    axis: Any = ABSENT,
    keepdims: Any = ABSENT,
) -> Tensor:
    """The product of all elements, or along axes: arguments as `sum`.

    >>> gb.prod(gb.tensor([1.0, 2.0, 3.0]))
    tensor(6.)
    """
    axes, kept = axes_of("prod", dim, keepdim, axis, keepdims)
    return _core.prod(input, axes, kept, dtype=dtype)


def logsumexp(
    input: Tensor, dim: Any = ABSENT, keepdim: Any = ABSENT, *, axis: Any = ABSENT, keepdims: Any = ABSENT
) -> Tensor:
    """log(sum(exp(x))) along axes, without overflow.

    >>> gb.logsumexp(gb.tensor([[0.0, 0.0]]), 1)
    tensor([0.6931472])
    """
    axes, kept = axes_of("logsumexp", dim, keepdim, axis, keepdims)
    return _core.logsumexp(input, axes, kept)


def _as_flag(result: Tensor, x: Tensor, axis: Any) -> Tensor:
    """A bool; of uint8, which PyTorch had for bool, uint8."""
    return result.astype(_core.uint8) if x.dtype == _core.uint8 and axis is ABSENT else result


def any(
    input: Tensor, dim: Any = ABSENT, keepdim: Any = ABSENT, *, axis: Any = ABSENT, keepdims: Any = ABSENT
) -> Tensor:
    """Whether an element is not 0: of all, or along axes.

    >>> gb.any(gb.tensor([[0, 1], [0, 0]]), dim=1)
    tensor([ True, False])
    """
    axes, kept = axes_of("any", dim, keepdim, axis, keepdims)
    return _as_flag(_core.any(input, axes, kept), input, axis)


def all(
    input: Tensor, dim: Any = ABSENT, keepdim: Any = ABSENT, *, axis: Any = ABSENT, keepdims: Any = ABSENT
) -> Tensor:
    """Whether no element is 0: of all, or along axes.

    >>> gb.all(gb.tensor([[0, 1], [1, 1]]), dim=1)
    tensor([False,  True])
    """
    axes, kept = axes_of("all", dim, keepdim, axis, keepdims)
    return _as_flag(_core.all(input, axes, kept), input, axis)


def count_nonzero(input: Tensor, dim: Any = ABSENT, *, axis: Any = ABSENT, keepdims: Any = ABSENT) -> Tensor:
    """How many elements are not 0: of all, or along axes; int64.

    >>> gb.count_nonzero(gb.tensor([[0, 1], [1, 1]]), 1)
    tensor([1, 2])
    """
    axes, kept = axes_of("count_nonzero", dim, ABSENT, axis, keepdims)
    return _as_indices(_core.count_nonzero(input, axes, keepdims=kept))


def _spread(
    op: str,
    function: Any,
    input: Tensor,
    dim: Any,
    unbiased: Any,
    keepdim: Any,
    correction: Any,
    axis: Any,
    keepdims: Any,
) -> Tensor:
    if is_standard(op, dim, keepdim, axis, keepdims):
        if unbiased is not ABSENT:
            raise TypeError(f"[{op}] unbiased and axis exclude each other: correction=1")
        axes = None if axis is ABSENT else axis
        by = 0.0 if correction is ABSENT else correction
        standard: Tensor = function(input, axes, correction=by, keepdims=False if keepdims is ABSENT else keepdims)
        return standard
    if isinstance(dim, bool):  # std(x, False)
        if unbiased is not ABSENT:
            raise TypeError(f"[{op}] dim is an integer or a tuple of integers, not {dim!r}")
        dim, unbiased = ABSENT, dim
    if unbiased is not ABSENT:
        if correction is not ABSENT:
            raise TypeError(f"[{op}] unbiased and correction are two names of one argument")
        if not isinstance(unbiased, bool):
            raise TypeError(f"[{op}] unbiased is a bool, not {unbiased!r}")
        correction = int(unbiased)
    axes, kept = axes_of(op, dim, keepdim, ABSENT, keepdims)
    by = 1.0 if correction is ABSENT or correction is None else float(correction)
    result: Tensor = function(input, axes, correction=by, keepdims=kept)
    return result


def var(
    input: Tensor,
    dim: Any = ABSENT,
    unbiased: Any = ABSENT,
    keepdim: Any = ABSENT,
    *,
    correction: Any = ABSENT,
    axis: Any = ABSENT,
    keepdims: Any = ABSENT,
) -> Tensor:
    """The variance: the sum of squared differences from the mean, divided by N - correction.

    Parameters
    ----------
    input : Tensor
    dim : int or tuple of int, optional
        The axes; without it all. The standard's name is `axis`.
    unbiased : bool
        True is correction 1, False correction 0.
    keepdim : bool
    correction : float
        1 as in PyTorch; where `axis` or `keepdims` is named 0, as in the array API standard.

    >>> gb.var(gb.tensor([1.0, 3.0])), gb.var(gb.tensor([1.0, 3.0]), axis=0)
    (tensor(2.), tensor(1.))
    """
    return _spread("var", _core.var, input, dim, unbiased, keepdim, correction, axis, keepdims)


def std(
    input: Tensor,
    dim: Any = ABSENT,
    unbiased: Any = ABSENT,
    keepdim: Any = ABSENT,
    *,
    correction: Any = ABSENT,
    axis: Any = ABSENT,
    keepdims: Any = ABSENT,
) -> Tensor:
    """The standard deviation: the root of `var`, with its arguments.

    >>> gb.std(gb.tensor([1.0, 3.0]), correction=0)
    tensor(1.)
    """
    return _spread("std", _core.std, input, dim, unbiased, keepdim, correction, axis, keepdims)


def var_mean(
    input: Tensor, dim: Any = ABSENT, unbiased: Any = ABSENT, keepdim: Any = ABSENT, *, correction: Any = ABSENT
) -> tuple[Tensor, Tensor]:
    """`var` and `mean`.

    >>> gb.var_mean(gb.tensor([1.0, 3.0]))
    (tensor(2.), tensor(2.))
    """
    first = var(input, dim, unbiased, keepdim, correction=correction)
    return first, mean(input, ABSENT if isinstance(dim, bool) else dim, keepdim)


def std_mean(
    input: Tensor, dim: Any = ABSENT, unbiased: Any = ABSENT, keepdim: Any = ABSENT, *, correction: Any = ABSENT
) -> tuple[Tensor, Tensor]:
    """`std` and `mean`.

    >>> gb.std_mean(gb.tensor([1.0, 3.0]), correction=0)
    (tensor(1.), tensor(2.))
    """
    first = std(input, dim, unbiased, keepdim, correction=correction)
    return first, mean(input, ABSENT if isinstance(dim, bool) else dim, keepdim)


def cumsum(input: Tensor, dim: Any = ABSENT, *, dtype: Any = None, axis: Any = ABSENT) -> Tensor:
    """Sums up to each element along an axis, which a vector need not name. Integers and bool give int64.

    >>> gb.cumsum(gb.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([1., 3., 6.])
    """
    along = only("cumsum", dim, axis, 0 if input.ndim == 1 else ABSENT)
    return _core.cumsum(input if dtype is None else input.astype(dtype), along)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Products up to each element along an axis. Integers and bool give int64.

    >>> gb.cumprod(gb.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([1., 2., 6.])
    """
    from ..standard_functions import cumulative_prod

    return cumulative_prod(input, axis=dim, dtype=dtype)


def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The vector norm of order `p` of all elements, or along axes; halves are computed in float32.

    Parameters
    ----------
    input : Tensor
        Of floats.
    p : float or str
        The order; ``"fro"`` is 2. ``"nuc"`` is not supported.
    dim : int or tuple of int, optional
    keepdim : bool

    Raises
    ------
    ValueError
        For another word, and for integers.

    >>> gb.norm(gb.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if isinstance(p, str):
        if p != "fro":
            raise ValueError(f"[norm] p is a number or 'fro', not {p!r}")
        p = 2
    x = input if dtype is None else input.astype(dtype)
    if not x.dtype.is_floating_point:
        raise ValueError(f"[norm] of floats, not of {x.dtype}: x.float()")
    half = x.dtype in _HALF
    result = vector_norm(x.astype(_core.float32) if half else x, p, dim, keepdim)
    return result.astype(x.dtype) if half else result


def vector_norm(x: Tensor, p: float, dim: Any, keepdim: bool) -> Tensor:
    """The norm of order `p`, without a conversion. Its gradient is 0 where the norm is 0, as PyTorch's."""
    axes = None if dim is None or dim == () else dim
    if p == 0:
        return _core.sum((x != 0).astype(x.dtype), axes, keepdim)
    size = _core.abs(x)
    if math.isinf(p):
        return (_core.max if p > 0 else _core.min)(size, axes, keepdim)
    if p == 1:
        return _core.sum(size, axes, keepdim)
    total = _core.sum(_core.square(x) if p == 2 else size**p, axes, keepdim)
    zero = total == 0  # the root has no derivative at 0
    safe = _core.where(zero, 1.0, total)
    root = _core.sqrt(safe) if p == 2 else safe ** (1 / p)
    return _core.where(zero, total if p > 0 else math.inf, root)
