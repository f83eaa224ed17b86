"""Pools and norms of windows and channels that are made of other functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import Tensor
from .pools import avg_pool1d, avg_pool2d, maxima_with_indices


def _lengths(op: str, size: Any, count: int, x: Tensor) -> list[int]:
    given = [size] * count if isinstance(size, int) or size is None else list(size)
    if len(given) != count:
        raise ValueError(f"[{op}] {count} lengths are wanted, not {size!r}")
    if x.ndim not in (count + 1, count + 2):
        raise ValueError(f"[{op}] of {count + 1} or {count + 2} axes, not of shape {x.shape}")
    return [x.shape[x.ndim - count + i] if n is None else int(n) for i, n in enumerate(given)]


def _bounds(length: int, size: int) -> list[tuple[int, int]]:
    return [(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]


def _adaptive(x: Tensor, axis: int, size: int, reduce: Any) -> Tensor:
    length = x.shape[axis]
    if size > 0 and length % size == 0:  # windows of one length
        shape = (*x.shape[:axis], size, length // size, *x.shape[axis + 1 :])
        result: Tensor = reduce(_core.reshape(x, shape), axis + 1)
        return result
    front: tuple[Any, ...] = (slice(None),) * axis
    windows = [(*front, slice(a, b)) for a, b in _bounds(length, size)]
    return _core.stack([reduce(x[window], axis) for window in windows], axis)


def _adaptive_pool(op: str, x: Tensor, output_size: Any, count: int, reduce: Any) -> Tensor:
    for number, size in enumerate(_lengths(op, output_size, count, x)):
        x = _adaptive(x, x.ndim - count + number, size, reduce)
    return x


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows, as many as wanted: [N, C, L]."""
    return _adaptive_pool("adaptive_avg_pool1d", input, output_size, 1, _core.mean)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows, as many as wanted: [N, C, H, W]; None keeps a length."""
    sizes = _lengths("adaptive_avg_pool2d", output_size, 2, input)
    if input.ndim == 4:
        return _core.adaptive_avg_pool2d(input, sizes)
    return _core.adaptive_avg_pool2d(_core.expand_dims(input, 0), sizes)[0]


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows, as many as wanted: [N, C, D, H, W]."""
    return _adaptive_pool("adaptive_avg_pool3d", input, output_size, 3, _core.mean)


def _adaptive_max_pool(x: Tensor, output_size: Any, count: int, return_indices: bool) -> Any:
    op = f"adaptive_max_pool{count}d"
    if not return_indices:
        return _adaptive_pool(op, x, output_size, count, _core.max)
    lengths = x.shape[x.ndim - count :]
    tables = []
    for length, size in zip(lengths, _lengths(op, output_size, count, x), strict=True):
        bounds = _bounds(length, size)
        longest = max(end - start for start, end in bounds)
        # The last element of a shorter window is there again, where it does not change the first maximum.
        tables.append([[min(start + j, end - 1) for j in range(longest)] for start, end in bounds])
    return maxima_with_indices(x, tables, lengths, [0] * count)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows, as many as wanted: [N, C, L]; with `return_indices` also their positions, int64."""
    return _adaptive_max_pool(input, output_size, 1, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows, as many as wanted: [N, C, H, W]."""
    return _adaptive_max_pool(input, output_size, 2, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows, as many as wanted: [N, C, D, H, W]."""
    return _adaptive_max_pool(input, output_size, 3, return_indices)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each item with mean 0 and variance 1, times the weight, plus the bias (Ulyanov et al. 2016).

    With running moments and `use_input_stats` these move toward the means of the batch; without `use_input_stats` they
    are the moments.
    """
    if input.ndim < 3:
        raise ValueError(f"[instance_norm] of [N, C, ...], not of shape {input.shape}")
    channels = (1, input.shape[1], *(1,) * (input.ndim - 2))
    axes = tuple(range(2, input.ndim))
    if use_input_stats:
        count = math.prod(input.shape[2:])
        if count == 1:
            raise ValueError(f"[instance_norm] channels of one element have no variance: {input.shape}")
        mean, var = _core.mean(input, axes, True), _core.var(input, axes, correction=0.0, keepdims=True)
        for running, now in ((running_mean, mean), (running_var, var * (count / (count - 1)))):
            if running is not None:
                of_batch = _core.reshape(_core.mean(now.detach(), 0), running.shape)
                running[...] = running * (1 - momentum) + of_batch * momentum
    elif running_mean is None or running_var is None:
        raise ValueError("[instance_norm] without use_input_stats running_mean and running_var are needed")
    else:
        mean, var = _core.reshape(running_mean, channels), _core.reshape(running_var, channels)
    y = (input - mean) * _core.rsqrt(var + eps)
    if weight is not None:
        y = y * _core.reshape(weight, channels)
    return y if bias is None else y + _core.reshape(bias, channels)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: int | None = None, ceil_mode: bool = False
) -> Tensor:
    """The norms of windows of the last axis."""
    powers = avg_pool1d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return (_core.relu(powers) * kernel_size) ** (1 / norm_type)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The norms of windows of the last two axes."""
    sides: Sequence[int] = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    powers = avg_pool2d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return (_core.relu(powers) * math.prod(sides)) ** (1 / norm_type)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel with mean 0 and variance 1 over the batch, times the weight, plus the bias (Ioffe and Szegedy 2015).

    In training the running moments, which may be missing, move toward the batch's moments.
    """
    if running_mean is None or running_var is None:
        if not training or running_mean is not running_var:
            raise ValueError("[batch_norm] running_mean and running_var are needed, or in training both may be missing")
        channels = input.shape[1]
        zeros = _core.zeros(channels, dtype=input.dtype, device=input.device)
        ones = _core.ones(channels, dtype=input.dtype, device=input.device)
        return _core.batch_norm_training(input, zeros, ones, weight, bias, momentum, eps)[0]
    if not training:
        return _core.batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
    y, mean, var = _core.batch_norm_training(input, running_mean, running_var, weight, bias, momentum, eps)
    running_mean[...], running_var[...] = mean.detach(), var.detach()
    return y


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha · mean of squares of `size` channels)^beta (Krizhevsky et al. 2012)."""
    if input.ndim < 3:
        raise ValueError(f"[local_response_norm] of [N, C, ...], not of shape {input.shape}")
    widths = [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (input.ndim - 2)
    squares = _core.pad(input * input, widths)
    channels = input.shape[1]
    total = squares[:, 0:channels]
    for at in range(1, size):
        total = total + squares[:, at : at + channels]
    return input / (k + alpha * total / size) ** beta
