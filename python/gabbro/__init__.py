"""Tensors that plan before they compute, on AMD and NVIDIA GPUs and CPUs.

>>> import gabbro as gb
>>> x = gb.tensor([1.0, 2.0, 3.0])
>>> (x * x + 1).tolist()
[2.0, 5.0, 10.0]
"""

import os as _os

from . import _core
from ._core import *  # noqa: F403
from ._core import DeviceError as DeviceError
from ._core import bool_ as bool
from .gradients import checkpoint, grad, no_grad, value_and_grad
from .replay import compile, explain

__version__ = "0.1.0"
__all__ = ["DeviceError", "bool", "checkpoint", "compile", "explain", "grad", "no_grad", "value_and_grad"]
__all__ += [_name for _name in dir(_core) if not _name.startswith("_")]

# The threads of a device do not come along into a forked process.
_os.register_at_fork(after_in_child=_core._forget_devices)
