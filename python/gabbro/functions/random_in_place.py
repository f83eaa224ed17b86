"""Random numbers in place, with PyTorch's arguments."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Tensor
from ._arguments import refuse_unknown
from .random import Generator, _normal, _uniform, drawn_from


def _assigned(x: Tensor, values: Tensor) -> Tensor:
    x[...] = values.astype(x.dtype)
    return x


def uniform_(self: Tensor, a: float = 0, b: float = 1, *, generator: Generator | None = None, **rest: Any) -> Tensor:
    """Gets numbers spread evenly over [a, b); PyTorch's names of these are `from` and `to`."""
    low, high = rest.pop("from", a), rest.pop("to", b)
    refuse_unknown("uniform_", rest)
    if not low <= high:
        raise ValueError(f"[uniform_] from {low} to {high}")
    with drawn_from(generator):
        u = _uniform(self.shape, self.dtype, self.device)
    return _assigned(self, u * (high - low) + low)


def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Gets normal numbers."""
    if not std >= 0:
        raise ValueError(f"[normal_] std is {std}: it is not negative")
    with drawn_from(generator):
        x = _normal(self.shape, self.dtype, self.device)
    return _assigned(self, x * std + mean)


def random_(self: Tensor, *bounds: Any, generator: Generator | None = None, **rest: Any) -> Tensor:
    """Gets whole numbers: of [0, to), of [from, to), or all that the dtype holds exactly, within int32."""
    low, high = rest.pop("from", None), rest.pop("to", None)
    if rest or len(bounds) > 2:
        raise TypeError("[random_] the arguments are from and to")
    if len(bounds) == 1 and high is None:
        high = bounds[0]
    elif bounds:
        low, high = (*bounds, high)[:2]
    most = {
        "float16": 2**11,
        "bfloat16": 2**8,
        "float32": 2**24,
        "uint8": 2**8,
        "int8": 2**7,
        "int16": 2**15,
        "bool": 2,
    }
    if high is None:
        high = most.get(str(self.dtype), 2**31 - 1)
    with drawn_from(generator):
        x = _core.randint(low or 0, high, self.shape, dtype=_core.int32, device=self.device)
    return _assigned(self, x)


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Becomes 1 with the probability `p`, else 0."""
    with drawn_from(generator):
        drawn = _core.rand(self.shape, device=self.device)
    return _assigned(self, drawn < (p.detach() if isinstance(p, Tensor) else p))


def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Gets numbers of the exponential distribution."""
    if not lambd > 0:
        raise ValueError(f"[exponential_] lambd is {lambd}: it is positive")
    with drawn_from(generator):
        u = _core.rand(self.shape, device=self.device)
    return _assigned(self, -_core.log(1 - u) / lambd)


def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Gets exponentials of normal numbers."""
    with drawn_from(generator):
        x = _core.randn(self.shape, device=self.device)
    return _assigned(self, _core.exp(x * std + mean))


def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Gets numbers of the Cauchy distribution."""
    with drawn_from(generator):
        u = _core.rand(self.shape, device=self.device)
    return _assigned(self, _core.tan((u - 0.5) * math.pi) * sigma + median)
