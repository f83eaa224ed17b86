"""Tensors joined, repeated and taken apart, with PyTorch's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import Tensor
from ._arguments import ABSENT, into, only, positive, sizes

_MOST_PIECES = 1 << 20  # of a tensor that has fewer elements


def repeat(self: Tensor, *repeats: Any, axis: Any = ABSENT) -> Tensor:
    """The tensor itself so often along each axis, as PyTorch; with ``axis``, or ``repeats=``, each element so often."""
    if axis is not ABSENT:
        return _core.repeat(self, repeats[0] if len(repeats) == 1 else repeats, None if axis is ABSENT else axis)
    counts = sizes("repeat", repeats)
    if len(counts) < self.ndim:
        raise ValueError(f"[repeat] {len(counts)} numbers for shape {self.shape}: repeat has one for each axis")
    return _core.tile(self, counts)


def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each element so often, along an axis or of the flat tensor.

    >>> gb.repeat_interleave(gb.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    result = _core.repeat(input, repeats, dim)
    if output_size is not None and result.shape[0 if dim is None else dim] != output_size:
        raise ValueError(f"[repeat_interleave] output_size is {output_size}: the length is {result.shape[dim or 0]}")
    return result


def tile(input: Tensor, *dims: Any) -> Tensor:
    """The tensor itself so often along each axis; missing numbers are 1.

    >>> gb.tile(gb.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
    """
    return _core.tile(input, sizes("tile", dims))


def cat(tensors: Sequence[Tensor], dim: Any = ABSENT, *, axis: Any = ABSENT, out: Tensor | None = None) -> Tensor:
    """Tensors joined along an axis. Empty tensors of shape (0,) count for nothing, as in PyTorch.

    >>> gb.cat([gb.ones(1), gb.zeros(2)])
    tensor([1., 0., 0.])
    """
    parts = list(tensors)
    for part in parts:
        if not isinstance(part, Tensor):
            raise TypeError(f"[cat] a list of tensors is joined, not one with {type(part).__name__}")
    if len(parts) > 1:
        parts = [part for part in parts if part.shape != (0,)] or parts[:1]
    return into("cat", out, _core.concat(parts, only("cat", dim, axis, 0)))


def stack(tensors: Sequence[Tensor], dim: Any = ABSENT, *, axis: Any = ABSENT, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape joined along a new axis.

    >>> gb.stack([gb.ones(2), gb.zeros(2)], dim=1).shape
    (2, 2)
    """
    return into("stack", out, _core.stack(list(tensors), only("stack", dim, axis, 0)))


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined along the second axis; vectors along the first.

    >>> gb.hstack([gb.ones(2), gb.zeros(1)])
    tensor([1., 1., 0.])
    """
    parts = [x.reshape(1) if x.ndim == 0 else x for x in tensors]
    return _core.concat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined along the first axis; vectors are rows.

    >>> gb.vstack([gb.ones(2), gb.zeros(2)]).shape
    (2, 2)
    """
    return _core.concat([x.reshape(1, -1) if x.ndim < 2 else x for x in tensors], 0)


def split(
    input: Tensor,
    split_size: Any = ABSENT,
    dim: Any = ABSENT,
    *,
    split_size_or_sections: Any = ABSENT,
    indices_or_sections: Any = None,
    axis: Any = ABSENT,
) -> tuple[Tensor, ...]:
    """Pieces along an axis.

    Parameters
    ----------
    input : Tensor
    split_size : int or list of int
        The length of each piece (the last one may be smaller); or the lengths of all. PyTorch's method calls it so,
        its function `split_size_or_sections`.
    dim : int
    indices_or_sections : int or list of int
        As NumPy: how many pieces of one length, or where they begin.

    >>> gb.split(gb.tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    along = only("split", dim, axis, 0)
    if indices_or_sections is not None:
        if split_size is not ABSENT or split_size_or_sections is not ABSENT:
            raise TypeError("[split] split_size and indices_or_sections exclude each other")
        return _core.split(input, indices_or_sections=indices_or_sections, axis=along)
    if (split_size is ABSENT) == (split_size_or_sections is ABSENT):
        raise TypeError("[split] the argument split_size is missing, or there twice")
    chosen = split_size_or_sections if split_size is ABSENT else split_size
    return _core.split(input, split_size_or_sections=chosen, axis=along)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces of one length along an axis; the last may be smaller.

    >>> gb.chunk(gb.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if isinstance(chunks, bool) or not hasattr(chunks, "__index__") or chunks < 1:
        raise ValueError(f"[chunk] chunks is an integer from 1 on, not {chunks!r}")
    length = input.shape[positive("chunk", input, dim)]
    size = -(-length // chunks)
    if size == 0:  # PyTorch gives as many empty pieces
        if chunks > _MOST_PIECES:
            raise ValueError(f"[chunk] {chunks} pieces: at most {_MOST_PIECES}")
        return tuple(+input for _ in range(chunks))
    return _core.split(input, split_size_or_sections=size, axis=dim)


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of nearly one length along an axis, or pieces that begin at indices.

    >>> [len(part) for part in gb.tensor_split(gb.arange(5), 2)]
    [3, 2]
    """
    at = positive("tensor_split", input, dim)
    length = input.shape[at]
    if hasattr(indices_or_sections, "__index__"):
        count = int(indices_or_sections)
        if not 1 <= count <= _MOST_PIECES:
            raise ValueError(f"[tensor_split] {count} pieces: from 1 to {_MOST_PIECES}")
        small, more = divmod(length, count)
        ends = [small * (n + 1) + min(n + 1, more) for n in range(count - 1)]
    else:
        ends = [int(n) for n in indices_or_sections]
    front: tuple[Any, ...] = (slice(None),) * at
    places = [(*front, slice(a, b)) for a, b in zip([0, *ends], [*ends, None], strict=True)]
    return tuple(input[place] for place in places)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The tensors along an axis, without it.

    >>> gb.unbind(gb.tensor([1, 2]))
    (tensor(1), tensor(2))
    """
    return _core.unstack(input, dim)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Vectors as coordinates of a grid. The default of `indexing` is PyTorch's; the standard's is ``"xy"``.

    >>> gb.meshgrid(gb.arange(2), gb.arange(3))[0].shape
    (2, 3)
    """
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    return tuple(_core.meshgrid(*tensors, indexing=indexing))


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors repeated to their common shape.

    >>> [x.shape for x in gb.broadcast_tensors(gb.ones((2, 1)), gb.ones(3))]
    [(2, 3), (2, 3)]
    """
    return tuple(_core.broadcast_arrays(*tensors))
