"""Derivatives at kinks: where rounding moves x to the other side of 0, relu'(x) is 0 in place of 1, and both are right.

One such element changes a gradient by far more than rounding errors do, on a device as on the CPU. So where a limit is
exceeded, the derivative is taken at the oracle's x, if the run's own x is as near to it as rounding allows
(choices.py). Values stay the run's own, and a kernel whose derivative is wrong stays wrong.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

F = nn.functional
# Functions of one tensor whose derivative jumps; the largest of a window is a choice of the same kind.
BENT = {F.relu, F.relu6, F.leaky_relu, F.prelu, F.hardtanh, F.hardswish, F.hardsigmoid, F.threshold, F.rrelu}
BENT |= {torch.relu, torch.clamp, torch.clamp_min, torch.clamp_max, torch.clip, torch.abs, torch.prelu}
BENT |= {torch.Tensor.relu, torch.Tensor.clamp, torch.Tensor.clamp_min, torch.Tensor.clamp_max, torch.Tensor.clip}
BENT |= {torch.Tensor.abs, torch.Tensor.prelu, torch.max_pool1d, torch.max_pool2d, torch.max_pool3d}


class Instead(torch.autograd.Function):
    """Another value in place of x; the gradient goes to x."""

    @staticmethod
    def forward(ctx: Any, x: Any, value: Any) -> Any:  # type: ignore[override,unused-ignore]
        ctx.dtype = x.dtype
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override,unused-ignore]
        return gradient.to(ctx.dtype), None


def is_bent(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether this is a call of a function with a kink whose derivative will be taken."""
    given = args[0] if args else None
    if func not in BENT or not isinstance(given, torch.Tensor):
        return False
    return given.requires_grad and given.is_floating_point() and torch.is_grad_enabled()


def near(x: torch.Tensor, point: torch.Tensor, allowed: float) -> torch.Tensor:
    """The elements of `point` that are at most `allowed` from x, in x's data type and never rounded to 0; else x."""
    moved = point.to(device=x.device, dtype=x.dtype)
    smallest = point.sign().to(moved) * torch.finfo(x.dtype).tiny
    moved = torch.where((moved == 0) & (smallest != 0), smallest, moved)
    return torch.where((x.double() - point.to(x.device)).abs() <= allowed, moved, x)


def with_slope_at(
    func: Any, point: torch.Tensor, allowed: float, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """func(*args, **options) with the derivative at `point` where it is near the first argument."""
    options = {name: value for name, value in options.items() if name != "inplace"}
    x = args[0].detach()
    with torch.no_grad():
        value = func(x, *args[1:], **options)
    sloped = func(Instead.apply(args[0], near(x, point, allowed)), *args[1:], **options)
    return Instead.apply(sloped, value)
