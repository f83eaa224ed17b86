"""Nested lists, tuples and dicts, taken apart into their tensors and everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

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
    if kind is dict:
        return {key: _rebuilt(part, tensors) for key, part in parts}
    items = [_rebuilt(part, tensors) for part in parts]
    if hasattr(kind, "_fields"):  # a named tuple
        return kind(*items)
    return kind(items)
