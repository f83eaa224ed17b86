"""The functions of torch.nn.functional that Gabbro has, under the same names and with the same arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import _core
from .._core import Tensor as Tensor
from .._core import _log_sigmoid as logsigmoid
from .._core import _softplus as softplus
from .._core import _softsign as softsign
from .._core import (
    bilinear,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose2d,
    gelu,
    group_norm,
    linear,
    sigmoid,
    tanh,
)
from ..functions.products import cdist
from .activation_functions import (
    celu,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    elu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    silu,
    softmax,
    softmin,
    softshrink,
    tanhshrink,
    threshold,
)
from .attention_functions import embedding, embedding_bag, one_hot, scaled_dot_product_attention
from .ctc import ctc_loss
from .loss_functions import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cross_entropy,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    multi_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    pairwise_distance,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from .padding import fold, pad, pixel_shuffle, pixel_unshuffle, unfold
from .pools import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from .sampling import affine_grid, grid_sample, interpolate
from .transposed import conv_transpose1d, conv_transpose3d
from .window_functions import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    batch_norm,
    instance_norm,
    local_response_norm,
    lp_pool1d,
    lp_pool2d,
)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cdist",
    "celu",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "embedding",
    "embedding_bag",
    "fold",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "unfold",
]

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
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """The last axes with mean 0 and variance 1, then times the weight and plus the bias (Ba et al. 2016)."""
    x = input
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
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """The last axes divided by the root of their mean square, then times the weight (Zhang and Sennrich 2019).

    Without `eps` it is the distance from 1 to the next number of the dtype of x.
    """
    x = input
    if eps is None:
        eps = _EPSILON.get(x.dtype, 2.0**-23)
    flat = _flat_end(x, normalized_shape, "rms_norm", weight)
    length = flat.shape[-1]
    if flat is x and weight is not None:
        return _core.rms_norm(x, weight, eps)
    scale = _core.ones(length, dtype=x.dtype, device=x.device) if weight is None else weight.reshape(length)
    return _core.rms_norm(flat, scale, eps).reshape(x.shape)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x divided by its norm of order `p` along an axis, which is at least eps. Halves are computed in float32.

    >>> gb.nn.functional.normalize(gb.tensor([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    >>> gb.nn.functional.normalize(gb.tensor([[1.0, 3.0]]), p=1)
    tensor([[0.25, 0.75]])
    """
    x = input
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
