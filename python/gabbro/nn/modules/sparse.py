"""Layers of torch.nn.modules.sparse."""

from ..._core import (
    Embedding,
)
from ..more_layers import (
    EmbeddingBag,
)

__all__ = [
    "Embedding",
    "EmbeddingBag",
]
