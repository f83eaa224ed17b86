"""Arguments with two names: PyTorch's `dim` and `keepdim`, and `axis` and `keepdims` of the array API standard."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._core import Tensor

Dims = int | Sequence[int] | None


class _Absent:
    def __repr__(self) -> str:
        return "..."


ABSENT: Any = _Absent()  # the default of an argument for which None means something


def is_standard(op: str, dim: Any, keepdim: Any, axis: Any, keepdims: Any) -> bool:
    """Whether the call is the standard's: `axis` is named, or `keepdims` without an axis by place.

    Raises TypeError where one argument is there under both names.
    """
    for first, second, names in ((dim, axis, "dim and axis"), (keepdim, keepdims, "keepdim and keepdims")):
        if first is not ABSENT and second is not ABSENT:
            raise TypeError(f"[{op}] {names} are two names of one argument")
    return axis is not ABSENT or (keepdims is not ABSENT and dim is ABSENT)


def axes_of(op: str, dim: Any, keepdim: Any, axis: Any, keepdims: Any) -> tuple[Any, bool]:
    """The axes and whether they stay, where both meanings are one."""
    kept = keepdims if keepdim is ABSENT else keepdim
    kept = False if kept is ABSENT else kept
    if is_standard(op, dim, keepdim, axis, keepdims):
        return (None if axis is ABSENT else axis), kept
    if not isinstance(kept, bool):
        raise TypeError(f"[{op}] keepdim is a bool, not {kept!r}")
    if isinstance(dim, (tuple, list)) and not dim:
        dim = None  # PyTorch reduces all axes for ()
    return (None if dim is ABSENT else dim), kept


def only(op: str, dim: Any, axis: Any, default: Any = ABSENT) -> Any:
    """The axis of a function with one: `dim` or `axis`."""
    if dim is not ABSENT and axis is not ABSENT:
        raise TypeError(f"[{op}] dim and axis are two names of one argument")
    chosen = axis if dim is ABSENT else dim
    if chosen is ABSENT:
        chosen = default
    if chosen is ABSENT:
        raise TypeError(f"[{op}] the argument dim is missing")
    return chosen


def sizes(op: str, given: Sequence[Any]) -> tuple[int, ...]:
    """The lengths in ``f(2, 3)`` or ``f((2, 3))``."""
    if len(given) == 1 and not hasattr(given[0], "__index__"):
        given = given[0]
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise TypeError(f"[{op}] a shape is given by integers, not by {given!r}")
    lengths = []
    for length in given:
        if isinstance(length, bool) or not hasattr(length, "__index__"):
            raise TypeError(f"[{op}] a length is an integer, not {length!r}")
        lengths.append(length.__index__())
    return tuple(lengths)


def positive(op: str, x: Tensor, dim: int) -> int:
    """A number of an axis from 0 on. Raises IndexError, as PyTorch, for an axis that `x` does not have."""
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"[{op}] dim is an integer, not {dim!r}")
    count, dim = max(x.ndim, 1), dim.__index__()
    if not -count <= dim < count:
        raise IndexError(f"[{op}] dim {dim} is out of range for shape {x.shape}")
    return dim % count


def into(op: str, out: Tensor | None, value: Tensor) -> Tensor:
    """The value; written into `out` where one is given, which must have its shape and dtype."""
    if out is None:
        return value
    if out.shape != value.shape or out.dtype != value.dtype:
        raise ValueError(
            f"[{op}] out is {out.dtype} of shape {out.shape}: the result is {value.dtype} of shape {value.shape}"
        )
    out[...] = value
    return out


def refuse(op: str, **arguments: Any) -> None:
    """Raises ValueError for an argument of PyTorch's that has no effect here, unless it is None or False."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise ValueError(f"[{op}] {name}={value!r} is not supported")


def refuse_unknown(op: str, rest: Iterable[str]) -> None:
    """Raises TypeError for arguments that PyTorch does not have either."""
    for name in sorted(rest):
        raise TypeError(f"[{op}] there is no argument {name!r}")


def with_type_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a TypeError that names it where an argument is not what it works with."""

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except AttributeError as error:
            raise TypeError(f"[{function.__name__}] {error}: a tensor is wanted") from error

    return called
