"""The functions of `gabbro.backend.rocm` and `gabbro.backend.cuda`, for any backend whose devices keep memory."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .._core import Device

# Bytes: the weights of a model in float32, and the activations of one sample.
MODEL_SIZES = {
    "small": (48 << 20, 2 << 20),  # as ResNet-18, with 12 million weights
    "medium": (448 << 20, 16 << 20),  # as a transformer with 110 million weights
    "large": (1408 << 20, 64 << 20),  # with 350 million
}


class TuningCache:
    """What a device knows of the fastest way to compute each shape: by a kernel of Gabbro's, or by a vendor's library.

    The methods raise RuntimeError where the device has one way for each shape, as a CPU has.
    """

    def __init__(self, device: Device) -> None:
        self.device = device

    def enable_exhaustive_search(self, enable: bool = True) -> None:
        """Whether all candidates of a shape without a measurement are measured when it is first computed.

        Libraries that can search among their own algorithms (MIOpen) do so before, which may take minutes a shape; what
        they find is kept. It holds for what is planned from now on.
        """
        self.device.set_tuning(measure=enable, search=enable)

    def set_cache_file(self, path: str | PathLike[str]) -> None:
        """The file that measurements are read from and written to, a text file; that of Gabbro's folder until then.

        RuntimeError where it is the file of another program, or is to be written and cannot be.
        """
        self.device.set_tuning(file=fspath(path))

    def clear(self) -> None:
        """Clears the measured speeds and the counts. The file is unchanged."""
        self.device.clear_tuning()

    def get_stats(self) -> dict[str, Any]:
        """``hits`` and ``misses`` (shapes that were looked up), ``entries``, and the rest of `Device.tuning_stats`."""
        return self.device.tuning_stats()

    def get_measurements(self) -> list[dict[str, Any]]:
        """What was measured since the device was first used: `Device.measured_shapes`."""
        return self.device.measured_shapes()


class PinnedMemoryPool:
    """Host memory from which a device copies directly, and which is cached when it is released.

    The methods raise RuntimeError for a device that computes in the host's memory, and MemoryError where there is not
    enough.
    """

    def __init__(self, device: Device) -> None:
        self.device = device

    def warmup(self, sizes: Iterable[int]) -> None:
        """Pins memory now, in addition to what there is, for buffers of these many bytes: to pin takes long."""
        for size in sizes:
            self.device.reserve_memory(size, pinned=True)

    def acquire(self, size: int) -> npt.NDArray[np.uint8]:
        """A buffer of `size` bytes, which comes back to the pool with the last view of it: `Device.pinned_buffer`."""
        return self.device.pinned_buffer(size)

    def clear(self) -> int:
        """Releases unused memory; returns the bytes."""
        return self.device.empty_cache(pinned=True)

    def get_stats(self) -> dict[str, int]:
        """What the pool has and has done, as `Device.memory_stats` says it with ``pinned_`` before each name."""
        stats = self.device.memory_stats()
        return {name.removeprefix("pinned_"): stats[name] for name in stats if name.startswith("pinned_")}


class MemoryManager:
    """The memory of a device. Freed pieces are kept for later; a tensor that goes away costs no call of the driver."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def get_stats(self) -> dict[str, int]:
        """Bytes and counts of allocations, since the device was first used or `reset_stats`.

        ``total_allocated`` and ``peak_allocated`` (in use), ``total_reserved`` and ``peak_reserved`` (with what is
        kept), ``total_allocations``, ``total_deallocations``, and how many allocations were served by what is kept
        (``cache_hits``) or by the driver (``cache_misses``).
        """
        stats = self.device.memory_stats()
        return {
            "total_allocated": stats["allocated_bytes"],
            "peak_allocated": stats["allocated_bytes_peak"],
            "total_reserved": stats["reserved_bytes"],
            "peak_reserved": stats["reserved_bytes_peak"],
            "total_allocations": stats["allocations"],
            "total_deallocations": stats["frees"],
            "cache_hits": stats["cache_hits"],
            "cache_misses": stats["allocations"] - stats["cache_hits"],
        }

    def reset_stats(self) -> None:
        """Resets peaks and counts."""
        self.device.reset_memory_stats()

    def reserve(self, size: int) -> None:
        """Takes `size` bytes more from the driver, for pieces of any size: `Device.reserve_memory`."""
        self.device.reserve_memory(size)

    def clear_pool(self) -> int:
        """Releases memory that no tensor uses; returns the bytes. `Device.empty_cache`."""
        return self.device.empty_cache()

    def get_memory_info(self) -> tuple[int, int]:
        """(free, total) bytes of the whole device, other programs' share counted as used."""
        info = _core.device_info(self.device)
        return info["free_memory"], info["total_memory"]


class GpuBackend:
    """The functions of one backend, by its name. All but the first two raise `gabbro.DeviceError` without a device."""

    def __init__(self, name: str) -> None:
        self.name = name

    def is_available(self) -> bool:
        """Whether this machine has a device of this backend that can be used. Never raises."""
        return self.get_device_count() > 0

    def get_device_count(self) -> int:
        """How many devices of this backend can be used."""
        return _core._usable_count(self.name)

    def get_device_info(self, device_id: int = 0) -> dict[str, Any]:
        """What is known of a device, by its number: as `gabbro.device_info`."""
        return _core._numbered_facts(self.name, device_id)

    def set_device(self, device_id: int) -> None:
        """Makes a device, by its number, the one that new tensors live on."""
        _core.set_device(f"{self.name}:{device_id}")

    def get_current_device(self) -> int:
        """The number of the device that new tensors live on; -1 where that is none of this backend."""
        return _core._current_index(self.name)

    def synchronize(self) -> None:
        """Waits until the current device has done all that it was given."""
        _core.synchronize(self._device())

    def get_tuning_cache(self) -> TuningCache:
        """What the current device knows of the speed of its kernels and libraries, and whether it measures more.

        Each device has one cache; this object refers to it.
        """
        return TuningCache(self._device())

    def get_pinned_pool(self) -> PinnedMemoryPool:
        """The current device's pinned memory of the host."""
        return PinnedMemoryPool(self._device())

    def get_memory_manager(self) -> MemoryManager:
        """The current device's own memory."""
        return MemoryManager(self._device())

    def warmup_memory_pool(self, batch_size: int = 32, model_size: str = "medium") -> int:
        """Reserves device memory for a model and a batch, so that the first step does not wait for the driver.

        Parameters
        ----------
        batch_size : int
            Samples.
        model_size : str
            ``"small"``: 48 MiB, and 2 MiB a sample. ``"medium"``: 448 MiB, and 16 MiB a sample. ``"large"``: 1408 MiB,
            and 64 MiB a sample. ``get_memory_manager().reserve(bytes)`` takes any number.

        Returns
        -------
        int
            The bytes.

        Raises
        ------
        ValueError
            For another word, and no samples.
        MemoryError
            If the device does not have that much memory.
        """
        if model_size not in MODEL_SIZES:
            raise ValueError(f"[warmup_memory_pool] model_size is one of {', '.join(MODEL_SIZES)}, not {model_size!r}")
        if batch_size < 1:
            raise ValueError(f"[warmup_memory_pool] a batch of {batch_size} samples")
        weights, activations = MODEL_SIZES[model_size]
        size = weights + batch_size * activations
        self.get_memory_manager().reserve(size)
        return size

    def _device(self) -> Device:
        return _core._current_device(self.name)
