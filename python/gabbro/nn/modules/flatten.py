"""Layers of torch.nn.modules.flatten."""

from ..._core import (
    Flatten,
)
from ..activations import (
    Unflatten,
)

__all__ = [
    "Flatten",
    "Unflatten",
]
