"""Layers of torch.nn.modules.transformer."""

from ..._core import (
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from ..containers import (
    TransformerDecoder,
    TransformerEncoder,
)
from ..more_layers import (
    Transformer,
)

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]
