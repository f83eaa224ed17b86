"""Shapes: views, joining and splitting with PyTorch's arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import DType, Tensor
from ._arguments import ABSENT, into, only, positive, sizes

_MOST_PIECES = 1 << 20  # of a tensor that has fewer elements


class Size(int):
    """The number of elements, which is also PyTorch's method: ``x.size()`` is the shape, ``x.size(0)`` a length."""

    _shape: tuple[int, ...]

    def __new__(cls, shape: tuple[int, ...]) -> Size:
        made = super().__new__(cls, math.prod(shape))
        made._shape = shape
        return made

    def __call__(self, dim: int | None = None) -> Any:
        if dim is None:
            return self._shape
        if isinstance(dim, bool) or not hasattr(dim, "__index__"):
            raise TypeError(f"[size] dim is an integer, not {dim!r}")
        if not -len(self._shape) <= dim < len(self._shape):
            raise IndexError(f"[size] dim {dim} is out of range for shape {self._shape}")
        return self._shape[dim]

    def __reduce__(self) -> Any:
        return int, (int(self),)


def numel(input: Tensor) -> int:
    """The number of elements.

    >>> gb.numel(gb.ones((2, 3)))
    6
    """
    return math.prod(input.shape)


def dim(self: Tensor) -> int:
    """The number of axes."""
    return self.ndim


def element_size(self: Tensor) -> int:
    """The bytes of an element."""
    return self.dtype.itemsize


def reshape(input: Tensor, *shape: Any, copy: bool | None = None) -> Tensor:
    """The elements in another shape, in row-major order; one length may be -1.

    >>> gb.reshape(gb.arange(6), (2, 3)).shape
    (2, 3)
    """
    return _core.reshape(input, sizes("reshape", shape), copy=copy)


def view(self: Tensor, *shape: Any) -> Tensor:
    """As `reshape`: a view that shares its elements. Other than in PyTorch, of any layout. A dtype is not supported."""
    if len(shape) == 1 and isinstance(shape[0], DType):
        raise ValueError(
            "[view] the bits of a tensor as another dtype are not supported: x.to(dtype) converts the values"
        )
    return self.reshape(*shape)


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """In the shape of another tensor."""
    return self.reshape(other.shape)


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """In the shape of another tensor."""
    return self.reshape(other.shape)


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With an axis of length 1 at a position.

    >>> gb.unsqueeze(gb.ones(3), 0).shape
    (1, 3)
    """
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"[unsqueeze] dim is an integer, not {dim!r}")
    return _core.expand_dims(input, dim)


def squeeze(input: Tensor, dim: Any = ABSENT, *, axis: Any = ABSENT) -> Tensor:
    """Without axes of length 1: all of them, or some. Of `dim`, axes of another length stay, as in PyTorch.

    >>> gb.squeeze(gb.ones((1, 3, 1))).shape
    (3,)
    """
    if axis is not ABSENT:
        if dim is not ABSENT:
            raise TypeError("[squeeze] dim and axis are two names of one argument")
        return _core.squeeze(input, axis)
    if dim is ABSENT:
        return _core.squeeze(input)
    if input.ndim == 0:
        for one in dim if isinstance(dim, (tuple, list)) else [dim]:
            positive("squeeze", input, one)
        return _core.reshape(input, ())
    chosen = [positive("squeeze", input, one) for one in (dim if isinstance(dim, (tuple, list)) else [dim])]
    return _core.squeeze(input, tuple(one for one in chosen if input.shape[one] == 1))


def flatten(
    input: Tensor, start_dim: Any = ABSENT, end_dim: int = -1, *, start_axis: Any = ABSENT, end_axis: Any = ABSENT
) -> Tensor:
    """Axes from one to another as one axis.

    >>> gb.flatten(gb.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    end = end_dim if end_axis is ABSENT else end_axis
    return _core.flatten(input, only("flatten", start_dim, start_axis, 0), end)


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """An axis as several; one length may be -1.

    >>> gb.unflatten(gb.ones((2, 12)), 1, (3, 4)).shape
    (2, 3, 4)
    """
    at = positive("unflatten", input, dim)
    lengths = list(sizes)
    if lengths.count(-1) == 1:
        known = -math.prod(lengths)
        lengths[lengths.index(-1)] = input.shape[at] // known if known else 0
    if math.prod(lengths) != input.shape[at]:
        raise ValueError(f"[unflatten] an axis of length {input.shape[at]} does not have the lengths {tuple(sizes)}")
    return _core.reshape(input, (*input.shape[:at], *lengths, *input.shape[at + 1 :]))


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors stay.

    >>> gb.t(gb.ones((2, 3))).shape
    (3, 2)
    """
    if input.ndim > 2:
        raise ValueError(f"[t] of a matrix, not of shape {input.shape}: use transpose(dim0, dim1)")
    return _core.transpose(input, 0, 1) if input.ndim == 2 else _core.reshape(input, input.shape)


def transpose(input: Tensor, dim0: Any = ABSENT, dim1: Any = ABSENT, *, axis0: int = -2, axis1: int = -1) -> Tensor:
    """Two axes in each other's place; without their numbers the last two.

    >>> gb.transpose(gb.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    if (dim0 is ABSENT) != (dim1 is ABSENT):
        raise TypeError("[transpose] two axes are swapped: dim0 and dim1")
    return _core.transpose(input, axis0 if dim0 is ABSENT else dim0, axis1 if dim1 is ABSENT else dim1)


def permute(input: Tensor, *args: Any, dims: Any = ABSENT) -> Tensor:
    """The axes in another order.

    >>> gb.permute(gb.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    if (dims is ABSENT) == (not args):
        raise TypeError("[permute] the axes are missing, or there twice")
    return _core.permute_dims(input, sizes("permute", args if dims is ABSENT else (dims,)))


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Axes at other positions.

    >>> gb.movedim(gb.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    return _core.moveaxis(input, source, destination)


def expand(self: Tensor, *shape: Any) -> Tensor:
    """Axes of length 1 repeated, without a copy; -1 keeps a length, and axes may come in front."""
    lengths = list(sizes("expand", shape))
    added = len(lengths) - self.ndim
    if added < 0:
        raise ValueError(f"[expand] shape {self.shape} has more axes than {tuple(lengths)}")
    for at, length in enumerate(lengths):
        if length == -1:
            if at < added:
                raise ValueError(f"[expand] -1 for an axis that shape {self.shape} does not have")
            lengths[at] = self.shape[at - added]
    return _core.broadcast_to(self, lengths)


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Repeated to the shape of another tensor: see `expand`."""
    return _core.broadcast_to(self, other.shape)


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


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """The elements [start, start + length) of an axis.

    >>> gb.narrow(gb.arange(5), 0, 1, 2)
    tensor([1, 2])
    """
    at = positive("narrow", input, dim)
    count = input.shape[at]
    first = int(start) + (count if start < 0 else 0)
    if length < 0 or not 0 <= first <= count - length:
        raise IndexError(f"[narrow] [{start}, {start} + {length}) is out of range for length {count}")
    return input[(slice(None),) * at + (slice(first, first + length),)]


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The elements with one index along an axis, without that axis.

    >>> gb.select(gb.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    return input[(slice(None),) * positive("select", input, dim) + (index,)]


def roll(input: Tensor, shifts: Any = ABSENT, dims: Any = ABSENT, *, shift: Any = ABSENT, axis: Any = ABSENT) -> Tensor:
    """The elements moved along axes, those that leave one end come in at the other.

    >>> gb.roll(gb.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    return _core.roll(input, only("roll", shifts, shift), only("roll", dims, axis, None))


def flip(input: Tensor, *args: Any, dims: Any = ABSENT, axis: Any = ABSENT) -> Tensor:
    """The elements in reverse order along axes.

    >>> gb.flip(gb.tensor([1, 2, 3]), (0,))
    tensor([3, 2, 1])
    """
    if args:
        if dims is not ABSENT or axis is not ABSENT:
            raise TypeError("[flip] the axes are there twice")
        return _core.flip(input, sizes("flip", args))
    return _core.flip(input, only("flip", dims, axis, None))


def tril(input: Tensor, diagonal: Any = ABSENT, *, k: Any = ABSENT, out: Tensor | None = None) -> Tensor:
    """The elements on and below a diagonal of the last two axes, others 0; the diagonal is `k` in the standard.

    >>> gb.tril(gb.ones((2, 2)))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return into("tril", out, _core.tril(input, only("tril", diagonal, k, 0)))


def triu(input: Tensor, diagonal: Any = ABSENT, *, k: Any = ABSENT, out: Tensor | None = None) -> Tensor:
    """The elements on and above a diagonal of the last two axes, others 0; the diagonal is `k` in the standard.

    >>> gb.triu(gb.ones((2, 2)), diagonal=1)
    tensor([[0., 1.],
            [0., 0.]])
    """
    return into("triu", out, _core.triu(input, only("triu", diagonal, k, 0)))


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements of a diagonal of two axes, as the last axis. Other than in PyTorch, a copy.

    >>> gb.diagonal(gb.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    first, second = positive("diagonal", input, dim1), positive("diagonal", input, dim2)
    if first == second:
        raise ValueError(f"[diagonal] dim1 and dim2 are one axis: {dim1}")
    x = _core.moveaxis(input, (first, second), (-2, -1))
    rows, columns = x.shape[-2:]
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    start = offset if offset >= 0 else -offset * columns
    flat = _core.reshape(x, (*x.shape[:-2], rows * columns))
    places = _core.arange(count, device=input.device) * (columns + 1) + start
    return _core.take(flat, places, axis=-1)


def diag_embed(input: Tensor, offset: int = 0) -> Tensor:
    """Matrices with the elements of the last axis on a diagonal.

    >>> gb.diag_embed(gb.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    length = input.shape[-1]
    square = _core.where(
        _core.eye(length, dtype=_core.int32, device=input.device) != 0,
        _core.expand_dims(input, -1),
        _core.zeros((), dtype=input.dtype, device=input.device),
    )
    if offset == 0:
        return square
    widths = [(0, 0)] * (input.ndim - 1)
    by = abs(offset)
    return _core.pad(square, [*widths, *([(0, by), (by, 0)] if offset > 0 else [(by, 0), (0, by)])])


def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Of a vector the matrix with it on a diagonal; of a matrix its diagonal.

    >>> gb.diag(gb.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if input.ndim == 1:
        return into("diag", out, diag_embed(input, diagonal))
    if input.ndim == 2:
        return into("diag", out, _diagonal(input, diagonal))
    raise ValueError(f"[diag] of a vector or a matrix, not of shape {input.shape}")


_diagonal = diagonal


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


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated by k · 90 degrees in the plane of two axes.

    >>> gb.rot90(gb.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    first, second = dims
    if k % 4 == 0:
        return +input
    if k % 4 == 2:
        return _core.flip(input, (first, second))
    swapped = _core.swapaxes(input, first, second)
    return _core.flip(swapped, first if k % 4 == 1 else second)


def atleast_1d(input: Tensor) -> Tensor:
    """With an axis at least.

    >>> gb.atleast_1d(gb.tensor(1)).shape
    (1,)
    """
    return _core.reshape(input, 1 if input.ndim == 0 else input.shape)


def atleast_2d(input: Tensor) -> Tensor:
    """With two axes at least.

    >>> gb.atleast_2d(gb.tensor(1)).shape
    (1, 1)
    """
    return _core.reshape(input, (1, -1) if input.ndim < 2 else input.shape)
