"""Hooks of modules: functions that are called before and after `forward`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Module, Tensor

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
    hooks = vars(module).setdefault("_call_hooks", {"before": {}, "after": {}, "backward": {}, "before backward": {}})
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
    """Calls ``hook(module, grad_input, grad_output)`` when gradients go through the module.

    Both are tuples, with None where there is no gradient: of the arguments by position, and of the outputs. A tuple
    that the hook returns replaces `grad_input`, None keeps it.
    """
    return _add(self, "backward", hook, False, prepend)


def register_full_backward_pre_hook(self: Module, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    """Calls ``hook(module, grad_output)`` before gradients go through; a tuple that it returns replaces them."""
    return _add(self, "before backward", hook, False, prepend)


class _Backward:
    """The gradients of one call of a module."""

    def __init__(self, module: Module, hooks: dict[str, Any]) -> None:
        self.module, self.hooks = module, hooks
        self.has_input = False
        self.count = 0  # of arguments
        self.numbers: list[int] = []  # of the arguments with gradients
        self.outputs: tuple[Any, ...] = ()

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.count = len(args)
        self.numbers = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]
        if not self.numbers or not self.hooks["backward"]:
            return args
        self.has_input = True
        given = list(args)
        for number, x in zip(self.numbers, _core._hooked([args[i] for i in self.numbers], self.passed), strict=True):
            given[number] = x
        return tuple(given)

    def passed(self, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """Of the arguments: the hooks may change them."""
        now: list[Any] = [None] * self.count
        for number, gradient in zip(self.numbers, gradients, strict=True):
            now[number] = gradient
        for hook, _ in list(self.hooks["backward"].values()):
            changed = hook(self.module, tuple(now), self.outputs)
            if changed is not None:
                now = list(changed) if isinstance(changed, (tuple, list)) else [changed]
        return [now[number] for number in self.numbers]

    def output(self, value: Any) -> Any:
        several = value if isinstance(value, tuple) else (value,)
        numbers = [i for i, x in enumerate(several) if isinstance(x, Tensor) and x.requires_grad]
        if not numbers:
            return value

        def arrived(gradients: list[Tensor | None]) -> list[Tensor | None]:
            now: list[Any] = [None] * len(several)
            for number, gradient in zip(numbers, gradients, strict=True):
                now[number] = gradient
            for hook, _ in list(self.hooks["before backward"].values()):
                changed = hook(self.module, tuple(now))
                if changed is not None:
                    now = list(changed) if isinstance(changed, (tuple, list)) else [changed]
            self.outputs = tuple(now)
            if not self.has_input:
                for hook, _ in list(self.hooks["backward"].values()):
                    hook(self.module, (None,) * self.count, self.outputs)
            return [now[number] for number in numbers]

        given = list(several)
        for number, x in zip(numbers, _core._hooked([several[i] for i in numbers], arrived), strict=True):
            given[number] = x
        return tuple(given) if isinstance(value, tuple) else given[0]


def called(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The module's output, with its hooks: the extension calls this where there are some."""
    hooks = vars(module)["_call_hooks"]
    for hook, with_kwargs in list(hooks["before"].values()):
        result = hook(module, args, kwargs) if with_kwargs else hook(module, args)
        if result is not None and with_kwargs:
            args, kwargs = result
        elif result is not None:
            args = result if isinstance(result, tuple) else (result,)
    backward = None
    if (hooks["backward"] or hooks["before backward"]) and _core.is_grad_enabled():
        backward = _Backward(module, hooks)
        args = backward.inputs(args)
    output = module.forward(*args, **kwargs)
    for hook, with_kwargs in list(hooks["after"].values()):
        result = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
        if result is not None:
            output = result
    return output if backward is None else backward.output(output)
