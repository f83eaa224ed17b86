"""Statistics and scans: quantiles, running extremes, sums without NaN, covariances."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Tensor
from ._arguments import ABSENT, positive
from .reductions import ValuesAndIndices, mean, sum


def _scan(op: str, input: Tensor, dim: int, is_largest: bool) -> ValuesAndIndices:
    """Running extremes in log2(N) steps (Hillis and Steele 1986); of equal elements the last one counts."""
    if input.ndim == 0:
        positive(op, input, dim)
        return ValuesAndIndices(+input, _core.zeros((), dtype=_core.int64, device=input.device))
    axis, x = positive(op, input, dim), input.detach()
    length = x.shape[axis]
    shape = [1] * x.ndim
    shape[axis] = length
    steps = _core.reshape(_core.arange(length, dtype=_core.int32, device=x.device), shape)
    indices = _core.broadcast_to(steps, x.shape)
    front: tuple[Any, ...] = (slice(None),) * axis
    reach = 1
    while reach < length:
        head, tail = (*front, slice(0, reach)), (*front, slice(reach, None))
        before = (*front, slice(0, length - reach))
        now, other = x[tail], x[before]
        is_better = other > now if is_largest else other < now
        if x.dtype.is_floating_point:  # NaN is the extreme
            is_better = _core.logical_and(
                _core.logical_or(is_better, _core.isnan(other)), _core.logical_not(_core.isnan(now))
            )
        x = _core.concat([x[head], _core.where(is_better, other, now)], axis)
        indices = _core.concat([indices[head], _core.where(is_better, indices[before], indices[tail])], axis)
        reach *= 2
    return ValuesAndIndices(_core.take_along_axis(input, indices, axis), indices.astype(_core.int64))


def cummax(input: Tensor, dim: int) -> ValuesAndIndices:
    """The largest element up to each one along an axis, and where it is, int64.

    >>> gb.cummax(gb.tensor([1.0, 3.0, 2.0]), 0).values
    tensor([1., 3., 3.])
    """
    return _scan("cummax", input, dim, True)


def cummin(input: Tensor, dim: int) -> ValuesAndIndices:
    """The smallest element up to each one along an axis, and where it is, int64.

    >>> gb.cummin(gb.tensor([3.0, 1.0, 2.0]), 0).indices
    tensor([0, 1, 1])
    """
    return _scan("cummin", input, dim, False)


def nansum(input: Tensor, dim: Any = ABSENT, keepdim: Any = ABSENT, *, dtype: Any = None) -> Tensor:
    """The sum of the elements that are not NaN: arguments as `sum`.

    >>> gb.nansum(gb.tensor([1.0, gb.nan]))
    tensor(1.)
    """
    x = _core.where(_core.isnan(input), 0.0, input) if input.dtype.is_floating_point else input
    return sum(x, dim, keepdim, dtype=dtype)


def nanmean(input: Tensor, dim: Any = ABSENT, keepdim: Any = ABSENT, *, dtype: Any = None) -> Tensor:
    """The mean of the elements that are not NaN: arguments as `mean`.

    >>> gb.nanmean(gb.tensor([1.0, gb.nan, 3.0]))
    tensor(2.)
    """
    x = input if dtype is None else input.astype(dtype)
    if not x.dtype.is_floating_point:
        raise ValueError(f"[nanmean] of floats, not of {x.dtype}")
    counts = sum(_core.logical_not(_core.isnan(x)).astype(x.dtype), dim, keepdim)
    return nansum(x, dim, keepdim) / counts


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(op: str, x: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str, counts: Any) -> Tensor:
    """Of x [..., N] in ascending order, with `counts` valid elements [..., 1]."""
    if interpolation not in _INTERPOLATIONS:
        raise ValueError(f"[{op}] interpolation is one of {', '.join(_INTERPOLATIONS)}, not {interpolation!r}")
    if not x.dtype.is_floating_point or x.dtype in (_core.float16, _core.bfloat16):
        raise ValueError(f"[{op}] of float32 or float64, not of {x.dtype}")
    levels = q if isinstance(q, Tensor) else _core.tensor(float(q), dtype=x.dtype, device=x.device)
    if levels.dtype != x.dtype or levels.ndim > 1:
        raise ValueError(f"[{op}] q is a number or of {x.dtype} [Q], not of {levels.dtype} {levels.shape}")
    if not isinstance(q, Tensor) and not 0 <= q <= 1:
        raise ValueError(f"[{op}] q is within [0, 1], not {q}")
    axes = x.ndim
    last = x.reshape(-1) if dim is None else _core.moveaxis(x, positive(op, x, dim), -1) if axes else x.reshape(1)
    if last.shape[-1] == 0:
        raise ValueError(f"[{op}] shape {x.shape} has no elements")
    ordered = _core.take_along_axis(last, _core.argsort(last.detach(), -1), -1)
    rank = levels.reshape(-1) * (counts(last) - 1)  # [..., Q]
    low, high = _core.floor(rank), _core.ceil(rank)
    if interpolation == "nearest":
        low = high = _core.round(rank)
    elif interpolation in ("lower", "higher"):
        low = high = low if interpolation == "lower" else high
    places = [_core.broadcast_to(at.astype(_core.int32), (*last.shape[:-1], at.shape[-1])) for at in (low, high)]
    below, above = (_core.take_along_axis(ordered, at, -1) for at in places)
    weight = 0.5 if interpolation == "midpoint" else rank - low
    result = below + (above - below) * weight if low is not high else below
    result = _core.moveaxis(result, -1, 0)  # [Q, ...]
    if keepdim:
        shape = [1] * axes if dim is None else list(last.shape[:-1])
        if dim is not None and axes:
            shape.insert(positive(op, x, dim), 1)
        result = result.reshape(result.shape[0], *shape)
    return result if levels.ndim else result[0]


def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Quantiles of all elements or along an axis; NaN if one of them is NaN.

    Parameters
    ----------
    input : Tensor
        Of float32 or float64.
    q : float or Tensor
        Within [0, 1]; of several, [Q], the result has a first axis of their number.
    dim : int, optional
    keepdim : bool
    interpolation : str
        Between two elements: ``"linear"``, ``"lower"``, ``"higher"``, ``"midpoint"`` or ``"nearest"``.

    >>> gb.quantile(gb.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
    tensor(1.5)
    """
    result = _quantile("quantile", input, q, dim, keepdim, interpolation, lambda x: x.shape[-1])
    bad = _core.any(_core.isnan(input), dim, keepdim)
    return _core.where(bad, math.nan, result)


def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """As `quantile`, of the elements that are not NaN.

    >>> gb.nanquantile(gb.tensor([0.0, gb.nan, 2.0]), 0.5)
    tensor(1.)
    """

    def counts(x: Tensor) -> Tensor:
        valid = _core.sum(_core.logical_not(_core.isnan(x)).astype(x.dtype), -1, True)
        return _core.maximum(valid, 1.0)

    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, counts)


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of variables [V, N], with N observations of each: [V, V].

    >>> gb.cov(gb.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise ValueError(f"[cov] of variables [V, N], not of shape {input.shape}")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    weights = None if fweights is None else fweights.astype(x.dtype)
    if aweights is not None:
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        total: Any = x.shape[1]
        centered = x - mean(x, 1, True)
        scaled, by = centered, total - correction
    else:
        total = _core.sum(weights)
        centered = x - _core.sum(x * weights, 1, True) / total
        scaled = centered * weights
        by = total - (correction if aweights is None else correction * _core.sum(weights * aweights) / total)
    result: Tensor = _core.matmul(scaled, _core.matrix_transpose(centered)) / by
    return result.reshape(()) if result.shape == (1, 1) else result


def corrcoef(input: Tensor) -> Tensor:
    """The correlations of variables [V, N]: [V, V], within [-1, 1].

    >>> gb.corrcoef(gb.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    c = cov(input)
    if c.ndim == 0:  # of one variable
        return c / c
    deviations = _core.sqrt(c.diagonal())
    return _core.clip(c / deviations.reshape(-1, 1) / deviations, -1, 1)
