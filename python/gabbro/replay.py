"""Functions that are planned once and then replayed, and what their plans look like."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from . import _core
from ._core import Tensor
from ._trees import flattened, rebuilt

P = ParamSpec("P")
R = TypeVar("R")


class _Replay:
    """One trace of a function: for arguments of one structure, with tensors of one layout."""

    def __init__(self, function: Callable[..., Any], structure: Any, examples: list[Tensor]) -> None:
        self.result: Any = None

        def traced(*tensors: Tensor) -> list[Tensor]:
            args, kwargs = rebuilt(structure, tensors)
            results: list[Tensor] = []
            self.result = flattened(function(*args, **kwargs), results)
            return results

        self.compiled = _core._CompiledFunction(traced, examples)

    def __call__(self, tensors: list[Tensor]) -> Any:
        return rebuilt(self.result, self.compiled(tensors))


def compile(function: Callable[P, R]) -> Callable[P, R]:
    """A function that does what `function` does, planned once for each kind of arguments and then replayed.

    The function is called once for each combination of shapes, dtypes and other arguments, and must not read values of
    tensors then. Tensors that it uses without being given them are those of that time. Random numbers are new in each
    call.

    Parameters
    ----------
    function : callable
        Of tensors, nested lists, tuples and dicts of tensors, and other arguments, which have to be hashable. It
        gives such things back, one tensor at least.

    Returns
    -------
    callable
        With the arguments and results of `function`; the results have values.

    Raises
    ------
    ValueError
        When it is called: where the function reads a value, or has no tensor among its results.

    >>> double = gb.compile(lambda x: x + x)
    >>> double(gb.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    replays: dict[Any, _Replay] = {}

    @functools.wraps(function)
    def replayed(*args: P.args, **kwargs: P.kwargs) -> R:
        if _core._is_tracing():  # it becomes a part of that plan
            return function(*args, **kwargs)
        tensors: list[Tensor] = []
        structure = flattened((args, kwargs), tensors)
        key = (structure, tuple(_core._signature(tensor) for tensor in tensors))
        replay = replays.get(key)
        if replay is None:
            replay = replays[key] = _Replay(function, structure, tensors)
        result: R = replay(tensors)
        return result

    return replayed


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """What a function would run: one line for each launch, with the kernel's name, and what the plan needs.

    Parameters
    ----------
    function : callable
        It is called, and what it computes is planned, but not run.
    *args, **kwargs
        Its arguments; tensors among them are evaluated first.

    Returns
    -------
    str
        One line for each launch: op, kernel, shapes; then launches, bytes of the arena, bytes moved and operations.

    >>> "2 launches" in gb.explain(lambda x: gb.softmax(x) @ x, gb.rand(3, 3))
    True
    """
    _core.eval(args, kwargs)
    tensors: list[Tensor] = []
    flattened(function(*args, **kwargs), tensors)
    return _core._explain(tensors)
