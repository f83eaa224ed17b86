"""Activation functions with PyTorch's argument `inplace`, and those that are made of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Tensor


def written(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    """The result; with `inplace` the input with its elements."""
    if inplace is True:
        input[...] = result
        return input
    if inplace is not False:
        raise TypeError(f"[activation] inplace is a bool, not {inplace!r}")
    return result


def _simple(name: str, function: Callable[[Tensor], Tensor], formula: str) -> Callable[..., Tensor]:
    def activation(input: Tensor, inplace: bool = False) -> Tensor:
        return written(input, function(input), inplace)

    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = f"{formula}; with `inplace` the input itself gets the result."
    return activation


relu = _simple("relu", _core.relu, "max(x, 0)")
relu6 = _simple("relu6", _core._relu6, "min(max(x, 0), 6)")
selu = _simple("selu", _core._selu, "The scaled exponential linear unit (Klambauer et al. 2017)")
silu = _simple("silu", _core.silu, "x · sigmoid(x)")
mish = _simple("mish", _core._mish, "x · tanh(softplus(x))")
hardsigmoid = _simple("hardsigmoid", _core._hard_sigmoid, "min(max(x + 3, 0), 6) / 6")
hardswish = _simple("hardswish", _core._hard_swish, "x · hardsigmoid(x)")


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, else negative_slope · x."""
    return written(input, _core._leaky_relu(input, negative_slope), inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else alpha · (exp(x) - 1)."""
    return written(input, _core._elu(input, alpha), inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, x) + min(0, alpha · (exp(x / alpha) - 1))."""
    return written(input, _core._celu(input, alpha), inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x held within [min_val, max_val]."""
    return written(input, _core._hard_tanh(input, min_val, max_val), inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is above the threshold, else a value."""
    return written(input, _core.where(input > threshold, input, value), inplace)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x where its magnitude is above lambd, else 0."""
    return _core.where(_core.abs(input) > lambd, input, 0.0)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved by lambd toward 0, and 0 within it."""
    if lambd < 0:
        raise ValueError(f"[softshrink] lambd is not negative: {lambd}")
    return _core.where(input > lambd, input - lambd, _core.where(input < -lambd, input + lambd, input * 0.0))


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - _core.tanh(input)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, else weight · x: one weight, or one for each channel of [N, C, ...]."""
    if weight.ndim and weight.shape != (1,) and input.ndim > 1:
        weight = _core.reshape(weight, (-1, *(1,) * (input.ndim - 2)))
    return _core.where(input > 0, input, weight * input)


def _axis(name: str, x: Tensor, dim: int | None) -> int:
    """Without `dim` PyTorch's: the first axis of 0, 1 and 3 axes, else the second."""
    if dim is None:
        return 0 if x.ndim in (0, 1, 3) else 1
    return dim


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, after a conversion to `dtype`.

    Without `dim` along the axis that PyTorch takes then: the first of 1 or 3 axes, else the second.
    """
    x = input if dtype is None else input.astype(dtype)
    return _core.softmax(x, _axis("softmax", x, dim)) if x.ndim else _core.softmax(_core.reshape(x, 1), 0).reshape(())


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """x - log(sum(exp(x))) along an axis: arguments as `softmax`."""
    x = input if dtype is None else input.astype(dtype)
    if x.ndim == 0:
        return _core.log_softmax(_core.reshape(x, 1), 0).reshape(())
    return _core.log_softmax(x, _axis("log_softmax", x, dim))


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """`softmax` of -x."""
    return softmax(-input, dim, _stacklevel, dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """softmax((logits + noise) / tau) with noise of the Gumbel distribution (Jang et al. 2017).

    With `hard` the result is one-hot, and its gradient that of the soft one. `eps` has no effect, as in PyTorch.
    """
    noise = -_core.log(-_core.log(_core.rand(logits.shape, device=logits.device) + 2.0**-25))
    soft = _core.softmax((logits + noise.astype(logits.dtype)) / tau, dim)
    if not hard:
        return soft
    index = _core.argmax(soft, dim, True)
    places = [1] * soft.ndim
    places[dim] = soft.shape[dim]
    one = (_core.reshape(_core.arange(soft.shape[dim], device=soft.device), places) == index).astype(soft.dtype)
    return one - soft.detach() + soft


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half times the sigmoid of the second, along an axis."""
    return _core._glu(input, dim)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, elements become 0 with probability p, and the others x / (1 - p) (Srivastava et al. 2014).

    >>> gb.nn.functional.dropout(gb.ones(2), training=False)
    tensor([1., 1.])
    """
    if not training and 0 <= p <= 1:
        return input
    return written(input, _core._dropout(input, p, training, False), inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """As `dropout`, with whole channels of [N, C, ...]."""
    if not training and 0 <= p <= 1:
        return input
    return written(input, _core._dropout(input, p, training, True), inplace)


dropout1d = dropout3d = dropout2d
