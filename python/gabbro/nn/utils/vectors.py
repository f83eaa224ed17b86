"""Parameters as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ... import _core
from ..._core import Tensor
from ...gradients import no_grad


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, in sequence: [count]."""
    return _core.concat([_core.reshape(parameter, -1) for parameter in parameters], 0)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Gives the parameters the elements of a vector."""
    listed = list(parameters)
    count = sum(math.prod(parameter.shape) for parameter in listed)
    if vec.shape != (count,):
        raise ValueError(f"[vector_to_parameters] a vector of shape {vec.shape} for {count} elements")
    at = 0
    with no_grad():
        for parameter in listed:
            end = at + math.prod(parameter.shape)
            parameter[...] = _core.reshape(vec[at:end], parameter.shape)
            at = end
