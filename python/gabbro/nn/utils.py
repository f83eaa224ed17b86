"""Gradients held within bounds, between `backward` and the step: as torch.nn.utils."""

from __future__ import annotations

from collections.abc import Iterable

from .. import _core
from .._core import Tensor


def _list(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Multiplies the gradients by max_norm / norm where their common norm is larger (Pascanu et al. 2013).

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without gradients count for nothing.
    max_norm : float
    norm_type : float
        2 for the Euclidean norm; infinity for the largest element.

    Returns
    -------
    Tensor
        The norm, float32, of shape ().

    >>> weight = gb.nn.Parameter(gb.tensor([1.0, 1.0]))
    >>> (weight * gb.tensor([3.0, 4.0])).sum().backward()
    >>> gb.nn.utils.clip_grad_norm_(weight, 1.0)
    tensor(5.)
    >>> gb.round(weight.grad * 10)
    tensor([6., 8.])
    """
    return _core._clip_grad_norm(_list(parameters), max_norm, norm_type)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Holds each element of the gradients within [-clip_value, clip_value]."""
    _core._clip_grad_value(_list(parameters), clip_value)
