"""Layers of torch.nn.modules.conv."""

from ..._core import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose2d,
)
from ..more_layers import (
    ConvTranspose1d,
)

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
]
