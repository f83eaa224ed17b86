"""GPUs under PyTorch's names: NVIDIA's, or, as in PyTorch for ROCm, AMD's on a machine without NVIDIA's.

>>> isinstance(gb.cuda.is_available(), bool)
True
"""

from __future__ import annotations

import contextlib
from typing import Any

from . import _core
from ._core import Device
from .functions.random import Generator, default_generator
from .precision import GradScaler, autocast

__all__ = [
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
]


def _backend() -> str:
    return "rocm" if not _core._usable_count("cuda") and _core._usable_count("rocm") else "cuda"


def _named(device: Any) -> Device:
    """A GPU: of its number, its name, or the current one."""
    if isinstance(device, Device):
        return device
    if device is None:
        return _core._current_device(_backend())
    if isinstance(device, bool) or not isinstance(device, (int, str)):
        raise TypeError(f"[cuda] {device!r} is not a device: its number or its name")
    return Device(f"cuda:{device}" if isinstance(device, int) else device)


def is_available() -> bool:
    """Whether this machine has a GPU that can be used. Never raises."""
    return device_count() > 0


def device_count() -> int:
    """How many GPUs can be used."""
    return _core._usable_count(_backend())


def set_device(device: Any) -> None:
    """Makes a GPU the device that new tensors live on: `gabbro.set_device`."""
    _core.set_device(_named(device))


def current_device() -> int:
    """The number of the GPU that is used without a number."""
    index = _core._current_index(_backend())
    return 0 if index < 0 else index


def synchronize(device: Any = None) -> None:
    """Waits until a GPU has done all that it was given."""
    _core.synchronize(_named(device))


def empty_cache() -> None:
    """Gives memory of the current GPU's pool that is not used back to it; nothing on a machine without one."""
    if is_available():
        _named(None).empty_cache()


def get_device_name(device: Any = None) -> str:
    """What the GPU is called."""
    return str(_core.device_info(_named(device))["name"])


class DeviceProperties:
    """Facts of a GPU, as attributes: `name`, `total_memory`, `multi_processor_count`, `architecture` and more."""

    def __init__(self, facts: dict[str, Any]) -> None:
        vars(self).update(facts)
        self.multi_processor_count = facts["compute_units"]
        self.gcnArchName = facts["architecture"]

    def __repr__(self) -> str:
        return f"DeviceProperties({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Facts of a GPU."""
    return DeviceProperties(_core.device_info(_named(device)))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 can be computed: each GPU that can be used does."""
    return is_available()


def init() -> None:
    """Nothing: devices are opened when they are first used."""


def is_initialized() -> bool:
    """Whether there is a GPU: it is opened when it is first used."""
    return is_available()


def manual_seed(seed: int) -> Generator:
    """As `gabbro.manual_seed`: all devices have the same numbers."""
    return default_generator.manual_seed(seed)


manual_seed_all = manual_seed


def _memory(device: Any, name: str) -> int:
    return int(_named(device).memory_stats()[name])


def memory_allocated(device: Any = None) -> int:
    """The bytes that tensors on a GPU use."""
    return _memory(device, "allocated_bytes")


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors on a GPU have used."""
    return _memory(device, "allocated_bytes_peak")


def memory_reserved(device: Any = None) -> int:
    """The bytes of a GPU's pool."""
    return _memory(device, "reserved_bytes")


max_memory_reserved = memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begins with counting for `max_memory_allocated` again."""
    _named(device).reset_memory_stats()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The bytes of a GPU's memory that are free, and all of them."""
    facts = _core.device_info(_named(device))
    return int(facts["free_memory"]), int(facts["total_memory"])


class device(contextlib.ContextDecorator):
    """While it lasts, new tensors live on this GPU."""

    def __init__(self, device: Any) -> None:
        self._device = _named(device)

    def __enter__(self) -> device:
        self._before = _core.get_device()
        _core.set_device(self._device)
        return self

    def __exit__(self, *error: Any) -> None:
        _core.set_device(self._before)


class amp:
    """Names of torch.cuda.amp."""

    autocast = autocast
    GradScaler = GradScaler
