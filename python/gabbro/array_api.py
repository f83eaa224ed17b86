"""The functions of the Python array API standard with its meanings: what ``x.__array_namespace__()`` gives.

>>> xp = gb.ones(2).__array_namespace__()
>>> xp.sort(gb.tensor([3.0, 1.0])), xp.std(gb.tensor([1.0, 3.0]))
(tensor([1., 3.]), tensor(1.))
"""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import _core
from ._core import *  # noqa: F403
from ._core import bool_ as bool
from .data_types import can_cast, finfo, iinfo, isdtype, result_type
from .functions import argmax, argmin, argsort, count_nonzero  # type: ignore[assignment]
from .standard_functions import (
    VERSIONS,
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

if _TYPE_CHECKING:
    from ._core import Tensor

__array_api_version__ = "2024.12"

e, pi, inf, nan = _math.e, _math.pi, _math.inf, _math.nan
newaxis = None


def nonzero(x: Tensor) -> tuple[Tensor, ...]:  # type: ignore[no-redef]
    """The indices of elements that are not 0, a vector for each axis, int64. Evaluates `x`.

    >>> gb.array_api.nonzero(gb.tensor([0, 3]))
    (tensor([1]),)
    """
    return tuple(places.astype(_core.int64) for places in _core.nonzero(x))


__all__ = [
    "VERSIONS",
    "__array_namespace_info__",
    "argmax",
    "argmin",
    "argsort",
    "bool",
    "can_cast",
    "conj",
    "copysign",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "finfo",
    "iinfo",
    "imag",
    "isdtype",
    "logaddexp",
    "nextafter",
    "nonzero",
    "positive",
    "real",
    "result_type",
    "searchsorted",
    "signbit",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
__all__ += [_name for _name in _core.__all__ if _name not in __all__]
