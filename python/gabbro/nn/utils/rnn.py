"""Sequences of different lengths: padded and packed."""

from .packed import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence, unpack_sequence
from .padded import pad_sequence, unpad_sequence

__all__ = [
    "PackedSequence",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]
