"""Sequences of different lengths in one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ..._core import Tensor

__all__ = ["pad_sequence", "unpad_sequence"]


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences [T, ...] in one tensor [T, B, ...], or [B, T, ...] with `batch_first`; shorter ones are filled.

    >>> gb.nn.utils.rnn.pad_sequence([gb.ones(2), gb.ones(1)], batch_first=True)
    tensor([[1., 1.],
            [1., 0.]])
    """
    if padding_side not in ("left", "right"):
        raise ValueError(f"[pad_sequence] padding_side is 'left' or 'right', not {padding_side!r}")
    listed = list(sequences)
    if not listed:
        raise ValueError("[pad_sequence] there are no sequences")
    longest = max(x.shape[0] for x in listed)
    rest = [(0, 0)] * (listed[0].ndim - 1)
    padded = []
    for x in listed:
        missing = longest - x.shape[0]
        ends: Any = (missing, 0) if padding_side == "left" else (0, missing)
        padded.append(_core.pad(x, [ends, *rest], "constant", padding_value) if missing else x)
    return _core.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor, by their lengths."""
    rows = padded_sequences if batch_first else _core.swapaxes(padded_sequences, 0, 1)
    return [row[: int(length)] for row, length in zip(rows, lengths, strict=True)]
