"""Layers of torch.nn.modules.distance."""

from ..activations import (
    CosineSimilarity,
    PairwiseDistance,
)

__all__ = [
    "CosineSimilarity",
    "PairwiseDistance",
]
