"""Attention as kernels compute its gradient: they do not keep the probabilities, but compute them again from scores.

A score of some thousands is rounded by some ten-thousandths, and exp() makes a relative error of that: a saturated softmax
has exact probabilities in eager attention, and in such kernels not. It is rounding, and how much of it a right kernel has
is measured with the definition here (arxiv.org/abs/2205.14135, section 3.1 and algorithm 4).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

Given = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]


def wide(x: torch.Tensor) -> torch.Tensor:
    """In f32, where kernels add; f64 stays."""
    return x if x.dtype == torch.float64 else x.float()


def scores(q: torch.Tensor, k: torch.Tensor, bias: torch.Tensor | None, scale: float) -> torch.Tensor:
    """[..., queries, keys] q k^T scale + bias."""
    products = wide(q) @ wide(k).transpose(-1, -2) * scale
    return products if bias is None else products + wide(bias)


def probabilities(given: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """exp(scores - logarithm of their sum of exponentials); zeros for a query that sees no key."""
    return torch.where(total.isfinite(), (given - total).exp(), given.new_zeros(()))


class Attention(torch.autograd.Function):
    """softmax(q k^T scale + bias) v. What a product takes is rounded to the data type of q, and sums are in f32."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, bias: Any, scale: float) -> Any:  # type: ignore[override,unused-ignore]
        with torch.autocast(q.device.type, enabled=False):
            given = scores(q, k, bias, scale)
            total = given.logsumexp(-1, keepdim=True)
            result = (wide(probabilities(given, total).to(q.dtype)) @ wide(v)).to(q.dtype)
        ctx.save_for_backward(q, k, v, bias, total, result)
        ctx.scale = scale
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override,unused-ignore]
        q, k, v, bias, total, result = ctx.saved_tensors
        with torch.autocast(q.device.type, enabled=False):
            # Another order than forward()'s: kernels have other tiles in both directions.
            order = torch.randperm(q.shape[-1], generator=torch.Generator().manual_seed(0))
            found = probabilities(scores(q[..., order], k[..., order], bias, ctx.scale), total)
            of_v = wide(found.to(q.dtype)).transpose(-1, -2) @ wide(gradient)
            change = wide(gradient) @ wide(v).transpose(-1, -2) - (wide(gradient) * wide(result)).sum(-1, keepdim=True)
            of_scores = wide((found * change).to(q.dtype))
            of_q, of_k = of_scores @ wide(k) * ctx.scale, of_scores.transpose(-1, -2) @ wide(q) * ctx.scale
            of_bias = of_scores.sum_to_size(bias.shape).to(bias.dtype) if ctx.needs_input_grad[3] else None
        return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype), of_bias, None


class Recomputed(TorchFunctionMode):
    """Takes Attention in place of scaled_dot_product_attention(); `used` says whether there was a call."""

    used = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.nn.functional.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
        if given.get("dropout_p"):
            return func(*args, **(kwargs or {}))
        self.used = True
        q, k, v, bias = arguments(given)
        return Attention.apply(q, k, v, bias, given.get("scale") or q.shape[-1] ** -0.5)


def arguments(given: dict[str, Any]) -> Given:
    """Queries, keys, values and what is added to scores, as mixed precision casts them, and with a head for each query's."""
    q, k, v, mask = (given.get(name) for name in ("query", "key", "value", "attn_mask"))
    assert q is not None and k is not None and v is not None
    if torch.is_autocast_enabled(q.device.type) and q.dtype != torch.float64:
        half = torch.get_autocast_dtype(q.device.type)
        q, k, v = q.to(half), k.to(half), v.to(half)
    if given.get("enable_gqa"):
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    if given.get("is_causal"):
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, device=q.device).masked_fill(~mask, -torch.inf)
    return q, k, v, mask
