"""Layers of torch.nn.modules.fold."""

from ..padding import (
    Fold,
    Unfold,
)

__all__ = [
    "Fold",
    "Unfold",
]
