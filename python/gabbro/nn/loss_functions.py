"""Loss functions, with torch.nn.functional's arguments in its order."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Tensor


def reduction_of(op: str, size_average: Any, reduce: Any, reduction: str) -> str:
    """The reduction; PyTorch's two older arguments are refused."""
    for name, value in (("size_average", size_average), ("reduce", reduce)):
        if value is not None:
            raise ValueError(f"[{op}] {name} is deprecated in PyTorch and not supported here: reduction={reduction!r}")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"[{op}] reduction is 'none', 'mean' or 'sum', not {reduction!r}")
    return reduction


def reduced(x: Tensor, reduction: str) -> Tensor:
    """The mean, the sum or the elements."""
    return x if reduction == "none" else _core.mean(x) if reduction == "mean" else _core.sum(x)


def weighted(x: Tensor, weight: Tensor | None, reduction: str, by_weight: bool = False) -> Tensor:
    """As `reduced`, of elements times weights; `by_weight`: the mean is by the sum of the weights."""
    if weight is None:
        return reduced(x, reduction)
    y = x * weight
    if by_weight and reduction == "mean":
        return _core.sum(y) / _core.sum(_core.broadcast_to(weight, y.shape))
    return reduced(y, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target)²; with weights the mean is by their sum.

    >>> gb.nn.functional.mse_loss(gb.tensor([1.0, 3.0]), gb.tensor([1.0, 1.0]))
    tensor(2.)
    """
    chosen = reduction_of("mse_loss", size_average, reduce, reduction)
    if weight is None:
        return _core.mse_loss(input, target, reduction=chosen)
    return weighted(_core.mse_loss(input, target, reduction="none"), weight, chosen, True)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The magnitude of input - target; with weights the mean is by their sum."""
    chosen = reduction_of("l1_loss", size_average, reduce, reduction)
    if weight is None:
        return _core.l1_loss(input, target, reduction=chosen)
    return weighted(_core.l1_loss(input, target, reduction="none"), weight, chosen, True)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d² / (2 · beta) where the difference d is smaller than beta, else its magnitude - beta / 2 (Girshick 2015)."""
    return _core._smooth_l1_loss(input, target, reduction_of("smooth_l1_loss", size_average, reduce, reduction), beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d² / 2 where the difference d is within delta, else delta · (its magnitude - delta / 2) (Huber 1964)."""
    if weight is None:
        return _core._huber_loss(input, target, reduction, delta)
    return weighted(
        _core._huber_loss(input, target, "none", delta), weight, reduction_of("huber_loss", None, None, reduction), True
    )


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """-target · log(input) - (1 - target) · log(1 - input), times weights."""
    chosen = reduction_of("binary_cross_entropy", size_average, reduce, reduction)
    if weight is None:
        return _core.bce_loss(input, target, reduction=chosen)
    return reduced(_core.bce_loss(input, target, reduction="none") * weight, chosen)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(input), without losing digits.

    Parameters
    ----------
    input, target : Tensor
        Of one shape.
    weight, pos_weight : Tensor, optional
        Of each element, and of the positive ones; they broadcast to the shape of the input.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """
    chosen = reduction_of("binary_cross_entropy_with_logits", size_average, reduce, reduction)
    return _core._bce_with_logits(input, target, weight, chosen, pos_weight)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target · (log(target) - input), where input holds logarithms, and with `log_target` target too."""
    by_batch = reduction == "batchmean"
    chosen = reduction_of("kl_div", size_average, reduce, "sum" if by_batch else reduction)
    if log_target:
        loss = reduced(_core.exp(target) * (target - input), chosen)
    else:
        loss = _core.kl_div(input, target, reduction=chosen)
    return loss / input.shape[0] if by_batch and input.ndim else loss


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[n, target[n]] · weight[target[n]], where input [N, V, ...] holds logarithms and target [N, ...] integers.

    The mean is by the sum of the weights.
    """
    chosen = reduction_of("nll_loss", size_average, reduce, reduction)
    if input.ndim == 1:
        loss = nll_loss(input.reshape(1, -1), target.reshape(1), weight, None, ignore_index, None, chosen)
        return loss.reshape(()) if chosen == "none" else loss
    classes = input.shape[1] if input.ndim > 1 else 0
    rows, labels = input, target
    if input.ndim > 2:
        if target.shape != (input.shape[0], *input.shape[2:]):
            raise ValueError(f"[nll_loss] target of shape {target.shape} for input of shape {input.shape}")
        rows = _core.reshape(_core.moveaxis(input, 1, -1), (-1, classes))
        labels = _core.reshape(target, -1)
    if weight is None:
        loss = _core.nll_loss(rows, labels, ignore_index=ignore_index, reduction=chosen)
        return _core.reshape(loss, target.shape) if chosen == "none" else loss
    if weight.shape != (classes,):
        raise ValueError(f"[nll_loss] weight of shape {weight.shape} for {classes} classes")
    each = _core.nll_loss(rows, labels, ignore_index=ignore_index, reduction="none")
    known = labels != ignore_index
    factors = _core.where(known, _core.take(weight, _core.where(known, labels, 0), axis=0), 0.0)
    each = each * factors
    if chosen == "mean":
        return _core.sum(each) / _core.sum(factors)
    return _core.sum(each) if chosen == "sum" else _core.reshape(each, target.shape)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """`nll_loss` of `log_softmax` of the input.

    Parameters
    ----------
    input : Tensor
        [N, V, ...] or [V], of float32, float16 or bfloat16.
    target : Tensor
        Integers [N, ...] of any dtype, from 0 to V - 1; or probabilities of the shape of the input, in a float dtype.
    weight : Tensor, optional
        [V], of each class; the mean is by their sum.
    ignore_index : int
        Targets of this value count for nothing.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    label_smoothing : float
        What of the target is spread over all classes (Szegedy et al. 2016).

    Raises
    ------
    IndexError
        For a target that is out of range: when the result is computed, on a GPU at the next synchronization.
    ValueError
        Where shapes, dtypes or the reduction do not fit.

    >>> gb.nn.functional.cross_entropy(gb.tensor([[0.0, 0.0]]), gb.tensor([1]))
    tensor(0.6931472)
    """
    chosen = reduction_of("cross_entropy", size_average, reduce, reduction)
    if input.ndim == 1:
        of = target.reshape(1) if target.ndim == 0 else target.reshape(1, -1)
        loss = _core._cross_entropy_loss(input.reshape(1, -1), of, weight, ignore_index, chosen, label_smoothing)
        return loss.reshape(()) if chosen == "none" else loss
    return _core._cross_entropy_loss(input, target, weight, ignore_index, chosen, label_smoothing)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) - target · input; without `log_input` input - target · log(input + eps).

    With `full` Stirling's approximation of log(target!) is added where the target is above 1.
    """
    chosen = reduction_of("poisson_nll_loss", size_average, reduce, reduction)
    loss = _core.exp(input) - target * input if log_input else input - target * _core.log(input + eps)
    if full:
        safe = _core.where(target > 1, target, 1.0)
        term = safe * _core.log(safe) - safe + 0.5 * _core.log(2 * math.pi * safe)
        loss = loss + _core.where(target > 1, term, 0.0)
    return reduced(loss, chosen)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """½ (log(var) + (input - target)² / var), where var is at least eps, which has no part in the gradient."""
    chosen = reduction_of("gaussian_nll_loss", None, None, reduction)
    variance = var if isinstance(var, Tensor) else _core.full(input.shape, var, dtype=input.dtype, device=input.device)
    if variance.shape != input.shape and variance.shape == input.shape[:-1]:
        variance = _core.expand_dims(variance, -1)
    held = variance + (_core.maximum(variance, eps) - variance).detach()
    loss = 0.5 * (_core.log(held) + (input - target) ** 2 / held)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, chosen)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """input where the target is 1, max(0, margin - input) where it is -1; their sum elsewhere, as PyTorch."""
    chosen = reduction_of("hinge_embedding_loss", size_average, reduce, reduction)
    other = _core.where(target != 1, _core.clip(margin - input, 0), 0.0)
    return reduced(_core.where(target != -1, input, 0.0) + other, chosen)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target · (input1 - input2) + margin)."""
    chosen = reduction_of("margin_ranking_loss", size_average, reduce, reduction)
    return reduced(_core.clip(-target * (input1 - input2) + margin, 0), chosen)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + exp(-target · input))."""
    chosen = reduction_of("soft_margin_loss", size_average, reduce, reduction)
    return reduced(_core._softplus(-target * input, 1.0, 1e30), chosen)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of `binary_cross_entropy_with_logits`."""
    chosen = reduction_of("multilabel_soft_margin_loss", size_average, reduce, reduction)
    loss = -(target * _core._log_sigmoid(input) + (1 - target) * _core._log_sigmoid(-input))
    return reduced(_core.mean(loss if weight is None else loss * weight, -1), chosen)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over other classes of max(0, margin - input[target] + input)ᵖ, times the target's weight."""
    chosen = reduction_of("multi_margin_loss", size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"[multi_margin_loss] p is 1 or 2, not {p}")
    rows, labels = (input.reshape(1, -1), target.reshape(1)) if input.ndim == 1 else (input, target)
    index = _core.expand_dims(labels, 1)
    loss = _core.clip(margin - _core.take_along_axis(rows, index, 1) + rows, 0)
    loss = loss * loss if p == 2 else loss
    if weight is not None:
        loss = loss * _core.expand_dims(_core.take(weight, labels, axis=0), 1)
    classes = rows.shape[1]
    other = _core.arange(classes, device=input.device) != index
    each = _core.sum(_core.where(other, loss, 0.0), 1) / classes
    return reduced(each.reshape(()) if input.ndim == 1 and chosen == "none" else each, chosen)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1, for rows."""
    chosen = reduction_of("cosine_embedding_loss", size_average, reduce, reduction)
    dot = _core.sum(input1 * input2, -1)
    squares = (_core.sum(input1 * input1, -1) + 1e-12) * (_core.sum(input2 * input2, -1) + 1e-12)
    cosine = dot / _core.sqrt(squares)
    other = _core.where(target == -1, _core.clip(cosine - margin, 0), 0.0)
    return reduced(_core.where(target == 1, 1 - cosine, 0.0) + other, chosen)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The norm of x1 - x2 + eps along the last axis."""
    from ..functions.reductions import vector_norm

    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, distance to the positive - distance to the negative + margin), for rows (Balntas et al. 2016)."""
    chosen = reduction_of("triplet_margin_loss", size_average, reduce, reduction)
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = _core.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(_core.clip(near - far + margin, 0), chosen)
