"""Functions that are planned once and then replayed, and what their plans look like."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from . import _core
from ._core import Tensor
from ._trees import flattened, rebuilt
from ._whole_file import write_whole

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
    direct = _core._Replays()  # those of them that are for tensors alone, and give one

    @functools.wraps(function)
    def replayed(*args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs:
            known: Any = direct(args)
            if known is not None:
                return known  # type: ignore[no-any-return]
        if _core._is_tracing():  # it becomes a part of that plan
            return function(*args, **kwargs)
        tensors: list[Tensor] = []
        structure = flattened((args, kwargs), tensors)
        key = (structure, tuple(_core._signature(tensor) for tensor in tensors))
        replay = replays.get(key)
        if replay is None:
            replay = replays[key] = _Replay(function, structure, tensors)
            if replay.result is Tensor and not kwargs and all(isinstance(argument, Tensor) for argument in args):
                direct.add(replay.compiled)
        result: R = replay(tensors)
        return result

    return replayed


class Explanation(str):
    """The lines of `explain`, with the plan as a picture: `dot`, `save`, and by itself in notebooks.

    >>> gb.explain(lambda x: x + 1, gb.ones(2)).dot.startswith("digraph")
    True
    """

    dot: str  #: The plan in Graphviz' language.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture: a file .dot as it is, others (.svg, .png, .pdf) with Graphviz' program ``dot``.

        Raises
        ------
        RuntimeError
            Where that program is not installed or does not know the kind of file; nothing is written then.
        """
        kind = pathlib.Path(path).suffix[1:]
        picture = self.dot.encode() if kind == "dot" else self._drawn(kind)
        write_whole(path, picture)

    def _drawn(self, kind: str) -> bytes:
        program = shutil.which("dot")
        if program is None:
            raise RuntimeError("[explain] Graphviz is not installed, whose program 'dot' draws plans: save a .dot file")
        done = subprocess.run([program, f"-T{kind}"], input=self.dot.encode(), capture_output=True)
        if done.returncode != 0 or not done.stdout:
            raise RuntimeError(f"[explain] Graphviz cannot draw a file of kind {kind!r}")
        return done.stdout

    def _repr_svg_(self) -> str | None:
        return self._drawn("svg").decode() if shutil.which("dot") else None


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """What a function would run: one line for each launch, with the kernel's name, and what the plan needs.

    Parameters
    ----------
    function : callable
        It is called, and what it computes is planned, but not run.
    *args, **kwargs
        Its arguments; tensors among them are evaluated first.

    Returns
    -------
    Explanation
        A str: one line for each launch: op, kernel, shapes; then launches, bytes of the arena, bytes moved and
        operations. ``explain(...).save("plan.svg")`` draws it.

    >>> "2 launches" in gb.explain(lambda x: gb.softmax(x) @ x, gb.rand(3, 3))
    True
    """
    _core.eval(args, kwargs)
    tensors: list[Tensor] = []
    flattened(function(*args, **kwargs), tensors)
    text, dot = _core._explain(tensors)
    explanation = Explanation(text)
    explanation.dot = dot
    return explanation
