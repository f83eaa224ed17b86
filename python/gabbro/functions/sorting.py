"""Sorting and choosing of the largest, with PyTorch's arguments and int64 indices."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import Tensor
from ._arguments import ABSENT, only
from .reductions import ValuesAndIndices


def sort(input: Tensor, dim: Any = ABSENT, descending: bool = False, stable: bool = True, *, axis: Any = ABSENT) -> Any:
    """The elements in order along an axis, and where they were. Always stable; NaN comes last.

    Returns
    -------
    named tuple of Tensor
        `values` and `indices`, int64, as in PyTorch. With `axis`, which the array API standard has by keyword, only the
        values.

    >>> gb.sort(gb.tensor([3.0, 1.0, 2.0])).indices
    tensor([1, 2, 0])
    >>> gb.sort(gb.tensor([3.0, 1.0, 2.0]), axis=0)
    tensor([1., 2., 3.])
    """
    along = only("sort", dim, axis, -1)
    if axis is not ABSENT:
        return _core.sort(input, along, descending, stable)
    if input.ndim == 0:
        return ValuesAndIndices(+input, _core.zeros((), dtype=_core.int64, device=input.device))
    indices = _core.argsort(input, along, descending, stable)
    return ValuesAndIndices(_core.take_along_axis(input, indices, along), indices.astype(_core.int64))


def argsort(
    input: Tensor, dim: Any = ABSENT, descending: bool = False, stable: bool = True, *, axis: Any = ABSENT
) -> Tensor:
    """The indices that put the elements in order along an axis, int64. Always stable.

    >>> gb.argsort(gb.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """
    return _core.argsort(input, only("argsort", dim, axis, -1), descending, stable).astype(_core.int64)


def topk(
    input: Tensor, k: int, dim: Any = ABSENT, largest: bool = True, sorted: bool = True, *, axis: Any = ABSENT
) -> ValuesAndIndices:
    """The `k` largest or smallest elements along an axis, in order, and where they are, int64.

    `sorted` says whether the order matters; the result is in order in either case.

    >>> gb.topk(gb.tensor([3.0, 1.0, 2.0]), 2).values
    tensor([3., 2.])
    """
    along = only("topk", dim, axis, -1)
    if input.ndim == 0 and k in (0, 1):
        return ValuesAndIndices(+input, _core.zeros((), dtype=_core.int64, device=input.device))
    _, indices = _core.topk(input.detach(), k, along, largest)
    return ValuesAndIndices(_core.take_along_axis(input, indices, along), indices.astype(_core.int64))


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The `k`-th smallest element along an axis, from 1 on, and where it is, int64.

    >>> gb.kthvalue(gb.tensor([3.0, 1.0, 2.0]), 2)
    ValuesAndIndices(values=tensor(2.), indices=tensor(2))
    """
    if input.ndim == 0:
        return ValuesAndIndices(+input, _core.zeros((), dtype=_core.int64, device=input.device))
    if not 1 <= k <= input.shape[dim]:
        raise ValueError(f"[kthvalue] k is {k}: from 1 to {input.shape[dim]}")
    values, indices = sort(input, dim)
    at = tuple([slice(None)] * (dim % input.ndim) + [slice(k - 1, k)])
    values, indices = values[at], indices[at]
    if keepdim:
        return ValuesAndIndices(values, indices)
    return ValuesAndIndices(_core.squeeze(values, dim), _core.squeeze(indices, dim))


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements in order. Evaluates `input`.

    Parameters
    ----------
    input : Tensor
    sorted : bool
        The result is in order in either case.
    return_inverse, return_counts : bool
        Whether the result is a tuple, with the number of each element's value, and with how often each is there, int64.
    dim : int, optional
        Not supported: raises ValueError.

    >>> gb.unique(gb.tensor([3, 1, 3]), return_counts=True)[1]
    tensor([1, 2])
    """
    if dim is not None:
        raise ValueError(f"[unique] dim={dim} is not supported: elements alone are compared")
    values, _, inverse, counts = _core._unique(input)
    result = [values]
    if return_inverse:
        result.append(inverse.astype(_core.int64))
    if return_counts:
        result.append(counts.astype(_core.int64))
    return result[0] if len(result) == 1 else tuple(result)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each integer from 0 on is there, int64; with weights, the sums of their weights. Evaluates `input`.

    >>> gb.bincount(gb.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    if input.ndim != 1 or input.dtype.is_floating_point:
        raise ValueError(f"[bincount] of integers [N], not of {input.dtype} {input.shape}")
    if input.shape[0] and int(_core.min(input)) < 0:
        raise ValueError("[bincount] the integers may not be negative")
    length = max(minlength, int(_core.max(input)) + 1 if input.shape[0] else 0)
    if weights is None:
        weights = _core.ones(input.shape, dtype=_core.float32, device=input.device)
        zeros = _core.zeros(length, dtype=_core.float32, device=input.device)
        # float32 counts exactly up to 2 ** 24.
        if input.shape[0] < 2**24:
            return _core.scatter_add(zeros, input, weights, 0).astype(_core.int64)
        raise ValueError("[bincount] at most 2 ** 24 integers")
    zeros = _core.zeros(length, dtype=weights.dtype, device=input.device)
    return _core.scatter_add(zeros, input, weights, 0)


def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where elements would have to be put in, to keep a vector in order: int64, or int32 with `out_int32`.

    Parameters
    ----------
    sorted_sequence : Tensor
        [N], in ascending order, or with `sorter` in any order; or rows [..., N].
    input : Tensor or number
        Of any shape; for rows [..., M], with as many of them.
    right : bool
        After equal ones; also ``side="right"``.

    >>> gb.searchsorted(gb.tensor([1, 3, 5]), gb.tensor([3, 4]))
    tensor([1, 2])
    """
    from ..standard_functions import searchsorted as standard

    if right and side == "left":
        raise ValueError("[searchsorted] right=True and side='left' exclude each other")
    values = input if isinstance(input, Tensor) else _core.tensor(input, device=sorted_sequence.device)
    if sorted_sequence.ndim > 1:
        places = _in_rows(sorted_sequence, values, right or side == "right", sorter)
        return places.astype(_core.int32) if out_int32 else places
    places = standard(sorted_sequence, values, side="right" if right else side or "left", sorter=sorter)
    return places if out_int32 else places.astype(_core.int64)


def _in_rows(sequences: Tensor, values: Tensor, right: bool, sorter: Tensor | None) -> Tensor:
    if values.ndim != sequences.ndim or values.shape[:-1] != sequences.shape[:-1]:
        raise ValueError(f"[searchsorted] rows {sequences.shape} for values {values.shape}: the first axes differ")
    if sorter is not None:
        sequences = _core.take_along_axis(sequences, sorter, -1)
    rows, wanted = _core.expand_dims(sequences, -2), _core.expand_dims(values, -1)
    before = rows <= wanted if right else rows < wanted
    return _core.sum(before.astype(_core.int64), -1)


def diff(
    input: Tensor,
    n: int = 1,
    dim: Any = ABSENT,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    axis: Any = ABSENT,
) -> Tensor:
    """Differences of neighbors along an axis, `n` times.

    >>> gb.diff(gb.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    from ..standard_functions import diff as standard

    return standard(input, axis=only("diff", dim, axis, -1), n=n, prepend=prepend, append=append)
