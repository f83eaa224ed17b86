"""Pools and resizing as layers. Each argument is an attribute that counts from the next call on."""

from __future__ import annotations

from typing import Any

from .._core import Module, Tensor
from . import pools, sampling


class _MaxPool(Module):
    _axes = 1

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The maxima; with `return_indices` also their positions."""
        function = getattr(pools, f"max_pool{self._axes}d")
        return function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window: with the arguments of `functional.max_pool1d`.

    >>> gb.nn.MaxPool1d(2)(gb.ones((1, 1, 4))).shape
    (1, 1, 2)
    """


class MaxPool2d(_MaxPool):
    """The largest element of each window: with the arguments of `functional.max_pool2d`.

    >>> gb.nn.MaxPool2d(3, ceil_mode=True)(gb.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    _axes = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window: with the arguments of `functional.max_pool3d`.

    >>> gb.nn.MaxPool3d(2)(gb.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 2, 2, 2)
    """

    _axes = 3


class AvgPool1d(Module):
    """The mean of each window: with the arguments of `functional.avg_pool1d`.

    >>> gb.nn.AvgPool1d(2)(gb.ones((1, 1, 4))).shape
    (1, 1, 2)
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        one = [(n,) if isinstance(n, int) else tuple(n) for n in (kernel_size, padding)]
        self.kernel_size, self.padding = one
        self.stride = self.kernel_size if stride is None else (stride,) if isinstance(stride, int) else tuple(stride)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        return pools.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    _axes = 2

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        function = pools.avg_pool2d if self._axes == 2 else pools.avg_pool3d
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """The mean of each window: with the arguments of `functional.avg_pool2d`.

    >>> gb.nn.AvgPool2d(2)(gb.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """


class AvgPool3d(_AvgPool):
    """The mean of each window: with the arguments of `functional.avg_pool3d`.

    >>> gb.nn.AvgPool3d(2)(gb.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 2, 2, 2)
    """

    _axes = 3


class Upsample(Module):
    """[N, C, ...] with other lengths: with the arguments of `functional.interpolate`.

    >>> gb.nn.Upsample(scale_factor=2)(gb.ones((1, 1, 2, 3))).shape
    (1, 1, 4, 6)
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        if (size is None) == (scale_factor is None):
            raise ValueError("[Upsample] either size or scale_factor is wanted")
        sampling.check_mode("Upsample", mode, align_corners)
        several = isinstance(scale_factor, (tuple, list))
        factors = tuple(float(f) for f in scale_factor) if several else scale_factor and float(scale_factor)
        self.size, self.scale_factor, self.mode = size, factors, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The resized tensor."""
        return sampling.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        """The settings."""
        lengths = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{lengths}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` with mode nearest.

    >>> gb.nn.UpsamplingNearest2d(scale_factor=2)(gb.ones((1, 1, 2, 3))).shape
    (1, 1, 4, 6)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` with mode bilinear and aligned corners.

    >>> gb.nn.UpsamplingBilinear2d(size=3)(gb.ones((1, 1, 2, 2))).shape
    (1, 1, 3, 3)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)
