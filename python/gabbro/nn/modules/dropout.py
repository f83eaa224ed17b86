"""Layers of torch.nn.modules.dropout."""

from ..activations import (
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
)

__all__ = [
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
]
