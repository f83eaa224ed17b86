"""Methods of tensors about gradients."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import Tensor

_backward = Tensor.backward


def backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    *,
    seed: Any = None,
) -> None:
    """Adds the gradients of this tensor to the leaves that it was computed from.

    Parameters
    ----------
    gradient : Tensor, optional
        Of the tensor's shape; without it the tensor has one element, and the gradient is 1. Also `seed`.
    retain_graph : bool, optional
        Whether `backward` can be called again.
    create_graph : bool
        Not supported for `backward`: `autograd.grad` gives gradients that have gradients.
    """
    if create_graph:
        raise ValueError(
            "[backward] create_graph=True is not supported: use gabbro.autograd.grad(..., create_graph=True)"
        )
    if gradient is not None and seed is not None:
        raise TypeError("[backward] gradient and seed are two names of one argument")
    _backward(self, seed if gradient is None else gradient, bool(retain_graph))


def retain_grad(self: Tensor) -> None:
    """For leaves, whose gradients stay in any case; of others they are not kept, and the call raises ValueError."""
    if not self.is_leaf:
        raise ValueError("[retain_grad] gradients are kept for leaves alone: gabbro.autograd.grad gives the others")


def grad_fn(self: Tensor) -> Any:
    """None for leaves; else an object that stands for the op, and has a name alone."""
    return None if self.is_leaf else _Computed()


class _Computed:
    """The op that computed a tensor."""

    def name(self) -> str:
        """The kind of the object: ops are not visible."""
        return "Computed"

    def __repr__(self) -> str:
        return "<Computed>"


def is_grad_enabled() -> bool:
    """Whether this thread remembers what it computes, for gradients."""
    return _core.is_grad_enabled()
