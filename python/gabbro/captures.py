"""What a function uses without being given it: found by walking what its code, closure and attributes refer to.

`gabbro.compile` reads the tensors among it again in each call, and traces the function again where anything else has
changed that the trace has read. What cannot be seen from Python is not found: objects of extensions.
"""

from __future__ import annotations

import builtins
import collections
import functools
import operator
import sys
import types
import weakref
from array import array
from collections.abc import Callable, Iterable, Set
from typing import Any

import numpy as np

from . import _core
from ._core import Module, Tensor
from ._executed import DYNAMIC, Executed, codes_of, imports_of, is_library, names_of
from ._unrepeatable import is_source

Guard = tuple[str, Any, Any, Any]
# An edge counts if all of its key, names and code, were read and run.
Key = tuple[str | types.CodeType, ...]

ATOMS = (int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, slice)
# Methods of objects that exist: what is called by f(x), x[i], x + y and the like is not among these.
UNUSED = {"__init__", "__new__", "__del__", "__repr__", "__str__", "__reduce__", "__reduce_ex__", "__getstate__",
          "__setstate__", "__copy__", "__deepcopy__"}  # fmt: skip
# Attributes of instances and classes that the language itself has.
INHERENT = {*dir(object), "__dict__", "__module__", "__weakref__", "__slots__", "__annotations__"}
READ_BY_CALLS = {"forward", "_call_hooks"}  # by the extension, where a module is called
ANY_NAME = "*"  # a name that code reads which reads attributes of any name
MOST_BYTES = 64 << 10  # of an array: they are compared in each call, which takes a few microseconds


class _Node:
    """An object that was visited: what has to be as it was, and the objects that it refers to."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.guards: list[Guard] = []
        self.edges: list[tuple[Key, Guard | None, Any]] = []


class _Attributes:
    """The attributes of one object, class or module. Only the ones whose names some code uses count."""

    def __init__(self, node: _Node, found: Callable[[str], tuple[Guard | None, Any] | None], *names: Set[str]) -> None:
        self.node = node
        self.found = found  # what guards an attribute, and its value
        self._names = names
        self._seen: set[str] = set()

    def fresh(self, names: set[str] | None) -> list[str]:
        """The names among these (None: all) that were not returned before."""
        fresh = set().union(*(own if names is None else own & names for own in self._names)) - self._seen
        self._seen |= fresh
        return sorted(fresh)


class Walk:
    """Visits objects, and collects guards and the places of tensors."""

    def __init__(self, earlier: Iterable[Executed] = ()) -> None:
        self.sources: list[Any] = []  # random generators and iterators
        self._nodes: dict[int, _Node] = {}  # by id; they keep their objects alive, so that no id is used twice
        self._roots = _Node(None)
        self._waiting: list[_Node] = []
        self._names = set(READ_BY_CALLS)  # that the code uses
        self._getters: set[str] = set()  # names that functions of `operator` read
        self._dynamic = False  # it may use attributes of any name
        self._codes: set[types.CodeType] = set()
        self._objects: list[_Attributes] = []
        for executed in earlier:
            self._take(executed)

    def visit_all(self, *values: Any) -> None:
        for value in values:
            self._edge(self._roots, value)
        self._finish()

    def _take(self, executed: Executed) -> None:
        for code, variables in executed.variables.items():
            if code not in self._codes:
                self._codes |= codes_of(code)
                self._visit_globals(self._roots, code, variables)
        self._names |= executed.names
        self._dynamic = self._dynamic or executed.is_dynamic

    def learn(self, executed: Executed) -> bool:
        """Takes in what a trace has run. Whether the trace used something that had not been found before."""
        if not executed.is_complete:
            return False
        for owner, name in executed.absent:
            values = owner if isinstance(owner, dict) else getattr(owner, "__dict__", None)
            if isinstance(values, dict) and name not in values:
                self._roots.guards.append(("absent", values, name, None))
        before = self._count()
        self._take(executed)
        self._finish()
        return self._count() > before

    def used(self, executed: Executed | None) -> tuple[list[Guard], list[bool]]:
        """The guards of what was read (None: of everything), and which of `places` were reached by it."""
        read: Set[Any] | None = None
        if executed is not None and executed.is_complete:
            read = executed.codes | executed.names | self._getters | READ_BY_CALLS

        def counts(key: Key) -> bool:
            if read is None or executed is None:
                return self._dynamic or ANY_NAME not in key
            return all(part in read or (executed.is_dynamic and isinstance(part, str)) for part in key)

        guards: list[Guard] = []
        reached: set[int] = set()
        waiting = [self._roots]
        while waiting:
            node = waiting.pop()
            guards += node.guards
            for key, guard, child in node.edges:
                if counts(key):
                    guards += () if guard is None else (guard,)
                    if id(child) in self._nodes and id(child) not in reached:
                        reached.add(id(child))
                        waiting.append(self._nodes[id(child)])
        return guards, [id(place) in reached for place in self.places]

    @property
    def places(self) -> list[Tensor]:
        return [node.value for node in self._nodes.values() if isinstance(node.value, Tensor)]

    def _count(self) -> int:
        """Of guards and places."""
        nodes = [self._roots, *self._nodes.values()]
        guards = sum(len(node.guards) + sum(guard is not None for _, guard, _ in node.edges) for node in nodes)
        return guards + len(self.places)

    def _finish(self) -> None:
        self._visit_waiting()
        before = -1
        while before != len(self._nodes) + len(self._names):  # code that was found may use more of the attributes
            before = len(self._nodes) + len(self._names)
            for attributes in self._objects:
                for name in attributes.fresh(None if self._dynamic else self._names):
                    found = attributes.found(name)
                    if found is not None:
                        self._edge(attributes.node, found[1], (name,), found[0])
            self._visit_waiting()

    def _visit_waiting(self) -> None:
        while self._waiting:  # not recursive: objects may be linked in long chains
            node = self._waiting.pop()
            self._visit(node, node.value)

    def _edge(self, node: _Node, child: Any, key: Key = (), guard: Guard | None = None) -> None:
        atom = isinstance(child, ATOMS)
        if guard is not None or not atom:
            node.edges.append((key, guard, child))
        if not atom and id(child) not in self._nodes:
            self._nodes[id(child)] = reached = _Node(child)
            self._waiting.append(reached)

    def _edges(self, node: _Node, children: Iterable[Any], key: Key = ()) -> None:
        for child in children:
            self._edge(node, child, key)

    def _visit(self, node: _Node, value: Any) -> None:
        if isinstance(value, Tensor):
            pass  # a place
        elif isinstance(value, types.FunctionType):
            self._visit_function(node, value)
        elif isinstance(value, types.MethodType):
            self._edges(node, (value.__self__, value.__func__))
        elif isinstance(value, (staticmethod, classmethod)):
            self._edge(node, value.__func__)
        elif isinstance(value, property):
            self._edge(node, value.fget)
        elif isinstance(value, functools.partial):
            self._edges(node, (value.func, value.args, value.keywords))
        elif isinstance(value, (operator.attrgetter, operator.methodcaller)):
            names = [text for text in value.__reduce__()[1] if isinstance(text, str)]
            self._getters.update(part for text in names for part in text.split("."))
            self._names |= self._getters
        elif isinstance(value, (list, tuple, dict, set, frozenset, collections.deque, bytearray, array, np.ndarray)):
            self._visit_container(node, value)
        elif isinstance(value, weakref.ReferenceType):
            self._edge(node, value())
        elif isinstance(value, type):
            self._visit_class(node, value, set())
        elif isinstance(value, types.ModuleType):
            self._visit_module_of_python(node, value)
        else:
            if is_source(value):
                self.sources.append(value)
            self._visit_object(node, value)

    def _visit_container(self, node: _Node, value: Any) -> None:
        if isinstance(value, list):
            node.guards.append(("list", value, None, tuple(value)))
        elif isinstance(value, dict):
            node.guards.append(("dict", value, None, dict(value)))
        elif isinstance(value, (set, frozenset)):
            node.guards.append(("equal", value, None, frozenset(value)))
        elif isinstance(value, np.ndarray):
            content = value.tobytes() if value.nbytes <= MOST_BYTES else None
            node.guards.append(("bytes", value, (value.shape, value.dtype), content))
            return self._edges(node, value.reshape(-1).tolist() if value.dtype.hasobject else ())
        elif not isinstance(value, tuple):
            node.guards.append(("sequence", value, None, tuple(value)))
        if not isinstance(value, (bytearray, array)):
            self._edges(node, value.values() if isinstance(value, dict) else value)

    def _visit_function(self, node: _Node, function: Any) -> None:
        attributes = vars(function)
        inner = attributes.get("_compiled_function")
        if inner is not None:  # of gabbro.compile: its own traces are not to be looked through
            return self._edge(node, inner)
        code = function.__code__
        names = names_of(code)
        self._names |= names
        self._codes |= codes_of(code)
        is_user = not is_library(function.__module__)
        self._dynamic = self._dynamic or (bool(names & DYNAMIC) and is_user)
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            self._edge(node, content, (code,), ("cell", cell, None, content))
        if is_user:
            for name in ("__defaults__",) * (code.co_argcount > 0) + ("__kwdefaults__",) * (code.co_kwonlyargcount > 0):
                value = getattr(function, name)
                self._edge(node, value, (code,), ("attribute", function, name, value))
            self._visit_globals(node, code, function.__globals__)
            self._follow_items(node, attributes)
        else:
            self._edges(node, (function.__defaults__, function.__kwdefaults__), (code,))
        self._edge(node, attributes.get("__wrapped__"))

    def _visit_globals(self, node: _Node, code: types.CodeType, variables: dict[str, Any]) -> None:
        """The globals of a function, and the modules that it imports."""
        for name in names_of(code):
            if name in variables:
                value = variables[name]
                self._edge(node, value, (code, name), ("item", variables, name, value))
            elif hasattr(builtins, name):  # whose name the program's module may take
                self._edge(node, None, (code, name), ("absent", variables, name, None))
        self._edges(node, (sys.modules.get(name) for name in imports_of(code)), (code,))

    def _visit_module_of_python(self, node: _Node, module: types.ModuleType) -> None:
        if not is_library(module.__name__):
            self._follow_items(node, vars(module))

    def _follow_items(self, node: _Node, values: dict[str, Any], kind: type | None = None) -> None:
        """The items of an object's dict; `kind`: its class, whose attributes the object might get for itself."""
        shared = {name for base in kind.__mro__ for name in vars(base)} - INHERENT if kind is not None else set()

        def found(name: str) -> tuple[Guard, Any]:
            if name in values:
                return ("item", values, name, values[name]), values[name]
            return ("absent", values, name, None), None

        self._objects.append(_Attributes(node, found, values.keys(), shared))

    def _visit_class(self, node: _Node, kind: type, unused: set[str]) -> None:
        owners: dict[str, type] = {}
        for base in reversed(kind.__mro__):
            owners.update(dict.fromkeys(vars(base), base))
            if is_library(base.__module__):
                functions = (value for value in vars(base).values() if isinstance(value, types.FunctionType))
                self._names.update(*(names_of(function.__code__) for function in functions))
        owners = {name: base for name, base in owners.items() if not is_library(base.__module__)}
        for name, base in owners.items():
            value = vars(base)[name]
            if isinstance(value, types.FunctionType) and name.startswith("__") and name not in unused:
                self._edge(node, value, (value.__code__,), ("attribute", kind, name, value))

        def found(name: str) -> tuple[Guard, Any] | None:
            value = vars(owners[name])[name]
            if name.startswith("__"):
                return None
            if isinstance(value, (types.FunctionType, property)) or not hasattr(value, "__get__"):
                return ("attribute", kind, name, value), value
            if isinstance(value, classmethod):
                return ("bound", kind, name, value.__func__), value
            if isinstance(value, staticmethod) or type(value).__module__ != "builtins":
                return ("item", vars(owners[name]), name, value), value
            return None

        self._objects.append(_Attributes(node, found, owners.keys()))

    def _visit_object(self, node: _Node, value: Any) -> None:
        if isinstance(value, Module):
            self._visit_module(node, value)
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            # A module's dict may not grow at all, see there.
            self._follow_items(node, attributes, None if isinstance(value, Module) else type(value))
            self._edge(node, None, (ANY_NAME,), ("size", attributes, None, len(attributes)))
        for base in type(value).__mro__:
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else tuple(slots):
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    content = getattr(value, name)
                    self._edge(node, content, (name,), ("attribute", value, name, content))
        self._edge(node, getattr(value, "__wrapped__", None))
        kind = type(value)
        if id(kind) not in self._nodes:
            self._nodes[id(kind)] = of_kind = _Node(kind)
            self._visit_class(of_kind, kind, UNUSED)
        self._edge(node, kind)

    def _visit_module(self, node: _Node, module: Module) -> None:
        node.guards.append(("training", module, None, module.training))
        node.guards.append(("options", module, None, _core._changes(module)))
        tensors = [tensor for _, tensor, _, _ in _core._own_tensors(module)]
        self._edges(node, (*tensors, *module.children()))
        node.guards.append(("size", vars(module), None, len(vars(module))))
        for name, value in vars(module).items():  # also those that are called by a loop over them
            if isinstance(value, (Tensor, Module)):
                self._edge(node, value, (), ("item", vars(module), name, value))
        if getattr(module, "format", None) is not None:  # it computes with its weight in the device's packing
            node.guards += [("state", tensor, None, None) for tensor in tensors]


def walk(*roots: Any | Callable[..., Any], earlier: Iterable[Executed] = ()) -> Walk:
    """What these functions and objects refer to; `earlier` traces say which names and code count besides."""
    found = Walk(earlier)
    found.visit_all(*roots)
    return found


SNAPSHOTS: dict[str, Any] = {"list": tuple, "equal": frozenset, "dict": dict, "sequence": tuple}


def require_small(guards: list[Guard]) -> None:
    """Raises ValueError where an array is among these whose elements would take too long to compare in each call."""
    for kind, value, _, expected in guards:
        if kind == "bytes" and expected is None:
            raise ValueError(
                f"[compile] the function uses a NumPy array of shape {value.shape} ({value.nbytes} bytes) that is not "
                "an argument: make it a tensor before (gabbro.tensor), or pass what it takes of it as an argument"
            )


def grown_containers(guards: list[Guard]) -> list[Guard]:
    """After a trace: the guards of lists, sets and dicts to which the function has added numbers or texts."""
    grown = []
    for kind, container, key, before in guards:
        if kind in SNAPSHOTS and len(container) > len(before):
            values = container.values() if kind == "dict" else container
            if all(isinstance(value, ATOMS) for value in values):
                grown.append((kind, container, key, before))
    return grown


def accept(guards: list[Guard], grown: list[Guard]) -> bool:
    """Makes guards expect the current containers instead of the former ones. Whether any guard changed."""
    changed = False
    for _, container, _, before in grown:
        for i, (kind, guarded, key, expected) in enumerate(guards):
            if guarded is container and expected == before:
                guards[i] = (kind, guarded, key, SNAPSHOTS[kind](container))
                changed = True
    return changed
