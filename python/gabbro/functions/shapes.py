"""Shapes: views, joining and splitting with PyTorch's arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import DType, Tensor
from ._arguments import ABSENT, into, only, positive, sizes


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
