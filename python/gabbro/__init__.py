"""Tensors that plan before they compute, on AMD and NVIDIA GPUs and CPUs.

>>> import gabbro as gb
>>> x = gb.tensor([1.0, 2.0, 3.0])
>>> (x * x + 1).tolist()
[2.0, 5.0, 10.0]
"""

import math as _math
import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import _core, backend, image, llm, nn, optim, server

if _TYPE_CHECKING:  # mypy takes the first of two definitions
    from .functions import *  # noqa: F403
from ._core import *  # type: ignore[assignment]  # noqa: F403
from ._core import DeviceError as DeviceError
from ._core import bool_ as bool
from .airllm import AutoModel
from .data_types import (
    can_cast,
    finfo,
    get_default_dtype,
    iinfo,
    isdtype,
    promote_types,
    result_type,
    set_default_dtype,
)
from .functions import *  # noqa: F403
from .functions import __all__ as _functions
from .functions import attach as _attach
from .gradients import checkpoint, enable_grad, grad, inference_mode, no_grad, set_grad_enabled, value_and_grad
from .nn.files import load_state, save_state
from .precision import GradScaler, autocast
from .replay import Explanation, compile, explain
from .serialization import load, save
from .standard_functions import (
    __array_namespace_info__,
    conj,
    copysign,
    cumulative_prod,
    cumulative_sum,
    imag,
    logaddexp,
    nextafter,
    positive,
    real,
    signbit,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)

_attach.install()

from . import accelerator as accelerator  # noqa: E402
from . import amp as amp  # noqa: E402
from . import array_api as array_api  # noqa: E402
from . import autograd as autograd  # noqa: E402
from . import cuda as cuda  # noqa: E402
from . import distributed as distributed  # noqa: E402
from . import distributions as distributions  # noqa: E402
from . import func as func  # noqa: E402
from . import futures as futures  # noqa: E402
from . import linalg as linalg  # noqa: E402
from . import random as random  # noqa: E402
from . import serialization as serialization  # noqa: E402
from . import testing as testing  # noqa: E402
from . import utils as utils  # noqa: E402
from ._decompositions import det, logdet, matrix_power, slogdet  # noqa: E402
from ._decompositions import inv as inverse  # noqa: E402
from ._decompositions import pinv as pinverse  # noqa: E402
from .func import vmap  # noqa: E402

__version__ = "0.1.0"
__array_api_version__ = "2024.12"
__all__ = [
    "AutoModel",
    "Explanation",
    "GradScaler",
    "__array_namespace_info__",
    "accelerator",
    "amp",
    "array_api",
    "autocast",
    "autograd",
    "backend",
    "bool",
    "can_cast",
    "checkpoint",
    "compile",
    "conj",
    "copysign",
    "cuda",
    "cumulative_prod",
    "cumulative_sum",
    "det",
    "distributed",
    "distributions",
    "enable_grad",
    "explain",
    "finfo",
    "func",
    "futures",
    "get_default_dtype",
    "grad",
    "iinfo",
    "imag",
    "image",
    "inference_mode",
    "inverse",
    "isdtype",
    "linalg",
    "llm",
    "load",
    "load_state",
    "logaddexp",
    "logdet",
    "matrix_power",
    "nextafter",
    "nn",
    "no_grad",
    "optim",
    "pinverse",
    "positive",
    "promote_types",
    "random",
    "real",
    "result_type",
    "save",
    "save_state",
    "serialization",
    "server",
    "set_default_dtype",
    "set_grad_enabled",
    "signbit",
    "slogdet",
    "testing",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "utils",
    "value_and_grad",
    "vmap",
]
__all__ += [_name for _name in dir(_core) if _name in globals() and not _name.startswith("_")]
__all__ = sorted({*__all__, *_functions})

# Other names of dtypes, as PyTorch has them.
float, double, half = _core.float32, _core.float64, _core.float16
long, int, short = _core.int64, _core.int32, _core.int16
device = Device  # noqa: F405
Size = tuple  # type: ignore[type-arg]

e, pi, inf, nan = _math.e, _math.pi, _math.inf, _math.nan
newaxis = None

# CPU devices go on in a forked process, GPUs do not.
_os.register_at_fork(
    before=_core._before_fork,
    after_in_parent=_core._after_fork_in_parent,
    after_in_child=_core._after_fork_in_child,
)
