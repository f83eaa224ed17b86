"""The machine's GPU under PyTorch's names, of AMD or NVIDIA: as `gabbro.cuda`. A `Device` says which it is.

>>> isinstance(gb.accelerator.is_available(), bool)
True
"""

from __future__ import annotations

from typing import Any

from . import cuda
from ._core import Device
from .cuda import current_device as current_device_index
from .cuda import (
    device_count,
    empty_cache,
    is_available,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    synchronize,
)
from .cuda import reset_peak_memory_stats as reset_peak_memory_stats

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device_index",
    "synchronize",
]


def current_accelerator(check_available: bool = False) -> Device | None:
    """The GPU that is used; None without one.

    Parameters
    ----------
    check_available : bool
        Makes no difference: None says that no GPU can be used.

    >>> gb.accelerator.current_accelerator() is None or gb.accelerator.is_available()
    True
    """
    return cuda._named(None) if is_available() else None


def set_device_index(device: Any) -> None:
    """Makes a GPU, by its number, the one that new tensors live on."""
    cuda.set_device(device)
