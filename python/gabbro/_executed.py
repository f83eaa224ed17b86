"""The code that runs while a function is traced: the names that it reads, line by line."""

from __future__ import annotations

import dis
import functools
import sys
import types
from typing import Any

LIBRARIES = {*sys.stdlib_module_names, "gabbro", "numpy"}  # whose own code and constants do not change
COPYING = {"copy", "copyreg", "dataclasses", "inspect", "pickle"}  # they read attributes of any name
# Code with these may read attributes of any name, too.
DYNAMIC = {"getattr", "hasattr", "vars", "dir", "__dict__", "__getattribute__", "getattr_static", "getmembers"}
_IMPORT_NAME = dis.opmap["IMPORT_NAME"]


def is_library(name: Any) -> bool:
    """Whether a module is a part of Python, NumPy or Gabbro."""
    return isinstance(name, str) and name.partition(".")[0] in LIBRARIES and name != "__main__"


def _texts(constant: Any) -> set[str]:
    """The names in a constant of some code."""
    if isinstance(constant, str):
        return {constant}
    if isinstance(constant, (tuple, frozenset)):
        return set().union(*map(_texts, constant))
    return set()


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> frozenset[str]:
    """The names of globals and attributes that a function's code and the functions inside of it use."""
    names = set(code.co_names)
    for constant in code.co_consts:
        names |= names_of(constant) if isinstance(constant, types.CodeType) else _texts(constant)
    return frozenset(names)


@functools.lru_cache(maxsize=4096)
def codes_of(code: types.CodeType) -> frozenset[types.CodeType]:
    """The code and that of the functions inside of it."""
    inner = [codes_of(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset([code]).union(*inner)


@functools.lru_cache(maxsize=4096)
def imports_of(code: types.CodeType) -> frozenset[str]:
    """The modules that the code and the functions inside of it import."""
    importing = [inner for inner in codes_of(code) if _IMPORT_NAME in inner.co_code[::2]]
    instructions = (instruction for inner in importing for instruction in dis.get_instructions(inner))
    return frozenset(instruction.argval for instruction in instructions if instruction.opname == "IMPORT_NAME")


@functools.lru_cache(maxsize=1024)
def _names_by_line(code: types.CodeType) -> dict[int, set[str]]:
    """The names that each line reads. Instructions without a line count for the first one."""
    starts = dict(dis.findlinestarts(code))
    lines: dict[int, set[str]] = {}
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        line = starts.get(instruction.offset, line) or code.co_firstlineno
        name, value = instruction.opname, instruction.argval
        names = lines.setdefault(line, set())
        if name == "MATCH_CLASS":
            names.add("__dict__")  # the attributes by position have their names in the class
        if "FAST" not in name and not name.startswith(("STORE_", "DELETE_")):
            names |= _texts(value)
    return lines


class Executed:
    """Notes, while it is entered, what code runs in this thread and what it reads.

    The code of libraries is noted by function, all other code by line. Where a debugger runs nothing is noted.
    """

    def __init__(self) -> None:
        self.is_complete = False
        self.names: set[str] = set()
        self.codes: set[types.CodeType] = set()
        self.variables: dict[types.CodeType, dict[str, Any]] = {}  # the globals of code outside of libraries
        self.absent: list[tuple[Any, str]] = []  # attributes and globals that an object did not have
        self.is_dynamic = False  # attributes of any name may have been read

    def __enter__(self) -> Executed:
        self.is_complete = sys.gettrace() is None
        if self.is_complete:
            sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_complete:
            sys.settrace(None)

    def _call(self, frame: types.FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        module = frame.f_globals.get("__name__")
        if code not in self.codes:
            self.codes.add(code)
            if is_library(module):
                self.names |= names_of(code)
                self.is_dynamic = self.is_dynamic or module in COPYING
            else:
                self.variables[code] = frame.f_globals
        if is_library(module):
            return None
        if code.co_name == "__getattr__" and code.co_argcount == 2:
            owner, name = (frame.f_locals[variable] for variable in code.co_varnames[:2])
            self.absent.append((owner, name))
        return self._line(frame, "line", None)

    def _line(self, frame: types.FrameType, event: str, what: Any) -> Any:
        if event == "line":
            names = _names_by_line(frame.f_code).get(frame.f_lineno, set())
            self.names |= names
            self.is_dynamic = self.is_dynamic or not DYNAMIC.isdisjoint(names)
        elif event == "exception":
            error = what[1]
            if isinstance(error, AttributeError) and error.name is not None:
                self.absent.append((error.obj, error.name))
            elif isinstance(error, NameError) and error.name is not None:
                self.absent.append((frame.f_globals, error.name))
        return self._line
