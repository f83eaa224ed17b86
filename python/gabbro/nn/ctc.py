"""Connectionist temporal classification (Graves et al. 2006)."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Tensor
from .losses import _Loss


def _counts(op: str, value: Any, device: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.astype(_core.int32)
    return _core.tensor([int(n) for n in (value if hasattr(value, "__iter__") else [value])], device=device).astype(
        _core.int32
    )


def _rows(op: str, targets: Tensor, lengths: Tensor, batch: int) -> Tensor:
    """Targets [N, S], also of those that are joined in one vector, whose lengths are read."""
    if targets.ndim == 2:
        return targets
    counts = [int(n) for n in lengths.tolist()]
    if len(counts) != batch or sum(counts) != targets.shape[0]:
        raise ValueError(f"[{op}] target_lengths {counts} for {targets.shape[0]} labels of {batch} sequences")
    longest, start, rows = max([*counts, 1]), 0, []
    for count in counts:
        rows.append(_core.pad(targets[start : start + count], [(0, longest - count)]))
        start += count
    return _core.stack(rows, 0)


def _log_sum(*terms: Tensor) -> Tensor:
    """log of the sum of exponentials, where terms may be -inf; their gradient is 0."""
    largest = terms[0].detach()
    for term in terms[1:]:
        largest = _core.maximum(largest, term.detach())
    empty = largest == -math.inf
    base = _core.where(empty, 0.0, largest)
    total = _core.exp(terms[0] - base)
    for term in terms[1:]:
        total = total + _core.exp(term - base)
    return _core.where(empty, -math.inf, _core.log(_core.where(empty, 1.0, total)) + base)


def _shifted(x: Tensor, count: int) -> Tensor:
    return _core.pad(x[:, : x.shape[1] - count], [(0, 0), (count, 0)], "constant", -math.inf)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of the labels, summed over all alignments.

    Parameters
    ----------
    log_probs : Tensor
        [T, N, C] or [T, C]: logarithms of probabilities, as `log_softmax` gives them.
    targets : Tensor
        Integers [N, S], or joined in one vector, whose lengths are then read.
    input_lengths, target_lengths : Tensor or sequence of int
        [N]
    blank : int
        The class that stands for no label.
    reduction : str
        ``"mean"`` divides each loss by its target's length first.
    zero_infinity : bool
        Losses of targets that do not fit in their input count as 0.

    >>> probs = gb.full((3, 1, 2), 0.5).log()
    >>> round(gb.nn.functional.ctc_loss(probs, gb.tensor([[1]]), [3], [1], reduction="sum").item(), 4)
    0.2877
    """
    op = "ctc_loss"
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"[{op}] reduction is 'none', 'mean' or 'sum', not {reduction!r}")
    if log_probs.ndim not in (2, 3) or not log_probs.dtype.is_floating_point:
        raise ValueError(f"[{op}] log_probs are floats [T, N, C] or [T, C], not {log_probs.dtype} {log_probs.shape}")
    is_one = log_probs.ndim == 2
    x = _core.expand_dims(log_probs, 1) if is_one else log_probs
    batch, classes = x.shape[1:]
    if not 0 <= blank < classes:
        raise ValueError(f"[{op}] blank is {blank}: from 0 to {classes - 1}")
    labels = targets.reshape(1, -1) if is_one else targets
    times, counts = _counts(op, input_lengths, x.device), _counts(op, target_lengths, x.device)
    times, counts = times.reshape(-1), counts.reshape(-1)
    labels = _rows(op, labels.astype(_core.int32), counts, batch)
    if labels.shape[0] != batch or times.shape[0] != batch or counts.shape[0] != batch:
        raise ValueError(f"[{op}] {batch} sequences with targets {labels.shape} and {times.shape[0]} lengths")
    losses = -_likelihood(x, labels, times, counts, blank)
    if zero_infinity:
        losses = _core.where(losses == math.inf, 0.0, losses)
    if reduction == "none":
        return losses[0] if is_one else losses
    if reduction == "sum":
        return _core.sum(losses)
    return _core.mean(losses / _core.maximum(counts, 1).astype(losses.dtype))


def _likelihood(x: Tensor, labels: Tensor, times: Tensor, counts: Tensor, blank: int) -> Tensor:
    """log of the probabilities [N], by the forward variables of the labels with blanks between them, [N, 2 S + 1]."""
    steps, batch, _ = x.shape
    width = 2 * labels.shape[1] + 1
    blanks = _core.full((batch, labels.shape[1], 1), blank, dtype=_core.int32, device=x.device)
    pairs = _core.concat([blanks, _core.expand_dims(labels, 2)], 2).reshape(batch, width - 1)
    path = _core.concat([pairs, blanks[:, :1, 0] if width > 1 else _core.full((batch, 1), blank, dtype=_core.int32)], 1)
    path = _core.clip(path, 0, x.shape[2] - 1)
    # A label may follow another one without a blank.
    before = _core.pad(path[:, : max(width - 2, 0)], [(0, 0), (min(2, width), 0)], "constant", blank)[:, :width]
    may_skip = _core.logical_and(path != blank, path != before)
    index = _core.broadcast_to(_core.expand_dims(path, 0), (steps, batch, width))
    scores = _core.take_along_axis(x, index, 2)
    places = _core.arange(width, dtype=_core.int32, device=x.device).reshape(1, -1)
    alpha = _core.where(places < 2, scores[0], -math.inf)
    for step in range(1, steps):
        skipped = _core.where(may_skip, _shifted(alpha, 2) if width > 2 else -math.inf, -math.inf)
        following = _log_sum(alpha, _shifted(alpha, 1), skipped) + scores[step]
        alpha = _core.where(_core.expand_dims(times > step, 1), following, alpha)
    ends = _core.expand_dims(2 * counts, 1)
    last = _core.where(_core.logical_or(places == ends, places == ends - 1), alpha, -math.inf)
    largest = _core.max(last.detach(), 1, True)
    empty = largest == -math.inf
    base = _core.where(empty, 0.0, largest)
    total = _core.sum(_core.exp(last - base), 1, True)
    likelihood = _core.squeeze(_core.where(empty, -math.inf, _core.log(_core.where(empty, 1.0, total)) + base), 1)
    # PyTorch's gradient assumes that the logarithms are of a softmax: it has exp(log_probs) in addition.
    valid = _core.arange(steps, dtype=_core.int32, device=x.device).reshape(-1, 1) < times.reshape(1, -1)
    mass = _core.sum(_core.sum(_core.exp(x), 2) * valid.astype(x.dtype), 0)
    is_finite = likelihood.detach() > -math.inf
    return likelihood - _core.where(is_finite, mass - mass.detach(), 0.0)


class CTCLoss(_Loss):
    """`functional.ctc_loss`.

    >>> loss = gb.nn.CTCLoss(reduction="sum")
    >>> round(loss(gb.full((3, 1, 2), 0.5).log(), gb.tensor([[1]]), gb.tensor([3]), gb.tensor([1])).item(), 4)
    0.2877
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        """One number; for each sequence with ``reduction="none"``."""
        return ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
