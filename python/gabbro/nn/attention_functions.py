"""Attention, embeddings and one-hot vectors with torch.nn.functional's arguments."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query · keyᵀ · scale + mask) · value, for [..., heads, T, D].

    Parameters
    ----------
    query, key, value : Tensor
        [..., H, T, D], [..., H, S, D], [..., H, S, E].
    attn_mask : Tensor, optional
        Bool (True takes part), or numbers that are added to the scores.
    dropout_p : float
        Of the probabilities; also outside of training, as in PyTorch.
    is_causal : bool
        Queries see keys up to their own position.
    scale : float, optional
        Without it 1 / sqrt(D).
    enable_gqa : bool
        `key` and `value` may have fewer heads, each for several heads of the query.

    Raises
    ------
    ValueError
        For shapes that do not fit, and for a mask with `is_causal`.
    """
    if attn_mask is not None and is_causal:
        raise ValueError("[scaled_dot_product_attention] attn_mask and is_causal exclude each other")
    if enable_gqa:
        heads, shared = query.shape[-3], key.shape[-3]
        if heads % shared or value.shape[-3] != shared:
            raise ValueError(f"[scaled_dot_product_attention] {shared} heads of keys for {heads} heads of queries")
        key = _core.repeat(key, heads // shared, -3)
        value = _core.repeat(value, heads // shared, -3)
    if dropout_p == 0:
        return _core.scaled_dot_product_attention(query, key, value, attn_mask, is_causal=is_causal, scale=scale)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = _core.matmul(query, _core.matrix_transpose(key)) * factor
    if is_causal:
        rows, columns = scores.shape[-2:]
        attn_mask = _core.tri(rows, columns, dtype=_core.bool_, device=query.device)
    if attn_mask is not None:
        allowed = attn_mask.dtype == _core.bool_
        scores = _core.where(attn_mask, scores, -math.inf) if allowed else scores + attn_mask
    return _core.matmul(_core._dropout(_core.softmax(scores, -1), dropout_p, True, False), value)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table [V, C], by number: integers [...] to [..., C].

    Parameters
    ----------
    input : Tensor
        Integers.
    weight : Tensor
        [V, C].
    padding_idx : int, optional
        This row gets no gradient.
    max_norm, scale_grad_by_freq, sparse
        Not supported: raise ValueError.

    >>> gb.nn.functional.embedding(gb.tensor([[1]]), gb.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[[3., 4.]]])
    """
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise ValueError("[embedding] max_norm, scale_grad_by_freq and sparse are not supported")
    rows = _core._rows(weight, input)
    if padding_idx is None:
        return rows
    if not -len(weight) <= padding_idx < len(weight):
        raise ValueError(f"[embedding] padding_idx {padding_idx} is out of range for {len(weight)} rows")
    is_padding = _core.expand_dims(input == padding_idx % len(weight), -1)
    return _core.where(is_padding, rows.detach(), rows)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Integers [...] as int64 [..., num_classes]: 1 at the position of the number, else 0.

    Without a count the largest number decides, which evaluates the tensor. A number outside 0 .. num_classes - 1 raises
    IndexError, as a target of `cross_entropy`.

    >>> gb.nn.functional.one_hot(gb.tensor([1, 0]), 2)
    tensor([[0, 1],
            [1, 0]])
    """
    if num_classes == -1:
        if tensor.shape and 0 in tensor.shape:
            raise ValueError(f"[one_hot] a tensor of shape {tensor.shape} needs num_classes")
        if int(_core.min(tensor)) < 0:
            raise ValueError("[one_hot] the integers may not be negative")
        num_classes = int(_core.max(tensor)) + 1
    return _core._one_hot(tensor, num_classes).astype(_core.int64)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    mode: str = "mean",
    *,
    per_sample_weights: Tensor | None = None,
    **rest: Any,
) -> Tensor:
    """Sums, means or maxima of rows of a table: integers [B, N] to [B, C]. `offsets` are not supported."""
    if offsets is not None or rest or input.ndim != 2:
        raise ValueError("[embedding_bag] of integers [B, N]: offsets and other arguments are not supported")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"[embedding_bag] mode is 'sum', 'mean' or 'max', not {mode!r}")
    rows = _core._rows(weight, input)
    if per_sample_weights is not None:
        if mode != "sum":
            raise ValueError("[embedding_bag] per_sample_weights are for mode 'sum'")
        rows = rows * _core.expand_dims(per_sample_weights, -1)
    if mode == "sum":
        return _core.sum(rows, 1)
    return _core.mean(rows, 1) if mode == "mean" else _core.max(rows, 1)
