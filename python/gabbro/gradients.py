"""Gradients of functions, of nested lists, tuples and dicts of tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ClassVar, ParamSpec, TypeVar

from . import _core
from ._core import Tensor
from ._trees import flattened, rebuilt

P = ParamSpec("P")
R = TypeVar("R")


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """A function that gives what `function` gives, and its gradients by some of the arguments.

    Parameters
    ----------
    function : callable
        It gives a tensor of one element.
    argnums : int or sequence of int
        The positional arguments by which gradients are taken: tensors, or nested lists, tuples and dicts of tensors, of
        float32, float64, float16 or bfloat16. Other values in them (numbers, None) are unchanged.
    has_aux : bool
        `function` gives a pair, of that tensor and of anything else.

    Returns
    -------
    callable
        With the arguments of `function`. It gives a pair: the value (or the pair of value and anything else), and the
        gradients, in the structure of the argument; with a sequence of `argnums`, a tuple of these.

    Raises
    ------
    ValueError
        When it is called: where the value has not one element, an argument has no tensors or one that cannot have a
        gradient, and for an op that has no gradient.
    TypeError
        Where there is no such positional argument.

    >>> f = gb.value_and_grad(lambda p, x: ((p["w"] * x) ** 2).sum())
    >>> f({"w": gb.tensor([1.0, 2.0])}, gb.tensor([3.0, 1.0]))
    (tensor(13.), {'w': tensor([18.,  4.])})
    """
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)

    def differentiated(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise TypeError(f"[value_and_grad] there is no positional argument {number}: {len(args)} were given")
        inputs: list[Tensor] = []
        structure = flattened([args[number] for number in numbers], inputs)
        if not inputs:
            raise ValueError(f"[value_and_grad] no tensors in argument {argnums}")
        rest: list[Any] = []

        def called(copies: list[Tensor]) -> Any:
            given = list(args)
            for number, argument in zip(numbers, rebuilt(structure, copies), strict=True):
                given[number] = argument
            result = function(*given, **kwargs)
            if not has_aux:
                return result
            value, more = result
            rest.append(more)
            return value

        value, gradients = _core._value_and_grad(called, inputs)
        trees = rebuilt(structure, gradients)
        result = trees[0] if isinstance(argnums, int) else tuple(trees)
        return ((value, rest[0]) if has_aux else value), result

    return differentiated


def grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradients of `function` by some of its arguments.

    As `value_and_grad`, without the value; with `has_aux` it returns a pair of the gradients and the other result.

    >>> gb.grad(lambda x: (x**3).sum())(gb.tensor([1.0, 2.0]))
    tensor([ 3., 12.])
    >>> gb.grad(gb.grad(lambda x: x**3))(gb.tensor(2.0))
    tensor(12.)
    """
    with_value = value_and_grad(function, argnums, has_aux=has_aux)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradients = with_value(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


def checkpoint(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, with only its arguments kept for gradients.

    Intermediates of the function are computed again when the gradient is taken, instead of being kept.

    Parameters
    ----------
    function : callable
        Of tensors, nested lists, tuples and dicts of tensors, and other arguments. It gives such things back, one
        tensor at least, and has to do the same each time.

    Returns
    -------
    callable
        With the arguments and results of `function`.

    >>> gb.grad(gb.checkpoint(lambda x: gb.exp(gb.sin(x)).sum()))(gb.tensor([0.0]))
    tensor([1.])
    """

    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        inputs: list[Tensor] = []
        structure = flattened((args, kwargs), inputs)
        result: Any = None

        def called(copies: list[Tensor]) -> list[Tensor]:
            nonlocal result
            given, named = rebuilt(structure, copies)
            results: list[Tensor] = []
            result = flattened(function(*given, **named), results)
            return results

        results = _core._checkpoint(called, inputs)
        value: R = rebuilt(result, results)
        return value

    return checkpointed


class no_grad(contextlib.ContextDecorator):
    """While it lasts, nothing of what this thread computes is remembered for gradients. Also a decorator of functions.

    >>> x = gb.tensor([2.0]).requires_grad_()
    >>> with gb.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False
    """

    def __init__(self) -> None:
        self._modes: list[_core._GradientMode] = []

    def _recreate_cm(self) -> no_grad:  # a decorated function may run in several threads
        return no_grad()

    def __enter__(self) -> no_grad:
        self._modes.append(_core._GradientMode(False))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._modes.pop()


class enable_grad(no_grad):
    """While it lasts, what this thread computes is remembered for gradients, also inside of `no_grad`.

    >>> x = gb.tensor([2.0]).requires_grad_()
    >>> with gb.no_grad(), gb.enable_grad():
    ...     y = x * x
    >>> y.requires_grad
    True
    """

    def _recreate_cm(self) -> enable_grad:
        return enable_grad()

    def __enter__(self) -> enable_grad:
        self._modes.append(_core._GradientMode(True))
        return self


class inference_mode(no_grad):
    """As `no_grad`; with ``mode=False`` as `enable_grad`. Tensors made in it can be used everywhere.

    >>> with gb.inference_mode():
    ...     gb.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._mode = mode

    def _recreate_cm(self) -> inference_mode:
        return inference_mode(self._mode)

    def __enter__(self) -> inference_mode:
        self._modes.append(_core._GradientMode(not self._mode))
        return self


class set_grad_enabled:
    """Whether what this thread computes is remembered for gradients: from the call on, or while a block lasts.

    >>> with gb.set_grad_enabled(False):
    ...     gb.is_grad_enabled()
    False
    """

    _modes: ClassVar[list[Any]] = []  # those that last: going away, they would restore the mode before

    def __init__(self, mode: bool) -> None:
        self._modes.append(_core._GradientMode(bool(mode)))

    def __enter__(self) -> set_grad_enabled:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._modes.pop()
