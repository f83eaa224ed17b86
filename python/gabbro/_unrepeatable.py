"""Values that a function takes from a random generator or an iterator, which a trace would repeat for ever."""

from __future__ import annotations

import _thread
import random
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

_NUMPY_SOURCES = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
_ENTROPY = {random.SystemRandom.getrandbits.__code__, random.SystemRandom.random.__code__}  # of seeds, secrets, uuid
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_SEED = random.Random.seed.__code__


def _is_iterator(value: Any) -> bool:
    """Whether it is an iterator of Python itself or of NumPy. A program's iterators are tracked by their attributes."""
    own = type(value).__module__ in ("builtins", "itertools") and isinstance(value, Iterator)
    return own or isinstance(value, (np.flatiter, np.nditer))


def is_source(value: Any) -> bool:
    """Whether the value that it gives depends on how often it was asked."""
    return isinstance(value, (random.Random, *_NUMPY_SOURCES)) or _is_iterator(value)


def _state(source: Any) -> Any:
    """Something that differs after the source was asked, or None where it cannot be seen."""
    if isinstance(source, random.Random):
        return None if isinstance(source, random.SystemRandom) else source.getstate()
    if isinstance(source, np.random.RandomState):
        return _frozen(source.get_state(legacy=False))
    if isinstance(source, np.random.Generator):
        return _frozen(source.bit_generator.state)
    if isinstance(source, np.random.BitGenerator):
        return _frozen(source.state)
    if isinstance(source, types.GeneratorType):
        return None
    if isinstance(source, np.flatiter):
        return source.index
    if isinstance(source, np.nditer):
        return source.iterindex
    return _position(source)


def _frozen(state: Any) -> Any:
    """The state of a generator of NumPy as something that can be compared."""
    if isinstance(state, dict):
        return tuple((key, _frozen(value)) for key, value in state.items())
    return state.tobytes() if isinstance(state, np.ndarray) else state


def _position(iterator: Any) -> Any:
    """Where an iterator stands, by the arguments that would make it again."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of itertools
            parts = iterator.__reduce__()
    except Exception:  # an object that cannot be copied
        return None
    return tuple(_part(part) for part in parts)


def _part(part: Any) -> Any:
    if isinstance(part, (int, str, type(None))):
        return part
    if isinstance(part, tuple):
        return tuple(_part(item) for item in part)
    if isinstance(part, list):  # of some iterators the items that are left
        return len(part)
    return _position(part) if _is_iterator(part) else id(part)


def _name(source: Any) -> str:
    if isinstance(source, random.Random):
        return "random numbers of Python's module random"
    if isinstance(source, _NUMPY_SOURCES):
        return "random numbers of NumPy"
    return f"values of an iterator ({type(source).__name__})"


class Watch:
    """Notes, while it is entered, whether one of these sources, or one that no one has named, is asked for a value.

    States are compared, and a profile function sees generators that go on and seeds from the system; it is left out
    where another profiler runs.
    """

    def __init__(self, sources: list[Any]) -> None:
        # The generators behind the functions of the two modules.
        everyone: list[Any] = [random._inst, np.random.mtrand._rand]  # type: ignore[attr-defined]
        self._sources = [*everyone, *sources]
        self._found: str | None = None
        self.has_threads = False  # the function may have had another thread compute something

    def __enter__(self) -> Watch:
        self._states = [_state(source) for source in self._sources]
        self._frames = {id(source.gi_frame) for source in self._sources if isinstance(source, types.GeneratorType)}
        self._has_iterators = any(_is_iterator(source) for source in self._sources)
        self._profiles = sys.getprofile() is None
        self.has_threads = not self._profiles
        if self._profiles:
            sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        if self._profiles:
            sys.setprofile(None)

    def _profile(self, frame: types.FrameType, event: str, called: Any) -> None:
        if event == "call":
            if id(frame) in self._frames:
                self._found = "values of a generator"
            elif frame.f_code in _ENTROPY or (frame.f_code is _SEED and frame.f_locals.get("a") is None):
                self._found = "random numbers of the system"
        elif event == "c_call":
            if called is next and self._has_iterators:
                self._found = "values of an iterator"
            elif called is _thread.start_new_thread or isinstance(getattr(called, "__self__", None), _LOCKS):
                self.has_threads = True

    def check(self) -> None:
        """Raises ValueError where a source was asked."""
        for source, before in zip(self._sources, self._states, strict=True):
            if before is not None and _state(source) != before:
                self._found = _name(source)
        if self._found is not None:
            raise ValueError(
                f"[compile] the function takes {self._found} while it is traced, and would repeat them in each call: "
                "pass them as arguments, or draw random numbers by gabbro"
            )
