"""Tensors that plan before they compute, on AMD and NVIDIA GPUs and CPUs.

>>> import gabbro as gb
>>> x = gb.tensor([1.0, 2.0, 3.0])
>>> (x * x + 1).tolist()
[2.0, 5.0, 10.0]
"""

import math as _math
import os as _os

from . import _core, backend, llm, nn, optim, server
from ._core import *  # noqa: F403
from ._core import DeviceError as DeviceError
from ._core import bool_ as bool
from .airllm import AutoModel
from .array_api import (
    __array_namespace_info__,
    conj,
    copysign,
    cumulative_prod,
    cumulative_sum,
    diff,
    imag,
    logaddexp,
    nextafter,
    positive,
    real,
    searchsorted,
    signbit,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from .data_types import can_cast, finfo, iinfo, isdtype, result_type
from .gradients import checkpoint, grad, no_grad, value_and_grad
from .nn.files import load_state, save_state
from .precision import GradScaler, autocast
from .replay import Explanation, compile, explain

__version__ = "0.1.0"
__array_api_version__ = "2024.12"
__all__ = [
    "AutoModel",
    "Explanation",
    "GradScaler",
    "__array_namespace_info__",
    "autocast",
    "backend",
    "bool",
    "can_cast",
    "checkpoint",
    "compile",
    "conj",
    "copysign",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "explain",
    "finfo",
    "grad",
    "iinfo",
    "imag",
    "isdtype",
    "llm",
    "load_state",
    "logaddexp",
    "nextafter",
    "nn",
    "no_grad",
    "optim",
    "positive",
    "real",
    "result_type",
    "save_state",
    "searchsorted",
    "server",
    "signbit",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "value_and_grad",
]
__all__ += [_name for _name in dir(_core) if _name in globals() and not _name.startswith("_")]

e, pi, inf, nan = _math.e, _math.pi, _math.inf, _math.nan
newaxis = None

# CPU devices go on in a forked process, GPUs do not.
_os.register_at_fork(
    before=_core._before_fork,
    after_in_parent=_core._after_fork_in_parent,
    after_in_child=_core._after_fork_in_child,
)
