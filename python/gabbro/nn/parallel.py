"""Modules over several devices: names of torch.nn.parallel, which one process with one device has."""

from __future__ import annotations

from typing import Any

from .._core import Module

__all__ = ["DataParallel", "DistributedDataParallel"]


class DataParallel(Module):
    """A module on one device: `device_ids` has at most one entry."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("[DataParallel] several devices are not supported: device_ids=[0]")
        if dim != 0 or output_device is not None:
            raise ValueError("[DataParallel] dim and output_device are not supported")
        self.module = module
        if device_ids:
            self.to(f"cuda:{device_ids[0]}" if isinstance(device_ids[0], int) else device_ids[0])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """Not supported: training over several processes. Making one raises ValueError."""

    def __init__(self, module: Module, *args: Any, **options: Any) -> None:
        super().__init__()
        raise ValueError("[DistributedDataParallel] training over several processes is not supported")
