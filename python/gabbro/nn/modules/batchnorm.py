"""Layers of torch.nn.modules.batchnorm."""

from ..._core import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
)

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
]
