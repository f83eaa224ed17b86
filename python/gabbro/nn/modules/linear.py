"""Layers of torch.nn.modules.linear."""

from ..._core import (
    Bilinear,
    Identity,
    Linear,
)


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name that PyTorch's attention has for its output layer."""


__all__ = [
    "Bilinear",
    "Identity",
    "Linear",
    "NonDynamicallyQuantizableLinear",
]
