"""Layers of torch.nn.modules.pixelshuffle."""

from ..padding import (
    PixelShuffle,
    PixelUnshuffle,
)

__all__ = [
    "PixelShuffle",
    "PixelUnshuffle",
]
