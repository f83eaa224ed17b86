"""Pools with PyTorch's arguments. Those with `ceil_mode` or indices are made of other functions; the others are ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import Tensor


def _numbers(op: str, name: str, value: Any, count: int) -> list[int]:
    given = [value] * count if hasattr(value, "__index__") else list(value)
    if len(given) == 1:
        given *= count
    if len(given) != count:
        raise ValueError(f"[{op}] {name} has {len(given)} numbers: {count} are wanted")
    return [number.__index__() for number in given]


class _Windows:
    """The windows of a pool: one list of numbers for each option, one number for each spatial axis."""

    def __init__(self, op: str, x: Tensor, count: int, kernel: Any, stride: Any, padding: Any, dilation: Any) -> None:
        if x.ndim not in (count + 1, count + 2):
            raise ValueError(f"[{op}] of {count + 1} or {count + 2} axes, not of shape {x.shape}")
        self.kernel = _numbers(op, "kernel_size", kernel, count)
        no_stride = stride is None or (isinstance(stride, (tuple, list)) and not stride)
        self.stride = self.kernel if no_stride else _numbers(op, "stride", stride, count)
        self.padding = _numbers(op, "padding", padding, count)
        self.dilation = _numbers(op, "dilation", dilation, count)
        self.lengths = list(x.shape[x.ndim - count :])
        for k, s, p, d in zip(self.kernel, self.stride, self.padding, self.dilation, strict=True):
            if min(k, s, d) < 1 or p < 0 or 2 * p > k:
                raise ValueError(
                    f"[{op}] kernel_size {k}, stride {s} and dilation {d} are positive, and padding {p} is within half "
                    "of the kernel"
                )

    def counts(self, op: str, ceil_mode: bool) -> list[int]:
        """The number of windows along each axis. The last one begins within the input or its left padding."""
        counts = []
        for length, k, s, p, d in zip(self.lengths, self.kernel, self.stride, self.padding, self.dilation, strict=True):
            room = length + 2 * p - d * (k - 1) - 1
            count = (-(-room // s) if ceil_mode else room // s) + 1
            if ceil_mode and (count - 1) * s >= length + p:
                count -= 1
            if count < 1:
                raise ValueError(f"[{op}] a window of {d * (k - 1) + 1} does not fit in {length} elements")
            counts.append(count)
        return counts

    def ends(self, counts: Sequence[int]) -> list[int]:
        """How many elements the windows need after each axis of the input, which may be negative."""
        parts = zip(self.lengths, self.kernel, self.stride, self.padding, self.dilation, counts, strict=True)
        return [(n - 1) * s + d * (k - 1) + 1 - p - length for length, k, s, p, d, n in parts]


def _padded(x: Tensor, windows: _Windows, counts: Sequence[int], value: float) -> Tensor:
    front = [(0, 0)] * (x.ndim - len(counts))
    pairs = [(p, max(0, end)) for p, end in zip(windows.padding, windows.ends(counts), strict=True)]
    return _core.pad(x, front + pairs, "constant", value)


_MAX: list[Any] = [_core.max_pool1d, _core.max_pool2d, _core.max_pool3d]
_MEAN: list[Any] = [_core.avg_pool1d, _core.avg_pool2d, _core.avg_pool3d]


def _batched(function: Any, x: Tensor, count: int, *args: Any) -> Tensor:
    """The op, which wants [N, C, ...], also of [C, ...]."""
    if x.ndim == count + 1:
        result: Tensor = function(_core.expand_dims(x, 0), *args)
        return result[0]
    batched: Tensor = function(x, *args)
    return batched


def maxima_with_indices(
    x: Tensor, tables: Sequence[Sequence[Sequence[int]]], lengths: Sequence[int], padding: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """The maxima of windows, and their positions in the flattened spatial axes, int64.

    Parameters
    ----------
    x : Tensor
        With `padding` elements before each spatial axis.
    tables : sequence
        Of each spatial axis: the positions in x of the elements of each window, equally many of each.
    lengths : sequence of int
        Of the spatial axes without padding.
    """
    count, first = len(tables), x.ndim - len(tables)
    y, found, stride = x, None, 1
    for number in reversed(range(count)):  # one axis at a time, the last one first
        axis = first + number
        places = _core.tensor(tables[number], dtype=_core.int32, device=x.device)  # [n, k]
        shape = [1] * (y.ndim + 1)
        shape[axis], shape[axis + 1] = places.shape
        y = _in_windows(y, places, axis)
        best = _core.argmax(y.detach(), axis + 1, True)
        own = _core.broadcast_to(((places - padding[number]) * stride).reshape(shape), y.shape)
        found = own if found is None else own + _in_windows(found, places, axis)
        y = _core.squeeze(_core.take_along_axis(y, best, axis + 1), axis + 1)
        found = _core.squeeze(_core.take_along_axis(found, best, axis + 1), axis + 1)
        stride *= lengths[number]
    assert found is not None
    return y, found.astype(_core.int64)


def _with_indices(x: Tensor, windows: _Windows, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    parts = zip(windows.kernel, windows.stride, windows.dilation, counts, strict=True)
    tables = [[[i * s + j * d for j in range(k)] for i in range(n)] for k, s, d, n in parts]
    return maxima_with_indices(_padded(x, windows, counts, -math.inf), tables, windows.lengths, windows.padding)


def _in_windows(x: Tensor, places: Tensor, axis: int) -> Tensor:
    """An axis as two, by the positions [n, k]."""
    picked = _core.take(x, places.reshape(-1), axis=axis)
    return picked.reshape(*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])


def _max_pool(count: int, x: Tensor, options: Sequence[Any], ceil_mode: bool, return_indices: bool) -> Any:
    op = f"max_pool{count}d"
    if not ceil_mode and not return_indices:
        kernel, stride, *others = options
        return _batched(_MAX[count - 1], x, count, kernel, None if stride == () or stride == [] else stride, *others)
    windows = _Windows(op, x, count, *options)
    counts = windows.counts(op, ceil_mode)
    if return_indices:
        return _with_indices(x, windows, counts)
    y = _padded(x, windows, counts, -math.inf)
    return _batched(_MAX[count - 1], y, count, windows.kernel, windows.stride, 0, windows.dilation)


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of [N, C, L] or [C, L].

    Parameters
    ----------
    input : Tensor
    kernel_size, stride, padding, dilation : int or tuple of int
        The stride is the kernel's size where it is missing.
    ceil_mode : bool
        Whether a last window that is partly outside counts.
    return_indices : bool
        Whether the result is a tuple, with the positions in the flattened spatial axes, int64.
    """
    return _max_pool(1, input, (kernel_size, stride, padding, dilation), ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of [N, C, H, W] or [C, H, W]: see `max_pool1d`."""
    return _max_pool(2, input, (kernel_size, stride, padding, dilation), ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of [N, C, D, H, W] or [C, D, H, W]: see `max_pool1d`."""
    return _max_pool(3, input, (kernel_size, stride, padding, dilation), ceil_mode, return_indices)


def _avg_pool(
    count: int, x: Tensor, options: Sequence[Any], ceil_mode: bool, count_include_pad: bool, divisor: int | None
) -> Tensor:
    op = f"avg_pool{count}d"
    if divisor is not None and divisor < 1:
        raise ValueError(f"[{op}] divisor_override is {divisor}: a positive number is wanted")
    kernel, stride, padding = options
    if not ceil_mode and divisor is None:
        stride = None if stride == () or stride == [] else stride
        return _batched(_MEAN[count - 1], x, count, kernel, stride, padding, False, count_include_pad)
    windows = _Windows(op, x, count, kernel, stride, padding, 1)
    counts = windows.counts(op, ceil_mode)
    means = _batched(_MEAN[count - 1], _padded(x, windows, counts, 0), count, windows.kernel, windows.stride)
    if divisor is not None:
        return means * (math.prod(windows.kernel) / divisor)
    factor: Any = 1
    for axis in range(count):  # the share of the window that counts
        k, s, p, n = windows.kernel[axis], windows.stride[axis], windows.padding[axis], counts[axis]
        length = windows.lengths[axis]
        low, high = (-p, length + p) if count_include_pad else (0, length)
        shares = [k / (min(i * s - p + k, high) - max(i * s - p, low)) for i in range(n)]
        shape = [1] * count
        shape[axis] = n
        factor = factor * _core.tensor(shares, dtype=x.dtype, device=x.device).reshape(shape)
    result: Tensor = means * factor
    return result


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of [N, C, L] or [C, L].

    Parameters
    ----------
    input : Tensor
    kernel_size, stride, padding : int or tuple of int
        The stride is the kernel's size where it is missing.
    ceil_mode : bool
        Whether a last window that is partly outside counts.
    count_include_pad : bool
        Whether padding is part of the mean.
    """
    return _avg_pool(1, input, (kernel_size, stride, padding), ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of [N, C, H, W] or [C, H, W]: see `avg_pool1d`. `divisor_override` divides the sums."""
    return _avg_pool(2, input, (kernel_size, stride, padding), ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of [N, C, D, H, W] or [C, D, H, W]: see `avg_pool2d`."""
    return _avg_pool(3, input, (kernel_size, stride, padding), ceil_mode, count_include_pad, divisor_override)
