"""The functions of torch.nn.functional that Gabbro has, under the same names: most are in ``gabbro`` itself, too."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import _core
from .._core import Tensor as Tensor
from .._core import _celu as celu
from .._core import _elu as elu
from .._core import _glu as glu
from .._core import _hard_sigmoid as hardsigmoid
from .._core import _hard_swish as hardswish
from .._core import _hard_tanh as hardtanh
from .._core import _leaky_relu as leaky_relu
from .._core import _log_sigmoid as logsigmoid
from .._core import _mish as mish
from .._core import _relu6 as relu6
from .._core import _selu as selu
from .._core import _softplus as softplus
from .._core import _softsign as softsign
from .._core import (
    adaptive_avg_pool2d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    bilinear,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose2d,
    gelu,
    group_norm,
    interpolate,
    kl_div,
    l1_loss,
    linear,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    mse_loss,
    relu,
    sigmoid,
    silu,
    tanh,
)

__all__ = [
    "adaptive_avg_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose2d",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "dropout2d",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "softsign",
    "tanh",
]


def _implied_axis(name: str, x: Tensor, dim: int | None) -> int:
    """Where PyTorch would guess an axis that is not the last one, it has to be named."""
    if dim is None and x.ndim > 2:
        raise ValueError(f"[{name}] dim is needed for a tensor of {x.ndim} axes: {x.shape}")
    return -1 if dim is None else dim


def softmax(x: Tensor, dim: int | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, which may be left out for vectors and matrices: the last one."""
    return _core.softmax(x, _implied_axis("softmax", x, dim))


def log_softmax(x: Tensor, dim: int | None = None) -> Tensor:
    """x - log(sum(exp(x))) along an axis, which may be left out for vectors and matrices: the last one."""
    return _core.log_softmax(x, _implied_axis("log_softmax", x, dim))


def embedding(ids: Tensor, weight: Tensor) -> Tensor:
    """Rows of a table [V, C], by number: integers [...] to [..., C].

    >>> gb.nn.functional.embedding(gb.tensor([[1]]), gb.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[[3., 4.]]])
    """
    return _core._rows(weight, ids)


def one_hot(ids: Tensor, num_classes: int) -> Tensor:
    """Integers [...] as int32 [..., num_classes]: 1 at the position of the number, else 0.

    A number outside 0 .. num_classes - 1 raises IndexError, as a target of `cross_entropy`.

    >>> gb.nn.functional.one_hot(gb.tensor([1, 0]), 2)
    tensor([[0, 1],
            [1, 0]])
    """
    return _core._one_hot(ids, num_classes)


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """In training, elements become 0 with probability p, and the others x / (1 - p) (Srivastava et al. 2014).

    >>> gb.nn.functional.dropout(gb.ones(2), training=False)
    tensor([1., 1.])
    """
    return _core._dropout(x, p, training, False)


def dropout2d(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """As `dropout`, with whole channels of [N, C, ...]."""
    return _core._dropout(x, p, training, True)


_EPSILON = {_core.float16: 2.0**-10, _core.bfloat16: 2.0**-7, _core.float64: 2.0**-52}


def _flat_end(x: Tensor, normalized_shape: Sequence[int], what: str, *parameters: Tensor | None) -> Tensor:
    """x with the last axes as one; the shapes of parameters are checked."""
    shape, own = tuple(normalized_shape), x.shape
    if not shape or own[-len(shape) :] != shape:
        raise ValueError(f"[{what}] {own} does not end with {shape}")
    for parameter in parameters:
        if parameter is not None and parameter.shape != shape:
            raise ValueError(f"[{what}] a parameter of shape {parameter.shape} for the normalized shape {shape}")
    return x if len(shape) == 1 else x.reshape((*own[: -len(shape)], math.prod(shape)))


def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """The last axes with mean 0 and variance 1, then times the weight and plus the bias (Ba et al. 2016)."""
    flat = _flat_end(x, normalized_shape, "layer_norm", weight, bias)
    if flat is x:  # the usual case, without reshapes: they cost as much as the norm of a few rows
        return _core.layer_norm(x, weight, bias, eps)
    length = flat.shape[-1]
    y = _core.layer_norm(
        flat,
        None if weight is None else weight.reshape(length),
        None if bias is None else bias.reshape(length),
        eps,
    )
    return y.reshape(x.shape)


def rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """The last axes divided by the root of their mean square, then times the weight (Zhang and Sennrich 2019).

    Without `eps` it is the distance from 1 to the next number of the dtype of x.
    """
    if eps is None:
        eps = _EPSILON.get(x.dtype, 2.0**-23)
    flat = _flat_end(x, normalized_shape, "rms_norm", weight)
    length = flat.shape[-1]
    if flat is x and weight is not None:
        return _core.rms_norm(x, weight, eps)
    scale = _core.ones(length, dtype=x.dtype, device=x.device) if weight is None else weight.reshape(length)
    return _core.rms_norm(flat, scale, eps).reshape(x.shape)


def normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x divided by its norm of order `p` along an axis, which is at least eps. Halves are computed in float32.

    >>> gb.nn.functional.normalize(gb.tensor([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    >>> gb.nn.functional.normalize(gb.tensor([[1.0, 3.0]]), p=1)
    tensor([[0.25, 0.75]])
    """
    if isinstance(p, bool) or not isinstance(p, (int, float)):
        raise TypeError(f"[normalize] p is a number, not {p!r}")
    if p == 2:
        return _core._normalize(x, dim, eps)
    half = x.dtype in (_core.float16, _core.bfloat16)
    wide = x.astype(_core.float32) if half else x
    magnitude = _core.abs(wide)
    if math.isinf(p):
        norm = (_core.max if p > 0 else _core.min)(magnitude, dim, True)
    elif p == 0:
        norm = _core.sum((magnitude != 0).astype(wide.dtype), dim, True)
    else:
        norm = _core.sum(magnitude**p, dim, True) ** (1 / p)
    y = wide / _core.clip(norm, eps)
    return y.astype(x.dtype) if half else y


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between x1 and x2 along an axis; no norm counts as less than eps.

    Shapes broadcast. Halves are computed in float32.

    >>> gb.nn.functional.cosine_similarity(gb.tensor([[1.0, 0.0]]), gb.tensor([[0.0, 2.0]]))
    tensor([0.])
    """
    return _core._cosine_similarity(x1, x2, dim, eps)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """As `gabbro.scaled_dot_product_attention`; what is optional here goes by its name."""
    return _core.scaled_dot_product_attention(query, key, value, attn_mask, is_causal=is_causal, scale=scale)


def binary_cross_entropy(x: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """-target · log(x) - (1 - target) · log(1 - x)."""
    return _core.bce_loss(x, target, reduction=reduction)


def binary_cross_entropy_with_logits(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(x), without losing digits.

    Parameters
    ----------
    x, target : Tensor
        Of one shape.
    weight, pos_weight : Tensor, optional
        Of each element, and of the positive ones; they broadcast to the shape of x.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """
    return _core._bce_with_logits(x, target, weight, reduction, pos_weight)


def smooth_l1_loss(x: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d² / (2 · beta) where the difference d is smaller than beta, else its magnitude - beta / 2 (Girshick 2015)."""
    return _core._smooth_l1_loss(x, target, reduction, beta)


def huber_loss(x: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """d² / 2 where the difference d is within delta, else delta · (its magnitude - delta / 2) (Huber 1964)."""
    return _core._huber_loss(x, target, reduction, delta)


def nll_loss(x: Tensor, target: Tensor, *, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """-x[n, target[n]], where x [N, V] holds logarithms and the target [N] integers."""
    return _core.nll_loss(x, target, ignore_index=ignore_index, reduction=reduction)


def cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """`nll_loss` of `log_softmax` of x.

    Parameters
    ----------
    x : Tensor
        [N, V, ...], of float32, float16 or bfloat16.
    target : Tensor
        Integers [N, ...] of any dtype, from 0 to V - 1; or probabilities of the shape of x, in a float dtype.
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
    return _core._cross_entropy_loss(x, target, weight, ignore_index, reduction, label_smoothing)
