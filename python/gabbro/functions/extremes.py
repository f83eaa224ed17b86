"""Largest and smallest elements and their indices: PyTorch's arguments, and the standard's if `axis` is named."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import Tensor
from ._arguments import ABSENT, axes_of, is_standard
from .reductions import ValuesAndIndices, _as_indices


def _extreme(
    op: str,
    function: Any,
    place: Any,
    elementwise: Any,
    input: Tensor,
    dim: Any,
    keepdim: Any,
    axis: Any,
    keepdims: Any,
) -> Any:
    if is_standard(op, dim, keepdim, axis, keepdims):
        return function(input, None if axis is ABSENT else axis, False if keepdims is ABSENT else keepdims)
    if isinstance(dim, Tensor):
        if keepdim is not ABSENT:
            raise TypeError(f"[{op}] keepdim is for one tensor, not for two")
        return elementwise(input, dim)
    if dim is ABSENT or dim is None:
        if keepdim is not ABSENT:
            raise TypeError(f"[{op}] keepdim without dim")
        return function(input, None, False if keepdims is ABSENT else keepdims)
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"[{op}] dim is an integer, not {dim!r}; several axes: a{op}(x, dim)")
    kept = keepdims if keepdim is ABSENT else keepdim
    kept = False if kept is ABSENT else kept
    indices = place(input, dim, True) if input.ndim else _core.zeros((), dtype=_core.int32, device=input.device)
    if input.ndim == 0:
        return ValuesAndIndices(+input, _as_indices(indices))
    values = _core.take_along_axis(input, indices, dim)
    if not kept:
        values, indices = _core.squeeze(values, dim), _core.squeeze(indices, dim)
    return ValuesAndIndices(values, _as_indices(indices))


def max(input: Tensor, dim: Any = ABSENT, keepdim: Any = ABSENT, *, axis: Any = ABSENT, keepdims: Any = ABSENT) -> Any:
    """The largest element; along `dim` the largest elements and where they are; of two tensors the larger elements.

    Returns
    -------
    Tensor, or named tuple of Tensor
        With `dim` (also by place) `values` and `indices`, int64, as in PyTorch. With `axis`, which the array API
        standard has by keyword, only the values; NaN counts as the largest.

    >>> gb.max(gb.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1).indices
    tensor([1, 0])
    >>> gb.max(gb.tensor([[1.0, 5.0], [7.0, 2.0]]), axis=1)
    tensor([5., 7.])
    """
    return _extreme("max", _core.max, _core.argmax, _core.maximum, input, dim, keepdim, axis, keepdims)


def min(input: Tensor, dim: Any = ABSENT, keepdim: Any = ABSENT, *, axis: Any = ABSENT, keepdims: Any = ABSENT) -> Any:
    """The smallest element; along `dim` the smallest and where they are; of two tensors the smaller ones: see `max`.

    >>> gb.min(gb.tensor([[1.0, 5.0], [7.0, 2.0]]), 1).values
    tensor([1., 2.])
    """
    return _extreme("min", _core.min, _core.argmin, _core.minimum, input, dim, keepdim, axis, keepdims)


def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest elements along axes. Its gradient is spread evenly over equal ones.

    >>> gb.amax(gb.tensor([[1.0, 5.0], [7.0, 2.0]]), (0, 1))
    tensor(7.)
    """
    return _core.max(input, None if dim == () else dim, keepdim)


def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest elements along axes. Its gradient is spread evenly over equal ones.

    >>> gb.amin(gb.tensor([[1.0, 5.0], [7.0, 2.0]]), 0)
    tensor([1., 2.])
    """
    return _core.min(input, None if dim == () else dim, keepdim)


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the largest elements.

    >>> gb.aminmax(gb.tensor([1.0, 5.0]))
    (tensor(1.), tensor(5.))
    """
    return _core.min(input, dim, keepdim), _core.max(input, dim, keepdim)


def argmax(
    input: Tensor, dim: Any = ABSENT, keepdim: Any = ABSENT, *, axis: Any = ABSENT, keepdims: Any = ABSENT
) -> Tensor:
    """The index of the first largest element, int64: in the flat tensor, or along an axis.

    >>> gb.argmax(gb.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
    tensor([1, 0])
    """
    axes, kept = axes_of("argmax", dim, keepdim, axis, keepdims)
    return _as_indices(_core.argmax(input, axes, kept))


def argmin(
    input: Tensor, dim: Any = ABSENT, keepdim: Any = ABSENT, *, axis: Any = ABSENT, keepdims: Any = ABSENT
) -> Tensor:
    """The index of the first smallest element, int64: in the flat tensor, or along an axis.

    >>> gb.argmin(gb.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
    tensor([0, 1])
    """
    axes, kept = axes_of("argmin", dim, keepdim, axis, keepdims)
    return _as_indices(_core.argmin(input, axes, kept))


def median(input: Tensor, dim: Any = ABSENT, keepdim: bool = False) -> Any:
    """The median, of an even count the lower one; along `dim` the medians and where they are. NaN counts as largest.

    >>> gb.median(gb.tensor([3.0, 1.0, 2.0, 4.0]))
    tensor(2.)
    """
    from .sorting import kthvalue

    if dim is ABSENT:
        flat = _core.reshape(input, -1)
        if flat.shape[0] == 0:
            raise ValueError(f"[median] shape {input.shape} has no elements")
        middle = kthvalue(flat, (flat.shape[0] + 1) // 2).values
        if not input.dtype.is_floating_point:
            return middle
        return _core.where(_core.any(_core.isnan(flat)), _core.max(flat), middle)
    length = input.shape[dim] if input.ndim else 1
    result = kthvalue(input, (length + 1) // 2, dim, keepdim)
    if input.dtype.is_floating_point:
        bad = _core.isnan(input)
        first = _core.argmax(bad.astype(_core.int32), dim, True)
        value = _core.take_along_axis(input, first, dim) if input.ndim else input
        if not keepdim and input.ndim:
            first, value = _core.squeeze(first, dim), _core.squeeze(value, dim)
        some = _core.any(bad, dim, keepdim)
        return ValuesAndIndices(
            _core.where(some, value, result.values), _core.where(some, _as_indices(first), result.indices)
        )
    return result
