"""What a function uses without being given it: found by walking what its code, closure and attributes refer to.

`gabbro.compile` reads the tensors among it again in each call, and traces the function again where anything else has
changed. What cannot be seen from Python is not found: objects of extensions.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import _core
from ._core import Module, Tensor
from ._unrepeatable import is_source

Guard = tuple[str, Any, Any, Any]

ATOMS = (int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, slice)
METHODS = (types.FunctionType, staticmethod, classmethod, property)
DYNAMIC = {"getattr", "hasattr", "vars", "__dict__"}  # code with these may use attributes of any name
# Methods of objects that exist: what is called by f(x), x[i], x + y and the like is not among these.
UNUSED = {"__init__", "__new__", "__del__", "__repr__", "__str__", "__reduce__", "__reduce_ex__", "__getstate__",
          "__setstate__", "__copy__", "__deepcopy__"}  # fmt: skip
LIBRARIES = {*sys.stdlib_module_names, "gabbro", "numpy"}  # whose own code and constants do not change


def _is_library(name: Any) -> bool:
    return isinstance(name, str) and name.partition(".")[0] in LIBRARIES and name != "__main__"


def _names(code: types.CodeType) -> set[str]:
    """The names of globals and attributes that a function's code and the functions inside of it use."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
        elif isinstance(constant, str):
            names.add(constant)
    return names


class _Attributes:
    """The attributes of one object or class. Only the ones whose names some code uses count."""

    def __init__(self, owner: Any, values: Mapping[str, Any]) -> None:
        self.owner = owner
        self.values = values
        self._seen: set[str] = set()

    def named(self, names: set[str] | None) -> list[tuple[str, Any]]:
        """The attributes with these names (None: all) that were not returned before."""
        fresh = self.values.keys() - self._seen if names is None else (self.values.keys() & names) - self._seen
        self._seen |= fresh
        return [(name, self.values[name]) for name in sorted(fresh)]


class Walk:
    """Visits objects, and collects guards and the places of tensors."""

    def __init__(self) -> None:
        self.guards: list[Guard] = []
        self.places: list[Tensor] = []
        self.sources: list[Any] = []  # random generators and iterators
        self._known: dict[int, Any] = {}  # which keeps them alive, so that no id is used twice
        self._waiting: list[Any] = []
        self._names = {"forward"}  # that the code uses
        self._dynamic = False  # it may use attributes of any name
        self._objects: list[_Attributes] = []
        self._kinds: set[type] = set()

    def visit_all(self, *values: Any) -> None:
        self._waiting.extend(values)
        while self._waiting:
            self._visit_waiting()
            for attributes in self._objects:  # code that was found since may use more of them
                for name, value in attributes.named(None if self._dynamic else self._names):
                    self._visit_attribute(attributes, name, value)

    def _visit_attribute(self, attributes: _Attributes, name: str, value: Any) -> None:
        if isinstance(attributes.values, dict):
            self.guards.append(("item", attributes.values, name, value))
        elif isinstance(value, METHODS):  # whose code does not change
            pass
        elif name.startswith("__") or hasattr(value, "__get__"):
            return
        else:
            self.guards.append(("attribute", attributes.owner, name, value))
        self._later(value)

    def _visit_waiting(self) -> None:
        while self._waiting:  # not recursive: objects may be linked in long chains
            value = self._waiting.pop()
            if isinstance(value, ATOMS) or id(value) in self._known:
                continue
            self._known[id(value)] = value
            self._visit(value)

    def _later(self, value: Any) -> None:
        if not isinstance(value, ATOMS):
            self._waiting.append(value)

    def _visit(self, value: Any) -> None:
        if isinstance(value, Tensor):
            self.places.append(value)
        elif isinstance(value, types.FunctionType):
            self._visit_function(value)
        elif isinstance(value, types.MethodType):
            self._waiting += [value.__self__, value.__func__]
        elif isinstance(value, (staticmethod, classmethod)):
            self._later(value.__func__)
        elif isinstance(value, property):
            self._later(value.fget)
        elif isinstance(value, functools.partial):
            self._waiting += [value.func, value.args, value.keywords]
        elif isinstance(value, list):
            self.guards.append(("list", value, None, tuple(value)))
            self._waiting += value
        elif isinstance(value, tuple):
            self._waiting += value
        elif isinstance(value, dict):
            self._visit_dict(value)
        elif isinstance(value, (set, frozenset)):
            self.guards.append(("equal", value, None, frozenset(value)))
        elif isinstance(value, np.ndarray):
            self.guards.append(("bytes", value, None, value.tobytes()))
        elif isinstance(value, weakref.ReferenceType):
            self._later(value())
        elif isinstance(value, type):
            self._visit_class(value, set())
        elif not isinstance(value, types.ModuleType):
            if is_source(value):
                self.sources.append(value)
            self._visit_object(value)

    def _visit_dict(self, value: dict[Any, Any]) -> None:
        self.guards.append(("dict", value, None, dict(value)))
        self._waiting += value.values()

    def _visit_function(self, function: Any) -> None:
        inner = vars(function).get("_compiled_function")
        if inner is not None:  # of gabbro.compile: its own traces are not to be looked through
            return self._later(inner)
        names = _names(function.__code__)
        self._names |= names
        self._dynamic = self._dynamic or (bool(names & DYNAMIC) and not _is_library(function.__module__))
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            self.guards.append(("cell", cell, None, content))
            self._later(content)
        self._waiting += [function.__defaults__, function.__kwdefaults__]
        self._later(vars(function).get("__wrapped__"))
        if not _is_library(function.__module__):
            self._visit_globals(function.__globals__, names)

    def _visit_globals(self, variables: dict[str, Any], names: set[str]) -> None:
        for name in names & variables.keys():
            value = variables[name]
            self.guards.append(("item", variables, name, value))
            if isinstance(value, types.ModuleType):
                if not _is_library(value.__name__) and id(value) not in self._known:
                    self._known[id(value)] = value
                    self._visit_globals(vars(value), names)
            else:
                self._later(value)

    def _visit_class(self, kind: type, unused: set[str]) -> None:
        for base in kind.__mro__:
            if _is_library(base.__module__):
                for value in vars(base).values():
                    if isinstance(value, types.FunctionType):
                        self._names |= _names(value.__code__)
                continue
            self._objects.append(_Attributes(base, vars(base)))
            for name, value in vars(base).items():
                if isinstance(value, types.FunctionType) and name.startswith("__") and name not in unused:
                    self._later(value)

    def _visit_object(self, value: Any) -> None:
        if isinstance(value, Module):
            self._visit_module(value)
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self._objects.append(_Attributes(value, attributes))
            if self._dynamic:
                self.guards.append(("size", attributes, None, len(attributes)))
        for base in type(value).__mro__:
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else tuple(slots):
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    self.guards.append(("attribute", value, name, getattr(value, name)))
                    self._later(getattr(value, name))
        if type(value) not in self._kinds:
            self._kinds.add(type(value))
            self._visit_class(type(value), UNUSED)
        self._later(getattr(value, "__wrapped__", None))

    def _visit_module(self, module: Module) -> None:
        self.guards.append(("training", module, None, module.training))
        self.guards.append(("options", module, None, _core._changes(module)))
        tensors = [tensor for _, tensor, _, _ in _core._own_tensors(module)]
        self._waiting += tensors
        self._waiting += module.children()
        self.guards.append(("size", vars(module), None, len(vars(module))))
        for name, value in vars(module).items():  # also those that are called by a loop over them
            if isinstance(value, (Tensor, Module)):
                self.guards.append(("item", vars(module), name, value))
        if getattr(module, "format", None) is not None:  # it computes with its weight in the device's packing
            self.guards += [("state", tensor, None, None) for tensor in tensors]


def walk(*roots: Any | Callable[..., Any]) -> Walk:
    """What these functions and objects refer to."""
    found = Walk()
    found.visit_all(*roots)
    return found


SNAPSHOTS: dict[str, Any] = {"list": tuple, "equal": frozenset, "dict": dict}


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
