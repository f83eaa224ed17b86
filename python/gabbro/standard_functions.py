"""Functions of the Python array API standard that are made of others, and facts of the namespace."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _core
from ._core import Device, DType, Tensor
from ._float_functions import copysign as copysign
from ._float_functions import logaddexp as logaddexp
from ._float_functions import nextafter as nextafter
from ._float_functions import signbit as signbit
from .data_types import _KINDS, isdtype

VERSIONS = ("2022.12", "2023.12", "2024.12")


def _required(op: str, *tensors: Any) -> None:
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"[{op}] {type(tensor).__name__} is not a tensor")


class UniqueAll(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor) -> UniqueAll:
    """The different elements, and where they are. Evaluates `x`.

    Returns
    -------
    values, indices, inverse_indices, counts : named tuple of Tensor
        The elements in order, NaNs distinct, [count]; where each is first in `x` made flat, int64 [count];
        which of them each element of `x` is, int64 of the shape of `x`; how often each is there, int64 [count].

    Raises
    ------
    ValueError
        For block formats.

    >>> gb.unique_all(gb.tensor([3, 1, 3])).counts
    tensor([1, 2])
    """
    values, *places = _core._unique(x)
    return UniqueAll(values, *(place.astype(_core.int64) for place in places))


def unique_counts(x: Tensor) -> UniqueCounts:
    """The different elements, and how often each is there: see `unique_all`.

    >>> gb.unique_counts(gb.tensor([3, 1, 3])).values
    tensor([1, 3])
    """
    values, _, _, counts = _core._unique(x)
    return UniqueCounts(values, counts.astype(_core.int64))


def unique_inverse(x: Tensor) -> UniqueInverse:
    """The different elements, and which of them each element is: see `unique_all`.

    >>> gb.unique_inverse(gb.tensor([3, 1, 3])).inverse_indices
    tensor([1, 0, 1])
    """
    values, _, inverse, _ = _core._unique(x)
    return UniqueInverse(values, inverse.astype(_core.int64))


def unique_values(x: Tensor) -> Tensor:
    """The different elements, in order: see `unique_all`.

    >>> gb.unique_values(gb.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    return _core._unique(x)[0]


def positive(x: Tensor) -> Tensor:
    """+x: itself.

    >>> gb.positive(gb.tensor([-1]))
    tensor([-1])
    """
    return +x


def conj(x: Tensor) -> Tensor:
    """The complex conjugate of each element: itself, as there are no complex dtypes.

    >>> gb.conj(gb.tensor([1.5]))
    tensor([1.5])
    """
    return +x


def real(x: Tensor) -> Tensor:
    """The real part of each element: itself, as there are no complex dtypes.

    >>> gb.real(gb.tensor([1.5]))
    tensor([1.5])
    """
    return +x


def imag(x: Tensor) -> Tensor:
    """The imaginary part of each element: 0, as there are no complex dtypes.

    >>> gb.imag(gb.tensor([1.5]))
    tensor([0.])
    """
    return _core.zeros_like(x)


def _only_axis(op: str, x: Tensor, axis: int | None) -> int:
    _required(op, x)
    if axis is None and x.ndim != 1:
        raise ValueError(f"[{op}] axis has to be named for shape {x.shape}")
    return 0 if axis is None else axis


def _behind(number: int, x: Tensor, axis: int) -> Tensor:
    shape = list(x.shape)
    shape[axis] = 1
    return _core.concat([_core.full(shape, number, dtype=x.dtype, device=x.device), x], axis)


def cumulative_sum(x: Tensor, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Sums up to each element along an axis: `cumsum`.

    Parameters
    ----------
    x : Tensor
        Of any dtype but block formats.
    axis : int, optional
        From -ndim to ndim - 1; without it, of a tensor with one axis.
    dtype : DType, optional
        Of the sums and of the result.
    include_initial : bool
        A 0 comes first.

    Raises
    ------
    ValueError
        For axes that `x` does not have, and where one has to be named.

    >>> gb.cumulative_sum(gb.tensor([1, 2, 3]), include_initial=True)
    tensor([0, 1, 3, 6])
    """
    axis = _only_axis("cumulative_sum", x, axis)
    result = _core.cumsum(x, axis) if dtype is None else _core.cumsum(x.astype(dtype), axis).astype(dtype)
    return _behind(0, result, axis) if include_initial else result


def cumulative_prod(x: Tensor, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Products up to each element along an axis.

    Parameters
    ----------
    x : Tensor
        Of any dtype but block formats.
    axis : int, optional
        From -ndim to ndim - 1; without it, of a tensor with one axis.
    dtype : DType, optional
        Of the products and of the result; without it, that of `prod`.
    include_initial : bool
        A 1 comes first.

    Raises
    ------
    ValueError
        For axes that `x` does not have, and where one has to be named.

    >>> gb.cumulative_prod(gb.tensor([1, 2, 3]), include_initial=True)
    tensor([1, 1, 2, 6])
    """
    axis = _only_axis("cumulative_prod", x, axis)
    kind = _core.prod(x, axis).dtype if dtype is None else _core._dtype(dtype)
    # f16 and bf16 are multiplied as float32, as in other functions of many elements.
    is_half = kind in (_core.float16, _core.bfloat16)
    rows = _core.moveaxis(x.astype(_core.float32 if is_half else kind), axis, 0)
    step = 1
    while step < rows.shape[0]:  # then each element is the product of 2 · step of them
        rows = _core.concat([rows[:step], rows[step:] * rows[:-step]], 0)
        step *= 2
    result = _core.moveaxis(rows, 0, axis).astype(kind)
    return _behind(1, result, axis) if include_initial else result


def diff(
    x: Tensor, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbors along an axis, `n` times.

    Parameters
    ----------
    x : Tensor
    axis : int
    n : int
        Not negative.
    prepend, append : Tensor, optional
        What is put before and behind `x` along the axis first.

    Raises
    ------
    ValueError
        For axes that `x` does not have, and a negative `n`.

    >>> gb.array_api.diff(gb.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if n < 0:
        raise ValueError(f"[diff] n is {n}: it may not be negative")
    parts = [part for part in (prepend, x, append) if part is not None]
    x = _core.moveaxis(_core.concat(parts, axis) if len(parts) > 1 else x, axis, 0)
    for _ in range(min(n, x.shape[0])):  # then nothing is left
        x = x[1:] - x[:-1]
    return _core.moveaxis(x, 0, axis)


def searchsorted(a: Tensor, b: Tensor, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where elements of `b` would have to be put in, to keep `a` in order.

    Parameters
    ----------
    a : Tensor
        [N], in ascending order, or with `sorter` in any order.
    b : Tensor
        Of any shape; each element is compared with all of `a`.
    side : str
        ``"left"``: before equal ones; ``"right"``: after them. NaN counts as larger than all numbers, as in `sort`.
    sorter : Tensor, optional
        Integers [N]: ``argsort(a)``.

    Returns
    -------
    Tensor
        int64, of the shape of `b`.

    Raises
    ------
    ValueError
        For another shape of `a`, and another side.

    >>> gb.array_api.searchsorted(gb.tensor([1, 3, 5]), gb.tensor([3, 4]))
    tensor([1, 2])
    """
    _required("searchsorted", a, b, *([] if sorter is None else [sorter]))
    if side not in ("left", "right"):
        raise ValueError(f"[searchsorted] side is 'left' or 'right', not {side!r}")
    ordered = a if sorter is None else _core.take(a, sorter, axis=0)
    if ordered.ndim != 1:
        raise ValueError(f"[searchsorted] shape {ordered.shape} has not one axis")
    b = _core.expand_dims(b, -1)
    before = _core.less(ordered, b) if side == "left" else _core.less_equal(ordered, b)
    if isdtype(b.dtype, "real floating"):  # NaN equals NaN here, and is after all numbers
        numbers = _core.logical_not(_core.isnan(ordered)) if side == "left" else True
        before = _core.logical_or(before, _core.logical_and(_core.isnan(b), numbers))
    return _core.sum(before, -1)


class _NamespaceInfo:
    """What the standard's inspection asks of the namespace."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 6}

    def default_device(self) -> Device:
        return _core.get_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        return {"real floating": _core.float32, "integral": _core.int64, "indexing": _core.int64}

    def devices(self) -> list[Device]:
        return [Device(name) for name in _core.devices()]

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        kinds = ("bool", "numeric") if kind is None else kind
        names = _KINDS["bool"] + _KINDS["numeric"]
        # The standard has no f16 or bf16.
        standard = [_core._dtype(name) for name in names if name not in ("float16", "bfloat16")]
        return {str(dtype): dtype for dtype in standard if isdtype(dtype, kinds)}


def __array_namespace_info__() -> _NamespaceInfo:
    """What this namespace can do, as the standard's inspection asks it.

    >>> gb.__array_namespace_info__().default_dtypes()["integral"]
    gabbro.int64
    """
    return _NamespaceInfo()
