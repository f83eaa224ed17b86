"""Padding, windows and rearrangement of pixels, as functions and layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import Module, Tensor
from ..functions.conversions import clone

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "circular"}


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pairs of lengths (before, after), of the last axis first; negative ones cut.

    Parameters
    ----------
    input : Tensor
    pad : sequence of int
        (left, right, top, bottom, ...).
    mode : str
        ``"constant"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
    value : float, optional
        For ``"constant"``; without it 0.

    Raises
    ------
    ValueError
        For an odd count, more pairs than axes, another mode, and lengths that the mode cannot fill.

    >>> gb.nn.functional.pad(gb.tensor([1.0, 2.0]), (1, 0))
    tensor([0., 1., 2.])
    """
    numbers = [int(n) for n in pad]
    if mode not in _MODES:
        raise ValueError(f"[pad] mode is one of {', '.join(map(repr, _MODES))}, not {mode!r}")
    if len(numbers) % 2 or len(numbers) > 2 * input.ndim:
        raise ValueError(
            f"[pad] {len(numbers)} numbers for shape {input.shape}: two for each axis, the last axis first"
        )
    if value is not None and mode != "constant":
        raise ValueError(f"[pad] mode {mode!r} has no value")
    widths = [(0, 0)] * input.ndim
    for number in range(len(numbers) // 2):
        widths[-1 - number] = (numbers[2 * number], numbers[2 * number + 1])
    x = input
    for axis, (before, after) in enumerate(widths):
        length = x.shape[axis]
        if before < 0 or after < 0:
            start, end = max(0, -before), length - max(0, -after)
            if end < start:
                raise ValueError(f"[pad] {before} and {after} leave nothing of axis {axis} of shape {input.shape}")
            x = x[(slice(None),) * axis + (slice(start, end),)]
            widths[axis] = (max(0, before), max(0, after))
    if not any(n for pair in widths for n in pair):
        return clone(x)
    if mode == "circular":
        return _wrapped(x, widths)
    if mode == "reflect" and any(max(pair) >= n for pair, n in zip(widths, x.shape, strict=True) if max(pair)):
        raise ValueError(f"[pad] reflection by {widths} is not smaller than the axes of shape {x.shape}")
    return _core.pad(x, widths, _MODES[mode], 0 if value is None else value)


def _wrapped(x: Tensor, widths: list[tuple[int, int]]) -> Tensor:
    for axis, (before, after) in enumerate(widths):
        length = x.shape[axis]
        if before > length or after > length:
            raise ValueError(f"[pad] circular padding by {before} and {after} is larger than the axis, {length}")
        front: tuple[Any, ...] = (slice(None),) * axis
        last, first = (*front, slice(length - before, length)), (*front, slice(0, after))
        parts = [x[last], x, x[first]]
        if before or after:
            x = _core.concat([part for part in parts if part.shape[axis]], axis)
    return x


class _Pad(Module):
    _mode = "constant"
    _axes = 1

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        given = (padding,) * (2 * self._axes) if isinstance(padding, int) else tuple(padding)
        if len(given) != 2 * self._axes:
            raise ValueError(f"[{type(self).__name__}] {len(given)} numbers: {2 * self._axes} are wanted")
        self.padding = given

    def forward(self, input: Tensor) -> Tensor:
        """The padded tensor."""
        if input.ndim not in (self._axes + 1, self._axes + 2):
            raise ValueError(
                f"[{type(self).__name__}] of {self._axes + 1} or {self._axes + 2} axes, not of shape {input.shape}"
            )
        return pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """The lengths."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """The padded tensor."""
        return pad(input, self.padding, "constant", self.value)


class ConstantPad1d(_ConstantPad):
    """A number at both ends of the last axis."""


class ConstantPad2d(_ConstantPad):
    """A number around the last two axes."""

    _axes = 2


class ConstantPad3d(_ConstantPad):
    """A number around the last three axes."""

    _axes = 3


class ZeroPad1d(_Pad):
    """Zeros at both ends of the last axis."""

    def forward(self, input: Tensor) -> Tensor:
        """The padded tensor."""
        return pad(input, self.padding)


class ZeroPad2d(ZeroPad1d):
    """Zeros around the last two axes."""

    _axes = 2


class ZeroPad3d(ZeroPad1d):
    """Zeros around the last three axes."""

    _axes = 3


class ReflectionPad1d(_Pad):
    """Reflections of the elements, without the edge itself."""

    _mode = "reflect"


class ReflectionPad2d(ReflectionPad1d):
    """Reflections of the elements, without the edge itself."""

    _axes = 2


class ReflectionPad3d(ReflectionPad1d):
    """Reflections of the elements, without the edge itself."""

    _axes = 3


class ReplicationPad1d(_Pad):
    """The element at the edge."""

    _mode = "replicate"


class ReplicationPad2d(ReplicationPad1d):
    """The element at the edge."""

    _axes = 2


class ReplicationPad3d(ReplicationPad1d):
    """The element at the edge."""

    _axes = 3


class CircularPad1d(_Pad):
    """The elements of the other end."""

    _mode = "circular"


class CircularPad2d(CircularPad1d):
    """The elements of the other end."""

    _axes = 2


class CircularPad3d(CircularPad1d):
    """The elements of the other end."""

    _axes = 3


def _pair(op: str, value: int | Sequence[int]) -> tuple[int, int]:
    given = (value, value) if isinstance(value, int) else tuple(value)
    if len(given) != 2:
        raise ValueError(f"[{op}] two numbers are wanted, not {given}")
    return given[0], given[1]


def _joined(lists: list[list[int]]) -> list[int]:
    return [number for one in lists for number in one]


def _starts(op: str, size: tuple[int, ...], kernel: Any, dilation: Any, padding: Any, stride: Any) -> list[Any]:
    """Per axis: the padded length, and the positions of each kernel element in it, [kernel, windows]."""
    result = []
    for length, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True):
        padded = length + 2 * p
        count = (padded - d * (k - 1) - 1) // s + 1
        if count < 1:
            raise ValueError(f"[{op}] a window of {d * (k - 1) + 1} is longer than {padded}")
        result.append((padded, [[i * d + w * s for w in range(count)] for i in range(k)]))
    return result


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of pictures as columns: [N, C, H, W] to [N, C · kernel, windows].

    >>> gb.nn.functional.unfold(gb.ones(1, 1, 3, 3), 2).shape
    (1, 4, 4)
    """
    if input.ndim == 3:
        return unfold(_core.expand_dims(input, 0), kernel_size, dilation, padding, stride)[0]
    if input.ndim != 4:
        raise ValueError(f"[unfold] of [N, C, H, W] or [C, H, W], not of shape {input.shape}")
    kernel, d, p, s = (_pair("unfold", value) for value in (kernel_size, dilation, padding, stride))
    (_, rows), (_, columns) = _starts("unfold", input.shape[2:], kernel, d, p, s)
    x = _core.pad(input, [(0, 0), (0, 0), (p[0], p[0]), (p[1], p[1])]) if any(p) else input
    n, c = input.shape[:2]
    x = _core.take(x, _core.tensor(_joined(rows), device=input.device), axis=2)
    x = _core.take(x, _core.tensor(_joined(columns), device=input.device), axis=3)
    x = _core.reshape(x, (n, c, kernel[0], len(rows[0]), kernel[1], len(columns[0])))
    x = _core.permute_dims(x, (0, 1, 2, 4, 3, 5))
    return _core.reshape(x, (n, c * kernel[0] * kernel[1], len(rows[0]) * len(columns[0])))


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Sums of windows at their places: the transpose of `unfold`.

    >>> gb.nn.functional.fold(gb.ones(1, 4, 4), 3, 2)[0, 0, 1]
    tensor([2., 4., 2.])
    """
    if input.ndim == 2:
        return fold(_core.expand_dims(input, 0), output_size, kernel_size, dilation, padding, stride)[0]
    if input.ndim != 3:
        raise ValueError(f"[fold] of [N, C · kernel, windows], not of shape {input.shape}")
    size, kernel, d, p, s = (_pair("fold", v) for v in (output_size, kernel_size, dilation, padding, stride))
    (height, rows), (width, columns) = _starts("fold", size, kernel, d, p, s)
    n, area, windows = len(input), kernel[0] * kernel[1], len(rows[0]) * len(columns[0])
    if input.shape[1] % area or input.shape[2] != windows:
        raise ValueError(f"[fold] shape {input.shape} has not {windows} windows of {area} elements")
    c = input.shape[1] // area
    x = _core.reshape(input, (n, c, kernel[0], kernel[1], len(rows[0]), len(columns[0])))
    x = _core.permute_dims(x, (0, 1, 2, 4, 3, 5))
    x = _core.reshape(x, (n, c, kernel[0] * len(rows[0]), kernel[1] * len(columns[0])))
    x = _summed_at(x, _joined(rows), height, 2)
    x = _summed_at(x, _joined(columns), width, 3)
    return x[:, :, p[0] : height - p[0], p[1] : width - p[1]]


def _summed_at(x: Tensor, places: list[int], length: int, axis: int) -> Tensor:
    shape = list(x.shape)
    index = _core.reshape(_core.tensor(places, device=x.device), [-1 if a == axis else 1 for a in range(x.ndim)])
    zeros = _core.zeros([length if a == axis else n for a, n in enumerate(shape)], dtype=x.dtype, device=x.device)
    return _core.scatter_add(zeros, _core.broadcast_to(index, shape), x, axis)


class Unfold(Module):
    """The windows of pictures as columns: `functional.unfold`."""

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """The columns."""
        return unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """Sums of windows at their places: `functional.fold`."""

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """The pictures."""
        return fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """[..., C · r², H, W] to [..., C, H · r, W · r] (Shi et al. 2016).

    >>> gb.nn.functional.pixel_shuffle(gb.ones(4, 1, 1), 2).shape
    (1, 2, 2)
    """
    r = upscale_factor
    *front, c, h, w = input.shape
    if input.ndim < 3 or r < 1 or c % (r * r):
        raise ValueError(f"[pixel_shuffle] shape {input.shape} for the factor {r}")
    n = _product(front)
    x = _core.reshape(input, (n * (c // (r * r)), r, r, h, w))
    x = _core.permute_dims(x, (0, 3, 1, 4, 2))
    return +_core.reshape(x, (*front, c // (r * r), h * r, w * r))  # a copy, not a view


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """[..., C, H · r, W · r] to [..., C · r², H, W].

    >>> gb.nn.functional.pixel_unshuffle(gb.ones(1, 2, 2), 2).shape
    (4, 1, 1)
    """
    r = downscale_factor
    *front, c, h, w = input.shape
    if input.ndim < 3 or r < 1 or h % r or w % r:
        raise ValueError(f"[pixel_unshuffle] shape {input.shape} for the factor {r}")
    n = _product(front)
    x = _core.reshape(input, (n * c, h // r, r, w // r, r))
    x = _core.permute_dims(x, (0, 2, 4, 1, 3))
    return +_core.reshape(x, (*front, c * r * r, h // r, w // r))  # a copy, not a view


def _product(lengths: Sequence[int]) -> int:
    result = 1
    for length in lengths:
        result *= length
    return result


class PixelShuffle(Module):
    """`functional.pixel_shuffle`."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The larger pictures."""
        return pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """`functional.pixel_unshuffle`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The smaller pictures."""
        return pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"
