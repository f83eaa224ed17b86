"""Layers of torch.nn.modules.normalization."""

from ..._core import (
    GroupNorm,
    LayerNorm,
    RMSNorm,
)

__all__ = [
    "GroupNorm",
    "LayerNorm",
    "RMSNorm",
]
