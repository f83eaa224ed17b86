"""Packed sequences: batches of sequences of different lengths without padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import _core
from ..._core import Tensor
from .padded import pad_sequence

__all__ = ["PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "unpack_sequence"]


class PackedSequence(NamedTuple):
    """Sequences, the longest first, step by step: the first elements of all, then the second ones.

    `data` [sum of lengths, ...]; `batch_sizes` int64 [T]: how many sequences have a step; `sorted_indices` and
    `unsorted_indices` int64 [B]: the order of the sequences by their lengths, and the way back; None if they came so.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **options: Any) -> PackedSequence:
        """With the data of another dtype or on another device."""
        return self._replace(data=self.data.to(*args, **options))

    def cpu(self) -> PackedSequence:
        """With the data on the CPU."""
        return self._replace(data=self.data.cpu())

    def cuda(self) -> PackedSequence:
        """With the data on the GPU."""
        return self._replace(data=self.data.cuda())

    def float(self) -> PackedSequence:
        """With data of float32."""
        return self._replace(data=self.data.float())

    def double(self) -> PackedSequence:
        """With data of float64."""
        return self._replace(data=self.data.double())

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return bool(self.data.is_cuda)


def sizes_of(lengths: Sequence[int]) -> list[int]:
    """How many of the sequences, in descending order of their lengths, have each step."""
    return [sum(length > step for length in lengths) for step in range(lengths[0])]


def lengths_of(packed: PackedSequence) -> list[int]:
    """The lengths in descending order."""
    sizes = [int(size) for size in packed.batch_sizes.tolist()]
    return [sum(size > number for size in sizes) for number in range(sizes[0])]


def _packed(steps: Tensor, lengths: Sequence[int]) -> Tensor:
    """The data of padded [T, B, ...], whose sequences are in order."""
    return _core.concat([steps[step, :size] for step, size in enumerate(sizes_of(lengths))], 0)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs padded sequences [T, B, ...], or [B, T, ...] with `batch_first`.

    `lengths`: [B], integers on the CPU, which are read. With `enforce_sorted` they descend; without it they may be in
    any order.

    >>> gb.nn.utils.rnn.pack_padded_sequence(gb.tensor([[1, 2], [3, 0]]), [2, 1]).data
    tensor([1, 2, 3])
    """
    counts = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    steps = _core.swapaxes(input, 0, 1) if batch_first else input
    if len(counts) != steps.shape[1]:
        raise ValueError(f"[pack_padded_sequence] {len(counts)} lengths for {steps.shape[1]} sequences")
    if any(not 0 < n <= steps.shape[0] for n in counts):
        raise ValueError(f"[pack_padded_sequence] lengths {counts} are from 1 to {steps.shape[0]}")
    order = back = None
    if enforce_sorted:
        if sorted(counts, reverse=True) != counts:
            raise ValueError(f"[pack_padded_sequence] the lengths {counts} do not descend: enforce_sorted=False")
    else:
        numbers = sorted(range(len(counts)), key=lambda number: -counts[number])
        order = _core.tensor(numbers, dtype=_core.int64, device=input.device)
        back = _core.argsort(order, 0).astype(_core.int64)
        steps, counts = _core.take(steps, order, axis=1), [counts[number] for number in numbers]
    sizes = _core.tensor(sizes_of(counts), dtype=_core.int64, device="cpu")
    return PackedSequence(_packed(steps, counts), sizes, order, back)


def padded_steps(packed: PackedSequence, value: float = 0.0, total: int | None = None) -> Tensor:
    """[T, B, ...] with the sequences in the order of their lengths."""
    sizes, rows, start = [int(size) for size in packed.batch_sizes.tolist()], [], 0
    rest = [(0, 0)] * (packed.data.ndim - 1)
    for size in sizes:
        row = packed.data[start : start + size]
        rows.append(_core.pad(row, [(0, sizes[0] - size), *rest], "constant", value) if size < sizes[0] else row)
        start += size
    steps = _core.stack(rows, 0)
    if total is None or total == len(sizes):
        return steps
    return _core.pad(steps, [(0, total - len(sizes)), (0, 0), *rest], "constant", value)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded sequences [T, B, ...], or [B, T, ...] with `batch_first`, and their lengths, int64 [B] on the CPU.

    >>> packed = gb.nn.utils.rnn.pack_sequence([gb.ones(2), gb.ones(1)])
    >>> gb.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0]
    tensor([[1., 1.],
            [1., 0.]])
    """
    counts = lengths_of(sequence)
    if total_length is not None and total_length < counts[0]:
        raise ValueError(f"[pad_packed_sequence] total_length {total_length} for a sequence of {counts[0]}")
    steps = padded_steps(sequence, padding_value, total_length)
    lengths = _core.tensor(counts, dtype=_core.int64, device="cpu")
    if sequence.unsorted_indices is not None:
        steps = _core.take(steps, sequence.unsorted_indices, axis=1)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return (_core.swapaxes(steps, 0, 1) if batch_first else steps), lengths


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences [T, ...] of different lengths: arguments as `pack_padded_sequence`.

    >>> gb.nn.utils.rnn.pack_sequence([gb.tensor([1, 2]), gb.tensor([3])]).batch_sizes
    tensor([2, 1])
    """
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed one."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return [row[: int(length)] for row, length in zip(padded, lengths.tolist(), strict=True)]
