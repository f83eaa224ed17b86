"""Transposed convolutions of one and three axes."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Module, Parameter, Tensor
from . import init
from .padding import pad


def _numbers(op: str, name: str, value: Any, count: int) -> list[int]:
    given = [value] * count if isinstance(value, int) else list(value)
    if len(given) == 1:
        given *= count
    if len(given) != count:
        raise ValueError(f"[{op}] {name} has {len(given)} numbers: {count} are wanted")
    return [int(number) for number in given]


def _batched(op: str, x: Tensor, count: int) -> Tensor:
    if x.ndim not in (count + 1, count + 2):
        raise ValueError(f"[{op}] of {count + 1} or {count + 2} axes, not of shape {x.shape}")
    return x if x.ndim == count + 2 else _core.expand_dims(x, 0)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of `conv1d`: [N, C, L], and the weight [C, out / groups, kernel]."""
    op = "conv_transpose1d"
    batch = _batched(op, input, 1)
    names = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
    one = {name: _numbers(op, name, value, 1)[0] for name, value in names.items()}
    y = _core.conv_transpose2d(
        _core.expand_dims(batch, 2),
        _core.expand_dims(weight, 2),
        bias,
        (1, one["stride"]),
        (0, one["padding"]),
        (0, one["output_padding"]),
        groups,
        (1, one["dilation"]),
    )
    y = _core.squeeze(y, 2)
    return y if input.ndim == 3 else y[0]


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of `conv3d`: [N, C, D, H, W], and the weight [C, out / groups, kernel...].

    It is a convolution of the input, with zeros between its elements, by the flipped weight.
    """
    op = "conv_transpose3d"
    x = _batched(op, input, 3)
    if weight.ndim != 5 or weight.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise ValueError(f"[{op}] weight {weight.shape} in {groups} groups does not fit the input {input.shape}")
    steps, before, extra, dilations = (
        _numbers(op, name, value, 3)
        for name, value in (
            ("stride", stride),
            ("padding", padding),
            ("output_padding", output_padding),
            ("dilation", dilation),
        )
    )
    widths: list[int] = []
    for axis in (2, 1, 0):
        if extra[axis] >= max(steps[axis], dilations[axis]):
            raise ValueError(f"[{op}] output_padding {extra[axis]} is not smaller than stride or dilation")
        reach = dilations[axis] * (weight.shape[2 + axis] - 1) - before[axis]
        widths += [reach, reach + extra[axis]]
        x = _spread(x, 2 + axis, steps[axis])
    channels, out = weight.shape[0], weight.shape[1]
    kernel = weight.reshape(groups, channels // groups, out, *weight.shape[2:])
    kernel = _core.flip(_core.swapaxes(kernel, 1, 2), (3, 4, 5))
    kernel = kernel.reshape(groups * out, channels // groups, *weight.shape[2:])
    y = _core.conv3d(pad(x, widths), kernel, bias, 1, 0, dilations, groups)
    return y if input.ndim == 5 else y[0]


def _spread(x: Tensor, axis: int, step: int) -> Tensor:
    """x with step - 1 zeros between two neighbors of an axis."""
    length = x.shape[axis]
    if step == 1:
        return x
    wide = _core.expand_dims(x, axis + 1)
    widths = [(0, 0)] * wide.ndim
    widths[axis + 1] = (0, step - 1)
    flat = _core.pad(wide, widths).reshape(*x.shape[:axis], length * step, *x.shape[axis + 1 :])
    return flat[(slice(None),) * axis + (slice(0, (length - 1) * step + 1),)]


class _ConvTranspose(Module):
    bias: Any
    _axes = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if padding_mode != "zeros":
            raise ValueError(f"[{name}] padding_mode is 'zeros', not {padding_mode!r}")
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"[{name}] {groups} groups for {in_channels} and {out_channels} channels")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.padding_mode = padding_mode
        given = {
            "kernel_size": kernel_size,
            "stride": stride,
            "padding": padding,
            "output_padding": output_padding,
            "dilation": dilation,
        }
        for key, value in given.items():
            setattr(self, key, tuple(_numbers(name, key, value, self._axes)))
        kernel: tuple[int, ...] = tuple(_numbers(name, "kernel_size", kernel_size, self._axes))
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = Parameter(_core.zeros((in_channels, out_channels // groups, *kernel), **options))
        self.bias = Parameter(_core.zeros(out_channels, **options)) if bias else None
        bound = 1 / math.sqrt(out_channels // groups * math.prod(kernel))
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """The larger tensor."""
        if self.padding_mode != "zeros":
            raise ValueError(f"[{type(self).__name__}] padding_mode is 'zeros', not {self.padding_mode!r}")
        function = conv_transpose1d if self._axes == 1 else conv_transpose3d
        options: Any = (self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        return function(input, self.weight, self.bias, *options)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"


class ConvTranspose1d(_ConvTranspose):
    """The transpose of a convolution: [N, in_channels, L] to [N, out_channels, L'].

    >>> gb.nn.ConvTranspose1d(2, 3, 4, stride=2)(gb.ones((1, 2, 5))).shape
    (1, 3, 12)
    """


class ConvTranspose3d(_ConvTranspose):
    """The transpose of a convolution: [N, in_channels, D, H, W] to [N, out_channels, D', H', W'].

    >>> gb.nn.ConvTranspose3d(2, 3, 2, stride=2)(gb.ones((1, 2, 2, 3, 1))).shape
    (1, 3, 4, 6, 2)
    """

    _axes = 3
