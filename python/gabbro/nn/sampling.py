"""Images at other sizes and at other places: interpolate, grid_sample, affine_grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor
from ..functions.conversions import clone
from .window_functions import adaptive_avg_pool1d, adaptive_avg_pool3d

_AXES = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_MODES = ("nearest", "nearest-exact", "area", *_AXES)


def check_mode(op: str, mode: str, align_corners: bool | None) -> None:
    """Raises ValueError for an unknown mode, and for one without `align_corners`."""
    if mode not in _MODES:
        raise ValueError(f"[{op}] mode is one of {', '.join(map(repr, _MODES))}, not {mode!r}")
    if align_corners is not None and mode not in _AXES:
        raise ValueError(f"[{op}] align_corners is for linear and cubic modes, not for {mode!r}")


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """`input` [N, C, ...] with other lengths of its one to three spatial axes.

    Parameters
    ----------
    input : Tensor
    size : int or tuple of int, optional
        The lengths, or one number for all.
    scale_factor : float or tuple of float, optional
        The lengths are multiplied by it and rounded down. Either this or `size` is wanted.
    mode : str
        ``"nearest"``, ``"nearest-exact"``, ``"area"``, ``"linear"`` (of one axis), ``"bilinear"`` and ``"bicubic"`` (of
        two), or ``"trilinear"``.
    align_corners : bool, optional
        The corners of input and output are the centers of their corner elements: not for nearest and area.
    recompute_scale_factor : bool, optional
        Positions are by the lengths, not by `scale_factor`.
    antialias : bool
        Filters that are wide enough for smaller images: bilinear and bicubic.

    Raises
    ------
    ValueError
        Where shapes, the mode and the arguments do not fit.

    >>> gb.nn.functional.interpolate(gb.tensor([[[1.0, 3.0]]]), 4, mode="linear")
    tensor([[[1. , 1.5, 2.5, 3. ]]])
    """
    axes = input.ndim - 2
    check_mode("interpolate", mode, align_corners)
    if not 1 <= axes <= 3 or _AXES.get(mode, axes) != axes:
        raise ValueError(f"[interpolate] mode {mode!r} of shape {input.shape}: the number of axes does not fit")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f"[interpolate] antialias is for 'bilinear' and 'bicubic', not for {mode!r}")
    if axes == 2 and mode != "bicubic" and not antialias:
        return _core.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor)
    lengths, scales = _targets(input, size, scale_factor, axes, bool(recompute_scale_factor))
    if mode == "area":
        return (adaptive_avg_pool1d if axes == 1 else adaptive_avg_pool3d)(input, lengths)
    x = input
    for number, (length, scale) in enumerate(zip(lengths, scales, strict=True)):
        x = _resized(x, 2 + number, length, scale, mode, bool(align_corners), antialias)
    return clone(input) if x is input else x


def _targets(
    x: Tensor, size: Any, scale_factor: Any, axes: int, recompute: bool
) -> tuple[list[int], list[float | None]]:
    if (size is None) == (scale_factor is None):
        raise ValueError("[interpolate] either size or scale_factor is wanted")
    given = scale_factor if size is None else size
    values = list(given) if isinstance(given, (tuple, list)) else [given] * axes
    if len(values) != axes:
        raise ValueError(f"[interpolate] {len(values)} numbers for {axes} axes")
    if size is not None:
        if recompute:
            raise ValueError("[interpolate] recompute_scale_factor is for scale_factor, not for size")
        lengths, scales = [int(n) for n in values], [None] * axes
    else:
        lengths = [math.floor(n * float(f)) for n, f in zip(x.shape[2:], values, strict=True)]
        scales = [None if recompute else float(f) for f in values]  # type: ignore[misc]
    if min(lengths) < 1 or min(x.shape[2:]) < 1:
        raise ValueError(f"[interpolate] shape {x.shape} cannot have the lengths {tuple(lengths)}")
    return lengths, list(scales)


def _resized(
    x: Tensor, axis: int, length: int, scale: float | None, mode: str, align_corners: bool, antialias: bool
) -> Tensor:
    """One axis: rows are picked, or weighted sums of rows."""
    now = x.shape[axis]
    step = now / length if scale is None or scale <= 0 else 1 / scale  # of the input, for one of the output
    if mode.startswith("nearest"):
        shift = 0.5 if mode == "nearest-exact" else 0.0
        rows = np.floor((np.arange(length, dtype=np.float32) + np.float32(shift)) * np.float32(step))
        picked = _core.tensor(np.minimum(rows, now - 1).astype("int32"), device=x.device)
        return _core.take(x, picked, axis=axis)
    if now == length and (align_corners or scale is None or scale == 1):
        return x
    if align_corners:
        step = (now - 1) / (length - 1) if length > 1 else 0.0
    weights = _filter(now, length, step, mode == "bicubic", align_corners, antialias)
    wide = _core.float64 if x.dtype == _core.float64 else _core.float32
    matrix = _core.tensor(weights, dtype=wide, device=x.device)  # [length, now]
    y = _core.matmul(_core.moveaxis(x.astype(wide), axis, -1), matrix.T)
    return _core.moveaxis(y, -1, axis).astype(x.dtype)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """The cubic convolution kernel (Keys 1981)."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _filter(now: int, length: int, step: float, cubic: bool, align_corners: bool, antialias: bool) -> np.ndarray:
    """Weights [length, now] of the rows of an axis."""
    outputs = np.arange(length, dtype=np.float64)
    weights = np.zeros((length, now))
    if antialias:  # each filter as wide as `step` rows
        wide = max(step, 1.0)
        reach = (2.0 if cubic else 1.0) * wide
        centers = step * (outputs + 0.5)  # also with aligned corners, as PyTorch
        for row, center in enumerate(centers):
            low, high = max(int(center - reach + 0.5), 0), min(int(center + reach + 0.5), now)
            distance = (np.arange(low, high) - center + 0.5) / wide
            part = _cubic(distance, -0.5) if cubic else np.maximum(0.0, 1.0 - np.abs(distance))
            weights[row, low:high] = part / part.sum()
        return weights
    places = outputs * step if align_corners else (outputs + 0.5) * step - 0.5
    if not cubic:
        places = np.maximum(places, 0.0)
    first = np.floor(places)
    for offset in range(-1, 3) if cubic else range(2):
        distance = places - (first + offset)
        part = _cubic(distance, -0.75) if cubic else 1.0 - np.abs(distance)
        rows = np.clip(first + offset, 0, now - 1).astype(int)
        np.add.at(weights, (np.arange(length), rows), part)
    return weights


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The positions of `grid_sample` for affine maps: theta [N, 2, 3] or [N, 3, 4], size [N, C, (D,) H, W].

    >>> gb.nn.functional.affine_grid(gb.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2)).shape
    (1, 1, 2, 2)
    """
    axes = len(size) - 2
    if axes not in (2, 3) or theta.shape != (size[0], axes, axes + 1):
        raise ValueError(f"[affine_grid] theta {theta.shape} for the size {tuple(size)}")
    lines = []
    for length in size[2:]:
        line = np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
        lines.append(line if align_corners else line * (length - 1) / length)
    grids = np.meshgrid(*lines, indexing="ij")[::-1]  # x first
    points = np.stack([*grids, np.ones_like(grids[0])], -1).reshape(-1, axes + 1)
    base = _core.tensor(points, dtype=theta.dtype, device=theta.device)
    return _core.matmul(base, _core.matrix_transpose(theta)).reshape(size[0], *size[2:], axes)


def _unnormalized(place: Tensor, length: int, align_corners: bool) -> Tensor:
    if align_corners:
        return (place + 1) * ((length - 1) / 2)
    return ((place + 1) * length - 1) / 2


def _reflected(place: Tensor, low: float, high: float) -> Tensor:
    """Mirrored at both ends until it is within them."""
    span = high - low
    if span == 0:
        return place * 0
    distance = _core.abs(place - low)
    flips = _core.floor(distance / span)
    rest = distance - flips.detach() * span
    odd = flips.detach() - 2 * _core.floor(flips.detach() / 2) > 0.5
    return _core.where(odd, high - rest, low + rest)


def _placed(place: Tensor, length: int, padding_mode: str, align_corners: bool) -> Tensor:
    if padding_mode == "reflection":
        low, high = (0.0, length - 1.0) if align_corners else (-0.5, length - 0.5)
        place = _reflected(place, low, high)
    return place if padding_mode == "zeros" else _core.clip(place, 0, length - 1)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Values of images at positions, interpolated.

    Parameters
    ----------
    input : Tensor
        [N, C, H, W] or [N, C, D, H, W].
    grid : Tensor
        [N, H', W', 2] or [N, D', H', W', 3]: positions (x, y) or (x, y, z), from -1 to 1.
    mode : str
        ``"bilinear"``, ``"nearest"`` or, of two axes, ``"bicubic"``.
    padding_mode : str
        Outside: ``"zeros"``, ``"border"`` or ``"reflection"``.
    align_corners : bool, optional
        Whether -1 and 1 are the centers of the corner elements, not their edges.

    >>> image = gb.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> gb.nn.functional.grid_sample(image, gb.zeros((1, 1, 1, 2)), align_corners=False)
    tensor([[[[2.5]]]])
    """
    axes = input.ndim - 2
    if axes not in (2, 3) or grid.ndim != input.ndim or grid.shape[0] != input.shape[0] or grid.shape[-1] != axes:
        raise ValueError(f"[grid_sample] the grid {grid.shape} does not fit the input {input.shape}")
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and axes == 3):
        raise ValueError(f"[grid_sample] mode is 'bilinear', 'nearest' or, of two axes, 'bicubic', not {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"[grid_sample] padding_mode is 'zeros', 'border' or 'reflection', not {padding_mode!r}")
    corners, lengths = bool(align_corners), input.shape[2:]
    if 0 in lengths:
        raise ValueError(f"[grid_sample] shape {input.shape} has no elements")
    places = [_unnormalized(grid[..., axes - 1 - axis], lengths[axis], corners) for axis in range(axes)]
    if mode != "bicubic":
        places = [_placed(p, n, padding_mode, corners) for p, n in zip(places, lengths, strict=True)]
    taps: list[list[tuple[Tensor, Tensor | None]]] = []  # of each axis: (row, weight)
    for place in places:
        if mode == "nearest":
            taps.append([(_core.round(place.detach()), None)])
            continue
        first = _core.floor(place.detach())
        offset = place - first
        if mode == "bilinear":
            taps.append([(first, 1 - offset), (first + 1, offset)])
        else:
            taps.append([(first + i, _cubic_weight(offset - i, abs(i - 0.5) > 1)) for i in range(-1, 3)])
    total: Tensor | None = None
    for chosen in _products(taps):
        value = _values_at(input, [row for row, _ in chosen], padding_mode, corners)
        for _, weight in chosen:
            if weight is not None:
                value = value * _core.expand_dims(weight, 1)
        total = value if total is None else total + value
    assert total is not None
    return total


def _cubic_weight(distance: Tensor, is_far: bool) -> Tensor:
    a, d = -0.75, _core.abs(distance)
    if is_far:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return ((a + 2) * d - (a + 3)) * d * d + 1


def _products(taps: list[list[Any]]) -> list[list[Any]]:
    chosen: list[list[Any]] = [[]]
    for axis in taps:
        chosen = [[*before, tap] for before in chosen for tap in axis]
    return chosen


def _values_at(x: Tensor, rows: list[Tensor], padding_mode: str, align_corners: bool) -> Tensor:
    """x [N, C, ...] at whole positions [N, ...] of each axis: [N, C, ...]; outside by the mode."""
    batch, channels, lengths = x.shape[0], x.shape[1], x.shape[2:]
    inside: Tensor | None = None
    flat: Any = 0
    for row, length in zip(rows, lengths, strict=True):
        if padding_mode == "zeros":
            within = _core.logical_and(row >= 0, row <= length - 1)
            inside = within if inside is None else _core.logical_and(inside, within)
        else:
            row = _placed(row, length, padding_mode, align_corners)
        flat = flat * length + _core.clip(row, 0, length - 1).astype(_core.int32)
    places = flat.reshape(batch, 1, -1)
    picked = _core.take_along_axis(
        x.reshape(batch, channels, -1), _core.broadcast_to(places, (batch, channels, places.shape[-1])), -1
    ).reshape(batch, channels, *rows[0].shape[1:])
    return picked if inside is None else _core.where(_core.expand_dims(inside, 1), picked, 0.0)
