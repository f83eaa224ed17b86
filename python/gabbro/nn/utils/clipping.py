"""Gradients held within bounds, between `backward` and the step: as torch.nn.utils."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ... import _core
from ..._core import Tensor


def _list(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Multiplies the gradients by max_norm / norm where their common norm is larger (Pascanu et al. 2013).

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without gradients count for nothing.
    max_norm : float
    norm_type : float
        2 for the Euclidean norm; infinity for the largest element.
    foreach : bool, optional
        Allowed: all gradients are one plan in any case.
    error_if_nonfinite : bool
        Reads the norm, and leaves the gradients unchanged if it is infinite or NaN.

    Returns
    -------
    Tensor
        The norm before clipping, float32, of shape (); 0 where nothing has a gradient.

    Raises
    ------
    ValueError
        For a max_norm below 0, and a norm_type that is not above 0.
    RuntimeError
        With error_if_nonfinite: for a norm that is infinite or NaN.

    >>> weight = gb.nn.Parameter(gb.tensor([1.0, 1.0]))
    >>> (weight * gb.tensor([3.0, 4.0])).sum().backward()
    >>> gb.nn.utils.clip_grad_norm_(weight, 1.0)
    tensor(5.)
    >>> gb.round(weight.grad * 10)
    tensor([6., 8.])
    """
    listed = _list(parameters)
    if error_if_nonfinite and any(parameter.grad is not None for parameter in listed):
        before = [(p.grad, p.grad.detach()) for p in listed if p.grad is not None]
        norm = _core._clip_grad_norm(listed, max_norm, norm_type)
        if not math.isfinite(norm.item()):
            for gradient, value in before:
                gradient[...] = value
            raise RuntimeError(f"[clip_grad_norm_] the norm of order {norm_type} of the gradients is {norm.item()}")
        return norm
    if not listed:
        if not (max_norm >= 0 and norm_type > 0):
            raise ValueError(f"[clip_gradient_norm] norm {max_norm} of power {norm_type}")
        return _core.tensor(0.0)
    return _core._clip_grad_norm(listed, max_norm, norm_type)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Holds each element of the gradients within [-clip_value, clip_value].

    Raises
    ------
    ValueError
        For a clip_value below 0.
    """
    _core._clip_grad_value(_list(parameters), clip_value)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of several tensors as one vector.

    >>> gb.nn.utils.get_total_norm([gb.tensor([3.0]), gb.tensor([4.0])])
    tensor(5.)
    """
    from ...functions.reductions import vector_norm

    listed = _list(tensors)
    if not listed:
        return _core.tensor(0.0)
    norms = _core.stack([vector_norm(x, norm_type, None, False) for x in listed], 0)
    total = vector_norm(norms, norm_type, None, False)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(f"[get_total_norm] the norm of order {norm_type} is {total.item()}")
    return total
