"""Functions that are planned once and then replayed, and what their plans look like."""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from . import _core
from ._core import Module, Tensor
from ._executed import Executed
from ._trees import flattened, rebuilt
from ._unrepeatable import Watch
from ._whole_file import write_whole
from .captures import Guard, Walk, accept, grown_containers, require_small, walk

P = ParamSpec("P")
R = TypeVar("R")


_MOST_TRACES = 8  # of one kind of arguments: those that were used last
_MOST_KINDS = 64  # of arguments: those that were used last
_MOST_WALKS = 3  # of one trace: each uses names that the one before has read


class _Replay:
    """One trace of a function: for arguments of one structure, with tensors of one layout."""

    def __init__(self, function: Callable[..., Any], structure: Any, examples: list[Tensor]) -> None:
        self.result: Any = None
        self._function, self._structure, self._examples = function, structure, examples
        earlier: list[Executed] = []
        for _ in range(_MOST_WALKS):
            executed = Executed()
            if not self._trace(walk(function, structure, earlier=earlier), executed):
                break
            earlier.append(executed)  # the trace has used something that was not guarded while it ran
        del self._function, self._structure, self._examples

    def _trace(self, found: Walk, executed: Executed) -> bool:
        """Whether the trace has used something that was not found."""
        self.guards: list[Guard] = []
        used: list[bool] = []
        is_news = False
        places = found.places

        def traced(*tensors: Tensor) -> list[Tensor]:
            args, kwargs = rebuilt(self._structure, tensors)
            results: list[Tensor] = []
            with Watch(found.sources) as watch, executed:
                returned = self._function(*args, **kwargs)
            watch.check()
            executed.is_complete = executed.is_complete and not watch.has_threads
            self.result = flattened(returned, results)
            nonlocal is_news
            is_news = found.learn(executed)
            self._expect(found, executed)
            used.extend(found.used(executed)[1][: len(places)])
            return results

        self.compiled = _core._CompiledFunction(traced, self._examples, places, used)
        if self.compiled.misses_places():  # it reads tensors by code that has not been seen
            self._expect(found, None)
        self.compiled.set_guards(self.guards)
        return is_news

    def _expect(self, found: Walk, executed: Executed | None) -> None:
        self.guards = found.used(executed)[0]
        require_small(self.guards)
        self.grown = grown_containers(self.guards)
        accept(self.guards, self.grown)

    def accept(self, grown: list[Guard]) -> None:
        """Another trace has added to these containers."""
        if accept(self.guards, grown):
            self.compiled.set_guards(self.guards)

    def __call__(self, tensors: list[Tensor]) -> Any:
        return rebuilt(self.result, self.compiled(tensors))


class _Replays:
    """The replays of one function, by kinds of arguments: those that ran last."""

    def __init__(self) -> None:
        self.direct = _core._Replays()  # those that take only tensors, and return one
        self.kinds: dict[Any, list[_Replay]] = {}

    def find(self, kind: Any, tensors: list[Tensor]) -> _Replay | None:
        return next((replay for replay in self.kinds.get(kind, ()) if replay.compiled.takes(tensors)), None)

    def add(self, kind: Any, replay: _Replay, is_direct: bool) -> None:
        if replay.grown:
            for other in itertools.chain(*self.kinds.values()):
                other.accept(replay.grown)
        traces = self.kinds.setdefault(kind, [])
        if len(traces) == _MOST_TRACES:
            self._drop(traces, min(traces, key=_last_run))
        traces.append(replay)
        if len(self.kinds) > _MOST_KINDS:
            others = [other for other in self.kinds if other != kind]
            oldest = min(others, key=lambda other: max(map(_last_run, self.kinds[other])))
            for dropped in self.kinds.pop(oldest):
                self.direct.remove(dropped.compiled)
        if is_direct:
            self.direct.add(replay.compiled)

    def _drop(self, traces: list[_Replay], dropped: _Replay) -> None:
        traces.remove(dropped)
        self.direct.remove(dropped.compiled)


def _last_run(replay: _Replay) -> int:
    return replay.compiled.last_run()


def compile(function: Callable[P, R]) -> Callable[P, R]:
    """A function that does what `function` does, planned once for each kind of arguments and then replayed.

    The function is called once for each combination of shapes, dtypes and other arguments, and must not read values or
    gradients of tensors then. Random numbers are new in each call, and follow `gabbro.seed`.

    What the function uses without being given it (a module, variables of its closure, globals, attributes of objects)
    has its present value in each call:

    - Tensors are read again. So a compiled module follows a step of an optimizer, a loaded state dict and
      ``w[...] = x``.
    - Where anything else has changed that it has read, the function is traced again, as by torch.compile: numbers and
      other attributes, ``train()`` and ``eval()``, dtypes and devices of tensors, `autocast`, `no_grad`, `set_device`.
      The last 8 traces of each kind of arguments are kept.
    - Elements of small NumPy arrays (64 KiB) are compared in each call.
    - A tensor to which the function assigns another value has it after each call: ``x += y``, or the running moments
      of a batch norm. Other effects, such as output and what is appended to a list, happen when the function is
      traced.

    What objects of extension modules hold is not looked at. The last 64 kinds of arguments are kept.

    Parameters
    ----------
    function : callable or Module
        Of tensors, nested lists, tuples and dicts of tensors, and other arguments, which have to be hashable. It
        gives such things back, one tensor at least.

    Returns
    -------
    callable
        With the arguments and results of `function`; the results have values, and no history for gradients. That of a
        module has the module's attributes, too.

    Raises
    ------
    ValueError
        When it is called: where the function reads a value or a gradient, has no tensor among its results, uses a
        large NumPy array that is not an argument, or takes random numbers of Python or NumPy, or values of an iterator
        that it does not make itself.

    >>> double = gb.compile(lambda x: x + x)
    >>> double(gb.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    if isinstance(function, Module):
        return _CompiledModule(function)
    replays = _Replays()
    direct = replays.direct

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
        kind = (structure, tuple(_core._signature(tensor) for tensor in tensors))
        replay = replays.find(kind, tensors)
        if replay is None:
            replay = _Replay(function, structure, tensors)
            is_direct = replay.result is Tensor and not kwargs and all(isinstance(given, Tensor) for given in args)
            replays.add(kind, replay, is_direct)
        result: R = replay(tensors)
        return result

    vars(replayed)["_compiled_function"] = function
    return replayed


class _CompiledModule:
    """A module that is replayed when it is called, and in everything else the module itself."""

    def __init__(self, module: Module) -> None:
        vars(self)["_module"] = module
        vars(self)["_replayed"] = compile(lambda *args, **kwargs: module(*args, **kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._replayed(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_module", "_replayed"):  # asked for while a copy is made
            raise AttributeError(name)
        return getattr(self._module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return compile, (self._module,)

    def __repr__(self) -> str:
        return f"compile({self._module!r})"


class Explanation(str):
    """The lines of `explain`, with the plan as a picture: `dot`, `save`, and by itself in notebooks.

    >>> gb.explain(lambda x: x + 1, gb.ones(2)).dot.startswith("digraph")
    True
    """

    dot: str  #: The plan in Graphviz' language.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture: .dot directly, other formats (.svg, .png, .pdf) with Graphviz' program ``dot``.

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
