"""Elements by index and by mask, with PyTorch's arguments."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import Tensor
from ._arguments import ABSENT, positive


def _index(op: str, index: Any, like: Tensor) -> Tensor:
    if not isinstance(index, Tensor):
        raise TypeError(f"[{op}] the index is a tensor of integers, not {type(index).__name__}")
    if index.dtype.is_floating_point or index.dtype == _core.bool_:
        raise ValueError(f"[{op}] the index is a tensor of integers, not of {index.dtype}: index.long()")
    return index


def _within(op: str, x: Tensor, dim: int, index: Tensor) -> None:
    """PyTorch's index may be smaller than the tensor along all other axes, and not larger."""
    if index.ndim != x.ndim:
        raise ValueError(f"[{op}] an index of shape {index.shape} has other axes than shape {x.shape}")
    for at, (mine, its) in enumerate(zip(x.shape, index.shape, strict=True)):
        if at != dim and its > mine:
            raise ValueError(f"[{op}] an index of shape {index.shape} is larger than shape {x.shape} along axis {at}")


def _cut(x: Tensor, dim: int, shape: tuple[int, ...]) -> Tensor:
    """The elements of `x` that an index of this shape can name."""
    at = tuple(slice(None) if axis == dim else slice(0, length) for axis, length in enumerate(shape))
    return x if all(x.shape[a] == n for a, n in enumerate(shape) if a != dim) else x[at]


def gather(input: Tensor, dim: Any, index: Any = ABSENT, *, sparse_grad: bool = False) -> Tensor:
    """Elements along an axis by their indices: ``result[i][j] = input[index[i][j]][j]`` for `dim` 0.

    With two arguments, ``gather(x, indices)``, the rows of `x` by their numbers.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        Integers; as long as `input` or shorter along other axes.
    sparse_grad : bool
        Has no effect on values: gradients are dense. True raises ValueError.

    >>> gb.gather(gb.tensor([[1, 2], [3, 4]]), 1, gb.tensor([[1], [0]]))
    tensor([[2],
            [3]])
    """
    if index is ABSENT:
        return _core.gather(input, dim)
    if sparse_grad:
        raise ValueError("[gather] sparse_grad=True is not supported: there are no sparse tensors")
    at, index = positive("gather", input, dim), _index("gather", index, input)
    if input.ndim == 0 and index.ndim <= 1:
        return _core.take(_core.reshape(input, 1), _core.reshape(index, -1), axis=0).reshape(index.shape)
    _within("gather", input, at, index)
    return _core.take_along_axis(_cut(input, at, index.shape), index, at)


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """The elements at indices along an axis, of shapes that broadcast in the others; without one, of the flat tensor.

    >>> gb.take_along_dim(gb.tensor([[3.0, 1.0], [2.0, 4.0]]), gb.tensor([[1], [0]]), 1)
    tensor([[1.],
            [2.]])
    """
    if dim is None:
        return _core.take(input.reshape(-1), indices.reshape(-1), axis=0)
    if input.ndim != indices.ndim:
        raise ValueError(f"[take_along_dim] indices {indices.shape} for shape {input.shape}: one number of axes")
    axis = positive("take_along_dim", input, dim)
    lengths = [max(a, b) if 0 not in (a, b) else 0 for a, b in zip(input.shape, indices.shape, strict=True)]
    own, others = lengths.copy(), lengths.copy()
    own[axis], others[axis] = input.shape[axis], indices.shape[axis]
    return _core.take_along_axis(_core.broadcast_to(input, own), _core.broadcast_to(indices, others), axis)


def _source(op: str, src: Any, index: Tensor, x: Tensor) -> Tensor:
    if not isinstance(src, Tensor):
        return _core.full(index.shape, src, dtype=x.dtype, device=x.device)
    if src.dtype != x.dtype:
        raise ValueError(f"[{op}] src is {src.dtype}, and the tensor {x.dtype}")
    if src.ndim != index.ndim or any(a < b for a, b in zip(src.shape, index.shape, strict=True)):
        raise ValueError(f"[{op}] src of shape {src.shape} is smaller than the index of shape {index.shape}")
    return src if src.shape == index.shape else src[tuple(slice(0, length) for length in index.shape)]


def _scattered(op: str, function: Any, input: Tensor, dim: int, index: Any, src: Any) -> Tensor:
    at, index = positive(op, input, dim), _index(op, index, input)
    _within(op, input, at, index)
    values = _source(op, src, index, input)
    part = _cut(input, at, index.shape)
    changed: Tensor = function(part, index, values, at)
    if part is input:
        return changed
    place = tuple(slice(None) if axis == at else slice(0, length) for axis, length in enumerate(index.shape))
    inside = _core.zeros(input.shape, dtype=_core.bool_, device=input.device)
    inside[place] = True
    widths = [(0, whole - part) for whole, part in zip(input.shape, changed.shape, strict=True)]
    return _core.where(inside, _core.pad(changed, widths), input)


def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = ABSENT, *, value: Any = ABSENT, reduce: str | None = None
) -> Tensor:
    """With elements replaced along an axis: ``result[index[i][j]][j] = src[i][j]`` for `dim` 0; inverse to `gather`.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        Integers; as long as `input` or shorter along other axes.
    src, value : Tensor or number
        Of at least the shape of the index; or a number for all.
    reduce : str, optional
        ``"add"`` adds to what is there. ``"multiply"`` is not supported.

    >>> gb.scatter(gb.zeros((2, 3)), 1, gb.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if (src is ABSENT) == (value is ABSENT):
        raise TypeError("[scatter] the argument src is missing, or there twice")
    if reduce not in (None, "add"):
        raise ValueError(f"[scatter] reduce is None or 'add', not {reduce!r}")
    chosen = value if src is ABSENT else src
    function = _core.put_along_axis if reduce is None else _core.scatter_add
    return _scattered("scatter", function, input, dim, index, chosen)


def scatter_add(
    input: Tensor, dim: Any, index: Any, src: Any = ABSENT, *, values: Any = ABSENT, axis: Any = ABSENT
) -> Tensor:
    """With elements added along an axis: ``result[index[i][j]][j] += src[i][j]`` for `dim` 0.

    >>> gb.scatter_add(gb.zeros(3), 0, gb.tensor([1, 1]), gb.ones(2))
    tensor([0., 2., 0.])
    """
    if src is ABSENT and isinstance(dim, Tensor):  # scatter_add(x, indices, values, axis=-1)
        return _core.scatter_add(input, dim, index, -1 if axis is ABSENT else axis)
    if not isinstance(src, Tensor):
        raise TypeError(f"[scatter_add] src is a tensor, not {src!r}")
    return _scattered("scatter_add", _core.scatter_add, input, dim, index, src)


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The elements with these indices along an axis.

    >>> gb.index_select(gb.tensor([[1, 2], [3, 4]]), 1, gb.tensor([1]))
    tensor([[2],
            [4]])
    """
    index = _index("index_select", index, input)
    if index.ndim > 1:
        raise ValueError(f"[index_select] the index is a vector, not of shape {index.shape}")
    if input.ndim == 0:
        return _core.take(_core.reshape(input, 1), _core.reshape(index, -1), axis=0).reshape(())
    return _core.take(input, _core.reshape(index, -1), axis=positive("index_select", input, dim))


def _along(index: Tensor, x: Tensor, dim: int) -> Tensor:
    """A vector of indices, for each element of the other axes."""
    shape = [1] * x.ndim
    shape[dim] = index.shape[0]
    lengths = list(x.shape)
    lengths[dim] = index.shape[0]
    return _core.broadcast_to(_core.reshape(index, shape), lengths)


def index_add(input: Tensor, dim: Any, index: Any, source: Any = ABSENT, *, alpha: float = 1) -> Tensor:
    """With the rows of `source` added at indices of an axis.

    >>> gb.index_add(gb.zeros(3), 0, gb.tensor([1, 1]), gb.ones(2))
    tensor([0., 2., 0.])
    """
    if source is ABSENT:  # index_add(x, indices, values)
        return _core.index_add(input, dim, index)
    at, index = positive("index_add", input, dim), _index("index_add", index, input)
    wanted = tuple(index.shape[0] if axis == at else length for axis, length in enumerate(input.shape))
    if source.shape != wanted:
        raise ValueError(f"[index_add] source has shape {source.shape}, not {wanted}")
    values = source if alpha == 1 else source * alpha
    return _core.scatter_add(input, _along(index, input, at), values, at)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """With the rows of `source` at indices of an axis.

    >>> gb.index_copy(gb.zeros(3), 0, gb.tensor([1]), gb.ones(1))
    tensor([0., 1., 0.])
    """
    at, index = positive("index_copy", input, dim), _index("index_copy", index, input)
    return _core.put_along_axis(input, _along(index, input, at), source, at)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """With a number at indices of an axis.

    >>> gb.index_fill(gb.zeros(3), 0, gb.tensor([1]), 5.0)
    tensor([0., 5., 0.])
    """
    at, index = positive("index_fill", input, dim), _index("index_fill", index, input)
    places = _along(index, input, at)
    return _core.put_along_axis(
        input, places, _core.full(places.shape, value, dtype=input.dtype, device=input.device), at
    )


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """With a number where the mask is True; the mask broadcasts to the shape.

    >>> gb.masked_fill(gb.zeros(2), gb.tensor([True, False]), 3.0)
    tensor([3., 0.])
    """
    if not isinstance(mask, Tensor) or mask.dtype != _core.bool_:
        raise ValueError(
            f"[masked_fill] the mask is a tensor of bool, not {getattr(mask, 'dtype', type(mask).__name__)}"
        )
    if isinstance(value, Tensor):
        if value.ndim:
            raise ValueError(f"[masked_fill] the value is a number or of shape (), not of shape {value.shape}")
        value = value.astype(input.dtype)
    elif not input.dtype.is_floating_point and isinstance(value, float) and value != int(value):
        raise ValueError(f"[masked_fill] {value} does not fit in {input.dtype}")
    else:
        value = _core.full((), value, dtype=input.dtype, device=input.device)
    return _core.where(mask, value, input)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask is True, as a vector. Evaluates the mask.

    >>> gb.masked_select(gb.tensor([1, 2]), gb.tensor([False, True]))
    tensor([2])
    """
    x, mask = _core.broadcast_arrays(input, mask)
    return x[mask]


def take(input: Tensor, index: Any = ABSENT, *, axis: Any = ABSENT, indices: Any = ABSENT) -> Tensor:
    """Elements of the flat tensor by their indices; with `axis`, as in the array API standard, along that axis.

    >>> gb.take(gb.tensor([5, 6, 7]), gb.tensor([2, 0]))
    tensor([7, 5])
    """
    if (index is ABSENT) == (indices is ABSENT):
        raise TypeError("[take] the argument index is missing, or there twice")
    return _core.take(input, indices if index is ABSENT else index, axis=None if axis is ABSENT else axis)


def where(condition: Tensor, input: Any = ABSENT, other: Any = ABSENT) -> Any:
    """Elements of `input` where the condition is True, else of `other`; of the condition alone its indices.

    >>> gb.where(gb.tensor([True, False]), 1.0, gb.tensor([5.0, 6.0]))
    tensor([1., 6.])
    >>> gb.where(gb.tensor([True, False]))
    (tensor([0]),)
    """
    if input is ABSENT and other is ABSENT:
        return nonzero(condition, as_tuple=True)
    if input is ABSENT or other is ABSENT:
        raise TypeError("[where] of the condition alone, or with input and other")
    if not isinstance(input, Tensor) and not isinstance(other, Tensor) and not hasattr(input, "dtype"):
        # Two numbers: the default dtype of both.
        input = _core.tensor(input, device=condition.device)
        other = _core.tensor(other, device=condition.device)
    return _core.where(condition, input, other)


def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """The tensor's elements where the condition is True, else the elements of `other`."""
    result: Tensor = where(condition, self, other)
    return result


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of elements that are not 0, int64 [count, ndim]; with `as_tuple` a vector for each axis. Evaluates.

    >>> gb.nonzero(gb.tensor([0, 3, 4]))
    tensor([[1],
            [2]])
    """
    places = _core.nonzero(input) if input.ndim else _core.nonzero(_core.reshape(input, 1))
    wide = tuple(place.astype(_core.int64) for place in places)
    if as_tuple:
        return wide
    if input.ndim == 0:
        return _core.zeros((wide[0].shape[0], 0), dtype=_core.int64, device=input.device)
    return _core.stack(wide, 1)


def argwhere(input: Tensor) -> Tensor:
    """The indices of elements that are not 0: `nonzero`.

    >>> gb.argwhere(gb.tensor([0, 3]))
    tensor([[1]])
    """
    result: Tensor = nonzero(input)
    return result
