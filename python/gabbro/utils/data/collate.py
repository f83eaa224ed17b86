"""Lists of items as batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import _core
from ..._core import Tensor


def default_collate(batch: list[Any]) -> Any:
    """Tensors and arrays are stacked, numbers become tensors; tuples, lists and dicts are collated inside.

    Floats of Python become float64 as in PyTorch, and ints int64.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _core.stack(batch, 0)
    if isinstance(first, (np.ndarray, np.generic)):
        return _core.tensor(np.stack([np.asarray(item) for item in batch]))
    if isinstance(first, bool):
        return _core.tensor(batch)
    if isinstance(first, float):
        return _core.tensor(batch, dtype=_core.float64)
    if isinstance(first, int):
        return _core.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {name: default_collate([item[name] for item in batch]) for name in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(list(column)) for column in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(item) != len(first) for item in batch):
            raise ValueError("[default_collate] the items of a batch are lists of different lengths")
        columns = [default_collate(list(column)) for column in zip(*batch, strict=True)]
        return columns
    raise TypeError(
        f"[default_collate] a batch of {type(first).__name__}: tensors, arrays, numbers, texts, lists and dicts"
    )


def default_convert(data: Any) -> Any:
    """Arrays as tensors, inside of lists and dicts too; everything else stays."""
    if isinstance(data, (np.ndarray, np.generic)):
        return _core.tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return {name: default_convert(value) for name, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(item) for item in data))
    if isinstance(data, (list, tuple)):
        return [default_convert(item) for item in data]
    return data
