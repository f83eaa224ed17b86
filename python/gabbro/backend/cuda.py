"""NVIDIA's GPUs: memory pools and tuning of the current one. See `gabbro.backend`."""

from .gpu import GpuBackend, MemoryManager, PinnedMemoryPool, TuningCache

_backend = GpuBackend("cuda")

is_available = _backend.is_available
get_device_count = _backend.get_device_count
get_device_info = _backend.get_device_info
get_current_device = _backend.get_current_device
set_device = _backend.set_device
synchronize = _backend.synchronize
get_tuning_cache = _backend.get_tuning_cache
get_pinned_pool = _backend.get_pinned_pool
get_memory_manager = _backend.get_memory_manager
warmup_memory_pool = _backend.warmup_memory_pool

__all__ = [
    "MemoryManager",
    "PinnedMemoryPool",
    "TuningCache",
    "get_current_device",
    "get_device_count",
    "get_device_info",
    "get_memory_manager",
    "get_pinned_pool",
    "get_tuning_cache",
    "is_available",
    "set_device",
    "synchronize",
    "warmup_memory_pool",
]
