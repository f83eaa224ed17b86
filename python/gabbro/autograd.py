"""Gradients by tensors, as torch.autograd has them.

>>> x = gb.tensor([3.0], requires_grad=True)
>>> gb.autograd.grad((x * x).sum(), x)
(tensor([6.]),)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _core
from ._core import Tensor
from .gradients import enable_grad, no_grad, set_grad_enabled

__all__ = ["Variable", "backward", "enable_grad", "grad", "no_grad", "set_grad_enabled"]


def _listed(value: Any) -> list[Any]:
    return [value] if value is None or isinstance(value, Tensor) else list(value)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of outputs by inputs, which may be leaves or intermediates. ``x.grad`` does not change.

    Parameters
    ----------
    outputs, inputs : Tensor or sequence of Tensor
    grad_outputs : Tensor or sequence, optional
        The gradients of the outputs; without them outputs have one element, and 1 is its gradient.
    retain_graph : bool, optional
        Allowed: the history lives as long as the output.
    create_graph : bool
        Whether the gradients have histories, so that they have gradients themselves.
    allow_unused : bool, optional
        None and False: an input that no output depends on has zeros. True, for which PyTorch gives None, is an error
        unless `materialize_grads`.
    materialize_grads : bool
        Allowed: inputs that no output depends on have zeros.

    Returns
    -------
    tuple of Tensor
        One for each input.

    Raises
    ------
    ValueError
        For outputs and inputs that do not require a gradient.
    """
    results, given = _listed(outputs), _listed(inputs)
    if allow_unused and not materialize_grads:
        raise ValueError(
            "[grad] allow_unused=True is not supported: unused inputs have zeros, with materialize_grads=True"
        )
    seeds = _listed(grad_outputs) if grad_outputs is not None else [None] * len(results)
    if len(seeds) != len(results):
        raise ValueError(f"[grad] {len(seeds)} grad_outputs for {len(results)} outputs")
    total: list[Tensor] | None = None
    for output, seed in zip(results, seeds, strict=True):
        part = _core._gradients(output, given, seed, create_graph)
        total = part if total is None else [a + b for a, b in zip(total, part, strict=True)]
    if total is None:
        raise ValueError("[grad] there are no outputs")
    return tuple(total)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> None:
    """Adds the gradients of several tensors to their leaves."""
    results = _listed(tensors)
    seeds = _listed(grad_tensors) if grad_tensors is not None else [None] * len(results)
    for number, (result, seed) in enumerate(zip(results, seeds, strict=True)):
        keep = bool(retain_graph) or number + 1 < len(results)
        result.backward(seed, keep, create_graph)


def Variable(data: Tensor, requires_grad: bool = False) -> Tensor:
    """The tensor itself, as a leaf that requires a gradient or not: an old name of PyTorch's."""
    return data.detach().requires_grad_(requires_grad) if requires_grad else data
