"""Layers of torch.nn.modules.dropout."""

from ..._core import (
    Dropout,
    Dropout2d,
)
from ..activations import (
    Dropout1d,
    Dropout3d,
)

__all__ = [
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
]
