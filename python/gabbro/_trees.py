"""Nested lists, tuples and dicts, taken apart into their tensors and everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ._core import Tensor


def flattened(value: Any, tensors: list[Tensor]) -> Any:
    """What `value` is besides its tensors, which are appended to `tensors`: hashable where everything else is."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return Tensor
    if isinstance(value, (list, tuple)):
        return (type(value), *(flattened(item, tensors) for item in value))
    if isinstance(value, dict):
        return (dict, *((key, flattened(item, tensors)) for key, item in value.items()))
    if type(value) is float:
        return (float, value.hex())  # 0.0 and -0.0 are equal, and not the same; a NaN is not equal to itself
    if isinstance(value, (float, complex, np.inexact)):
        return ("bits", type(value), np.asarray(value).dtype.str, np.asarray(value).tobytes())
    return ("=", type(value), value)  # 1, 1.0 and True are equal, and not the same


def rebuilt(structure: Any, tensors: Iterable[Tensor]) -> Any:
    """The value that `flattened` took apart, with these tensors instead of the original ones."""
    return _rebuilt(structure, iter(tensors))


def _rebuilt(structure: Any, tensors: Iterator[Tensor]) -> Any:
    if structure is Tensor:
        return next(tensors)
    kind, *parts = structure
    if kind == "=":
        return parts[1]
    if kind is float:
        return float.fromhex(parts[0])
    if kind == "bits":
        of, dtype, content = parts
        return of(np.frombuffer(content, dtype)[0])
    if kind is dict:
        return {key: _rebuilt(part, tensors) for key, part in parts}
    items = [_rebuilt(part, tensors) for part in parts]
    if hasattr(kind, "_fields"):  # a named tuple
        return kind(*items)
    return kind(items)
