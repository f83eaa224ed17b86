"""First values of parameters, under the names of torch.nn.init; each gives the tensor that it was given.

The random numbers are others than PyTorch's; `gabbro.seed` sets them.
"""

from __future__ import annotations

import math

from .. import _core
from .._core import Tensor
from ..gradients import no_grad


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number.

    >>> gb.nn.init.constant_(gb.zeros(2), 3.0)
    tensor([3., 3.])
    """
    _core._init_constant(tensor, val)
    return tensor


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Spread evenly over [a, b)."""
    _core._init_uniform(tensor, a, b)
    return tensor


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Of the normal distribution."""
    _core._init_normal(tensor, mean, std)
    return tensor


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Of the normal distribution, without the numbers outside of [a, b]."""
    _core._init_trunc_normal(tensor, mean, std, a, b)
    return tensor


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndim != 2:
        raise ValueError(f"[eye_] of a matrix, not of shape {tensor.shape}")
    with no_grad():
        tensor[...] = _core.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The weight of a convolution that keeps its input channels: 1 at the center of [c, c], else 0."""
    if tensor.ndim not in (3, 4, 5) or tensor.shape[0] % groups:
        raise ValueError(f"[dirac_] of the weight of a convolution in {groups} groups, not of shape {tensor.shape}")
    center = tuple(length // 2 for length in tensor.shape[2:])
    with no_grad():
        tensor[...] = 0
        per_group = tensor.shape[0] // groups
        for group in range(groups):
            for channel in range(min(per_group, tensor.shape[1])):
                place = (group * per_group + channel, channel, *center)
                tensor[place] = 1
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Rows, or if they are more columns, that are orthogonal and of length `gain` (Saxe et al. 2013)."""
    _core._init_orthogonal(tensor, gain)
    return tensor


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Spread evenly, of variance gain² · 2 / (fan in + fan out) (Glorot and Bengio 2010)."""
    _core._init_xavier_uniform(tensor, gain)
    return tensor


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal, of variance gain² · 2 / (fan in + fan out) (Glorot and Bengio 2010)."""
    _core._init_xavier_normal(tensor, gain)
    return tensor


def _slope(a: float, nonlinearity: str) -> float:
    if nonlinearity == "leaky_relu":
        return a
    if nonlinearity == "relu":
        return 0.0
    if nonlinearity == "linear":
        return 1.0
    raise ValueError(f"[init] nonlinearity is 'leaky_relu', 'relu' or 'linear', not '{nonlinearity}'")


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Spread evenly, of variance gain² / fan (He et al. 2015).

    Parameters
    ----------
    tensor : Tensor
        Of two axes or more.
    a : float
        The negative slope of the leaky ReLU that comes after it.
    mode : str
        ``"fan_in"`` or ``"fan_out"``.
    nonlinearity : str
        ``"leaky_relu"``, ``"relu"`` or ``"linear"``.

    Raises
    ------
    ValueError
        For other names, and for fewer axes.
    """
    _core._init_kaiming_uniform(tensor, _slope(a, nonlinearity), mode)
    return tensor


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Normal, else as `kaiming_uniform_`."""
    _core._init_kaiming_normal(tensor, _slope(a, nonlinearity), mode)
    return tensor


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """What the values before an activation are multiplied by.

    >>> gb.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in ("linear", "sigmoid", "conv1d", "conv2d", "conv3d"):
        return 1.0
    if nonlinearity == "tanh":
        return 5 / 3
    if nonlinearity == "relu":
        return math.sqrt(2)
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity == "selu":
        return 3 / 4
    raise ValueError(f"[init] no gain is known for '{nonlinearity}'")
