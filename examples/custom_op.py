"""A custom op composed of Gabbro's ops: with its gradient, and fused if the device supports it.

python examples/custom_op.py
"""

from __future__ import annotations

import gabbro as gb
from gabbro import nn


def swiglu(x: gb.Tensor, gate: gb.Tensor) -> gb.Tensor:
    """x · silu(gate), elementwise (Shazeer 2020)."""
    return x * gate * gb.sigmoid(gate)


class FeedForward(nn.Module):
    """[..., width] to [..., width], through a wider layer with a gate."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.scale = nn.Parameter(gb.ones(width))

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        value, gate = gb.split(self.up(x), indices_or_sections=2, axis=-1)
        return x + self.scale * self.down(swiglu(value, gate))


def largest_error(step: float = 1e-2) -> float:
    """How far the gradient is from the difference of two values that are near each other."""
    gb.seed(0)
    x, gate, direction = (gb.randn(5, 7) for _ in range(3))
    slope = (gb.grad(lambda g: swiglu(x, g).sum())(gate) * direction).sum()
    difference = (swiglu(x, gate + direction * step) - swiglu(x, gate - direction * step)).sum() / (2 * step)
    return abs(float(slope) - float(difference))


if __name__ == "__main__":
    print(f"gradient against differences: {largest_error():.1e}")
    model = FeedForward(4, 8)
    model(gb.randn(3, 4)).sum().backward()
    print({name: parameter.grad.shape for name, parameter in model.named_parameters()})
    print(gb.explain(swiglu, gb.randn(2, 3), gb.randn(2, 3)))
