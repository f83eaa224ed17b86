"""Hooks of modules: functions that are called before and after `forward`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from .._core import Module

_numbers = itertools.count()


class RemovableHandle:
    """What a hook can be removed with; also by the end of a ``with`` block."""

    def __init__(self, module: Module, kind: str, number: int) -> None:
        self._module, self._kind, self.id = module, kind, number

    def remove(self) -> None:
        """The hook is not called any more."""
        hooks = vars(self._module).get("_call_hooks", {})
        hooks.get(self._kind, {}).pop(self.id, None)
        if not any(hooks.values()):
            vars(self._module).pop("_call_hooks", None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def _add(module: Module, kind: str, hook: Callable[..., Any], with_kwargs: bool, prepend: bool) -> RemovableHandle:
    if not callable(hook):
        raise TypeError(f"[hook] {hook!r} cannot be called")
    hooks = vars(module).setdefault("_call_hooks", {"before": {}, "after": {}})
    number = next(_numbers)
    entry = {number: (hook, with_kwargs)}
    hooks[kind] = {**entry, **hooks[kind]} if prepend else {**hooks[kind], **entry}
    return RemovableHandle(module, kind, number)


def register_forward_pre_hook(
    self: Module, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
) -> RemovableHandle:
    """Calls ``hook(module, args)`` before `forward`; what it returns replaces the arguments, None keeps them."""
    return _add(self, "before", hook, with_kwargs, prepend)


def register_forward_hook(
    self: Module,
    hook: Callable[..., Any],
    *,
    prepend: bool = False,
    with_kwargs: bool = False,
    always_call: bool = False,
) -> RemovableHandle:
    """Calls ``hook(module, args, output)`` after `forward`; what it returns replaces the output, None keeps it."""
    if always_call:
        raise ValueError("[register_forward_hook] always_call=True is not supported")
    return _add(self, "after", hook, with_kwargs, prepend)


def register_full_backward_hook(self: Module, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    """Not supported: gradients are planned as a whole. Raises ValueError."""
    raise ValueError("[register_full_backward_hook] backward hooks are not supported: use gabbro.autograd.grad")


def called(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The module's output, with its hooks: the extension calls this where there are some."""
    hooks = vars(module)["_call_hooks"]
    for hook, with_kwargs in list(hooks["before"].values()):
        result = hook(module, args, kwargs) if with_kwargs else hook(module, args)
        if result is not None and with_kwargs:
            args, kwargs = result
        elif result is not None:
            args = result if isinstance(result, tuple) else (result,)
    output = module.forward(*args, **kwargs)
    for hook, with_kwargs in list(hooks["after"].values()):
        result = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
        if result is not None:
            output = result
    return output
