"""Layers of torch.nn.modules.conv."""

from ..._core import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose2d,
)
from ..transposed import ConvTranspose1d, ConvTranspose3d

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]
