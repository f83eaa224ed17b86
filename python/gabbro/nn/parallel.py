"""Modules over several devices under the names of torch.nn.parallel: `gabbro.distributed` has the class."""

from __future__ import annotations

from typing import Any

from .. import distributed
from .._core import Module

__all__ = ["DataParallel", "DistributedDataParallel"]


class DataParallel(distributed.DataParallel):
    """A module that computes its batch on the devices of `device_ids`: as `gabbro.distributed.DataParallel`.

    Results are on the first device, and names in state dicts begin with ``module.``, as PyTorch's do.
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        if dim != 0 or output_device is not None:
            raise ValueError("[DataParallel] dim and output_device are not supported")
        super().__init__(module, None if device_ids is None or len(device_ids) == 0 else device_ids)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The module's, under names that begin with ``module.``."""
        return Module.state_dict(self, *args, **kwargs)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """As `Module.load_state_dict`, with names that begin with ``module.``."""
        return Module.load_state_dict(self, state_dict, strict, assign)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        """The module's, under names that begin with ``module.``."""
        return Module.named_parameters(self, *args, **kwargs)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Any:
        """The module's, under names that begin with ``module.``."""
        return Module.named_buffers(self, *args, **kwargs)


class DistributedDataParallel(Module):
    """Not supported under this name: `gabbro.distributed.DataParallel` trains over processes. Raises ValueError."""

    def __init__(self, module: Module, *args: Any, **options: Any) -> None:
        super().__init__()
        raise ValueError("[DistributedDataParallel] is not supported: use gabbro.distributed.DataParallel under mpirun")
