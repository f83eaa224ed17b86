"""Layers of torch.nn.modules.module."""

from ..._core import (
    Module,
)

__all__ = [
    "Module",
]
