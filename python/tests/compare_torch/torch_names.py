"""PyTorch's side of functions that it has under another contract: NumPy's axes, pads, indices and promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as TF
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel


def meet(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The array API standard promotes tensors of shape () as others; PyTorch lets them give way."""
    if a.dtype == b.dtype:
        return a, b
    dtype = torch.promote_types(a.dtype, b.dtype)
    return a.to(dtype), b.to(dtype)


def fraction(a: Tensor) -> Tensor:
    return a if a.dtype.is_floating_point else a.to(torch.get_default_dtype())


def dims(a: Tensor, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(a.ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def over(function: Callable[..., Tensor], a: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return function(a, dim=dims(a, axis), keepdim=keepdims) if a.ndim > 0 else function(a, dim=(), keepdim=keepdims)


def one_by_one(function: Callable[..., Tensor], a: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """A reduction that takes one axis, over several."""
    along = sorted({dim % max(a.ndim, 1) for dim in dims(a, axis)})
    if a.ndim == 0:
        return function(a.reshape(1), 0, keepdim=False)
    if not along:
        return function(a.unsqueeze(0), 0, keepdim=False)
    for dim in along:
        a = function(a, dim, keepdim=True)
    return a if keepdims else a.reshape([n for dim, n in enumerate(a.shape) if dim not in along])


def prod(a: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return one_by_one(torch.prod, a, axis, keepdims)


def argument(function: Callable[..., Tensor], a: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is None and keepdims:
        return function(a).reshape((1,) * a.ndim)
    return function(a, dim=axis, keepdim=keepdims)


def mean(a: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return over(torch.mean, fraction(a), axis, keepdims)


def spread(function: Callable[..., Tensor], a: Tensor, axis: Any, correction: float, keepdims: bool) -> Tensor:
    return function(fraction(a), dim=dims(a, axis) or None, correction=correction, keepdim=keepdims)


def index(a: Tensor, key: Any) -> Tensor:
    """NumPy's a[key]: PyTorch has no negative steps, and takes integers before it looks at tensors and lists."""
    return a.reshape(-1)[places(a, key)]


def setitem(a: Tensor, key: Any, value: Any) -> Tensor:
    at = places(a, key)
    values = value if isinstance(value, Tensor) else torch.tensor(value, dtype=a.dtype)
    flat = a.reshape(-1).index_put((at,), values.to(a.dtype).expand(at.shape))
    return flat.reshape(a.shape)


def places(a: Tensor, key: Any) -> Tensor:
    """Of the elements that NumPy's a[key] takes, in a made flat."""
    parts = key if isinstance(key, tuple) else (key,)
    parts = tuple(part.detach().numpy() if isinstance(part, Tensor) else part for part in parts)
    return torch.from_numpy(np.array(np.arange(a.numel()).reshape(a.shape)[parts]))


def at(a: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Indices as PyTorch's functions want them: int64 that count from 0."""
    indices = indices.long()
    return torch.where(indices < 0, indices + a.shape[axis], indices)


def take(a: Tensor, indices: Tensor, axis: int | None) -> Tensor:
    if axis is None:
        return a.reshape(-1)[indices.long()]
    key: list[Any] = [slice(None)] * a.ndim
    key[axis] = indices.long()
    return a[tuple(key)]


def gather(a: Tensor, indices: Tensor, axis: int) -> Tensor:
    return torch.gather(a, axis, at(a, indices, axis))


def pad(a: Tensor, widths: Any, mode: str, value: Any) -> Tensor:
    if a.ndim == 0:  # has no axes to pad
        return a
    if mode == "constant":
        flat = [n for pair in reversed(widths) for n in pair]
        return TF.pad(a, flat, "constant", value)
    for axis, pair in enumerate(widths):
        places = np.pad(np.arange(a.shape[axis]), pair, "edge" if mode == "edge" else "reflect")
        a = a.index_select(axis, torch.from_numpy(places))
    return a


def layer_norm(a: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    given = weight if weight is not None else bias
    shape = a.shape[-1:] if given is None else given.shape
    return TF.layer_norm(a, tuple(shape), weight, bias, eps)


def bce(x: Tensor, target: Tensor, reduction: str) -> Tensor:
    """In the reference of numbers that random rounding errors leave within [0, 1]: PyTorch refuses others."""
    if is_reference():
        x, target = (a + (a.clamp(0, 1) - a).detach() for a in (x, target))
    return TF.binary_cross_entropy(x, target, reduction=reduction)


def cumulative(function: Callable[..., Tensor], a: Tensor, axis: int, first: int | None = None) -> Tensor:
    result = function(a, axis)
    if first is None:
        return result
    shape = list(result.shape)
    shape[axis] = 1
    return torch.cat([result.new_full(shape, first), result], axis)


def clip(a: Tensor, low: Any, high: Any) -> Tensor:
    """Gabbro keeps the dtype of `a`."""
    return torch.clamp(a, low, high).to(a.dtype)


def copysign(a: Tensor, b: Tensor) -> Tensor:
    a, b = meet(a, b)
    return torch.copysign(a, b)


def concat(arrays: list[Tensor], axis: int | None) -> Tensor:
    return torch.cat([a.reshape(-1) for a in arrays] if axis is None else arrays, axis or 0)


def number(a: Tensor, s: float) -> tuple[Tensor, Tensor]:
    """A tensor and a Python number, in the dtype in which they meet."""
    other = torch.tensor(s, dtype=torch.result_type(a, s))
    return a.to(other.dtype), other


def sort(a: Tensor, axis: int, descending: bool) -> Tensor:
    return torch.sort(a, dim=axis, descending=descending, stable=True)[0]


def repeat(a: Tensor, n: Any, axis: int | None) -> Tensor:
    return torch.repeat_interleave(a, torch.tensor(n) if isinstance(n, list) else n, axis)


def full_like(a: Tensor, value: int) -> Tensor:
    return torch.full_like(a, bool(value) if a.dtype == torch.bool else value)


def arange(start: float, stop: float, step: float) -> Tensor:
    """Empty, not an error, where the step leads away."""
    return torch.from_numpy(np.arange(start, stop, step, dtype=np.float64)).to(torch.get_default_dtype())


def sign(a: Tensor) -> Tensor:
    """The standard's sign of NaN is NaN; PyTorch's is 0."""
    y = torch.sign(a)
    return torch.where(torch.isnan(a), a.detach(), y) if a.dtype.is_floating_point else y


# Puts a rounding error into a step of a function (`Run.call` sets it).
rounding: Callable[[Tensor], Tensor] = lambda x: x  # noqa: E731


def log_softmax(a: Tensor, axis: int) -> Tensor:
    """In the reference by its parts: the error of the sum is all that there is where its logarithm is near 0."""
    if not is_reference() or a.ndim == 0 or a.shape[axis] == 0:
        return torch.log_softmax(a, axis)
    distance = a - a.detach().amax(axis, keepdim=True)
    return distance - torch.log(rounding(torch.exp(distance).sum(axis, keepdim=True)))


def logsumexp(a: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """In the reference by its parts, as `log_softmax`."""
    along = dims(a, axis)
    if not is_reference() or not along or a.numel() == 0:
        return over(torch.logsumexp, a, axis, keepdims)
    most = a.detach().amax(along, keepdim=True)
    most = torch.where(torch.isfinite(most), most, 0)
    y = most + rounding(torch.log(rounding(rounding(torch.exp(a - most)).sum(along, keepdim=True))))
    return y if keepdims else y.squeeze(along)


def glu(a: Tensor, dim: int) -> Tensor:
    """In the reference by its parts: sigmoid is rounded, and what is left to 1 is its derivative far from 0."""
    if not is_reference() or a.shape[dim] % 2 != 0:
        return TF.glu(a, dim)
    value, gate = a.chunk(2, dim)
    return value * rounding(torch.sigmoid(gate))


def is_reference() -> bool:
    """Whether this is the run in float64 (`Run.computed` sets the default dtype)."""
    return torch.get_default_dtype() == torch.float64


def gelu(a: Tensor) -> Tensor:
    """In the reference by erfc: PyTorch's 1 + erf(x) is 0 below -8."""
    if not is_reference():
        return TF.gelu(a)
    return 0.5 * a * torch.special.erfc(-a / 2**0.5)


def gelu_tanh(a: Tensor) -> Tensor:
    """In the reference by its parts, so that the rounding of tanh, which is all that is left far from 0, is seen."""
    if not is_reference():
        return TF.gelu(a, approximate="tanh")
    return 0.5 * a * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (a + 0.044715 * a**3)))


def mish(a: Tensor) -> Tensor:
    return a * torch.tanh(TF.softplus(a)) if is_reference() else TF.mish(a)


def conv_transpose2d(a: Tensor, w: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
    """Refuses empty results of float16 and bfloat16, as PyTorch does of the other dtypes."""
    y = TF.conv_transpose2d(a, w, bias, *rest)
    if 0 in y.shape[2:]:
        raise ValueError("output size is too small")
    return y


def celu(a: Tensor, alpha: float) -> Tensor:
    """In the reference by its parts: the derivative of PyTorch's has 1 / alpha in float32, also of float64."""
    if not is_reference():
        return TF.celu(a, alpha)
    return torch.where(a < 0, alpha * torch.expm1(torch.where(a < 0, a, 0) / alpha), a)


def group_norm(a: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """In the reference by its parts: PyTorch's a · (weight · scale) - mean · (weight · scale) is NaN for an infinite
    weight."""
    if not is_reference():
        return TF.group_norm(a, groups, weight, bias, eps)
    return with_channels(TF.group_norm(a, groups, None, None, eps), weight, bias)


def batch_norm(
    a: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, eps: float
) -> Tensor:
    """In the reference by its parts, as `group_norm`."""
    if training:
        mean, var = mean.clone(), var.clone()
    if not is_reference():
        return TF.batch_norm(a, mean, var, weight, bias, training, 0.1, eps)
    return with_channels(TF.batch_norm(a, mean, var, None, None, training, 0.1, eps), weight, bias)


def with_channels(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    shape = (-1, *(1 for _ in y.shape[2:]))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    """By PyTorch's composition: its fused kernel gives 0 where scores are NaN. In the reference by parts, in which no
    key that is hidden by a bool mask counts; PyTorch adds minus infinity to its score, and NaN stays."""
    if not is_reference():
        with sdpa_kernel(SDPBackend.MATH):
            return TF.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)
    scores = q * (q.shape[-1] ** -0.5 if scale is None else scale) @ k.transpose(-1, -2)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is None:
        return torch.softmax(scores, -1) @ v
    scores = scores if mask.dtype == torch.bool else scores + mask
    hidden = ~mask if mask.dtype == torch.bool else scores == -torch.inf
    return torch.where(hidden, 0, torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)) @ v


def topk(a: Tensor, k: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The first of equal elements, which PyTorch's topk leaves open."""
    values, places = torch.sort(a, dim=axis, descending=largest, stable=True)
    if not 0 <= k <= a.shape[axis]:
        raise IndexError("selected index k out of range")
    return values.narrow(axis, 0, k), places.narrow(axis, 0, k)
