"""Methods of tensors about gradients."""

from __future__ import annotations

from collections.abc import Callable
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


class HookHandle:
    """A hook of a tensor can be removed with it; also by the end of a ``with`` block."""

    def __init__(self) -> None:
        self.is_active = True

    def remove(self) -> None:
        """The hook is not called any more."""
        self.is_active = False

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> HookHandle:
    """Calls ``hook(gradient)`` when the tensor's gradient is taken; another tensor that it returns replaces it.

    Of computed tensors, and for what is computed from them after the call. The hook that was added last is called
    first. Raises ValueError for leaves, whose gradients can be changed after `backward`.
    """
    if not self.requires_grad:
        raise ValueError("[register_hook] the tensor does not require a gradient")
    if self.is_leaf:
        raise ValueError("[register_hook] of computed tensors; a leaf's grad can be changed after backward()")
    if not callable(hook):
        raise TypeError(f"[register_hook] {hook!r} cannot be called")
    handle = HookHandle()

    def passed(gradients: list[Tensor | None]) -> list[Tensor | None] | None:
        if not handle.is_active or gradients[0] is None:
            return None
        return [hook(gradients[0])]

    self._add_hook(passed)
    return handle


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
