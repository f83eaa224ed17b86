"""Distributions of random numbers: Normal, Uniform, Bernoulli, Categorical, Exponential, as torch.distributions.

>>> normal = gb.distributions.Normal(gb.zeros(3), 1.0)
>>> normal.log_prob(gb.zeros(3)).shape, normal.sample((2,)).shape
((3,), (2, 3))
"""

from __future__ import annotations

import math
from typing import Any

from . import _core
from ._core import Tensor
from .functions.elementwise import xlogy
from .functions.random import multinomial

__all__ = ["Bernoulli", "Categorical", "Distribution", "Exponential", "Normal", "Uniform", "kl_divergence"]


def _parameters(*values: Any) -> list[Tensor]:
    like = next((value for value in values if isinstance(value, Tensor)), None)
    device = None if like is None else like.device
    dtype = _core.float32 if like is None or not like.dtype.is_floating_point else like.dtype
    made = [value if isinstance(value, Tensor) else _core.tensor(value, dtype=dtype, device=device) for value in values]
    return list(_core.broadcast_arrays(*made))


class Distribution:
    """What all have: `sample`, `log_prob`, `entropy`, `mean`, `variance`, and `rsample` for those with gradients."""

    has_rsample = False

    def __init__(self, batch_shape: tuple[int, ...] = (), event_shape: tuple[int, ...] = ()) -> None:
        self.batch_shape, self.event_shape = batch_shape, event_shape

    def _shape(self, sample_shape: Any) -> tuple[int, ...]:
        return (*tuple(sample_shape), *self.batch_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Numbers through which gradients go to the parameters."""
        raise NotImplementedError(f"[{type(self).__name__}] has no rsample: use sample")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Numbers without gradients."""
        return self.rsample(sample_shape).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability."""
        raise NotImplementedError(f"[{type(self).__name__}] has no log_prob")

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError(f"[{type(self).__name__}] has no entropy")

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise NotImplementedError(f"[{type(self).__name__}] has no mean")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"[{type(self).__name__}] has no variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return _core.sqrt(self.variance)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_shape={self.batch_shape}, event_shape={self.event_shape})"


class Normal(Distribution):
    """The normal distribution."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = _parameters(loc, scale)
        if validate_args is not False and not bool(_core.all(self.scale > 0)):
            raise ValueError("[Normal] scale is positive")
        super().__init__(self.loc.shape)

    mean = property(lambda self: self.loc)
    variance = property(lambda self: self.scale * self.scale)
    stddev = property(lambda self: self.scale)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale · noise."""
        noise = _core.randn(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        distance = value - self.loc
        spread: Tensor = 2 * self.variance
        return -(distance * distance) / spread - _core.log(self.scale) - math.log(math.sqrt(2 * math.pi))

    def entropy(self) -> Tensor:
        """½ + ½ log(2π) + log(scale)."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + _core.log(self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of numbers up to `value`."""
        return 0.5 * (1 + _core.erf((value - self.loc) * _core.reciprocal(self.scale) / math.sqrt(2)))


class Uniform(Distribution):
    """Numbers spread evenly over [low, high)."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = _parameters(low, high)
        if validate_args is not False and not bool(_core.all(self.low < self.high)):
            raise ValueError("[Uniform] low is below high")
        super().__init__(self.low.shape)

    mean = property(lambda self: (self.high + self.low) / 2)
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """low + (high - low) · noise."""
        noise = _core.rand(self._shape(sample_shape), device=self.low.device).astype(self.low.dtype)
        return self.low + noise * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """-log(high - low); minus infinity outside."""
        inside = _core.logical_and(self.low <= value, self.high > value)
        return _core.log(inside.astype(self.low.dtype)) - _core.log(self.high - self.low)

    def entropy(self) -> Tensor:
        """log(high - low)."""
        return _core.log(self.high - self.low)


class Exponential(Distribution):
    """The exponential distribution with a rate."""

    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = _parameters(rate)
        if validate_args is not False and not bool(_core.all(self.rate > 0)):
            raise ValueError("[Exponential] rate is positive")
        super().__init__(self.rate.shape)

    mean = property(lambda self: 1 / self.rate)
    variance = property(lambda self: self.rate**-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """-log(1 - noise) / rate."""
        noise = _core.rand(self._shape(sample_shape), device=self.rate.device).astype(self.rate.dtype)
        return -_core.log(1 - noise) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """log(rate) - rate · value."""
        return _core.log(self.rate) - self.rate * value

    def entropy(self) -> Tensor:
        """1 - log(rate)."""
        return 1 - _core.log(self.rate)


def _one_of(op: str, probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError(f"[{op}] either probs or logits")


class Bernoulli(Distribution):
    """1 with a probability, else 0."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        _one_of("Bernoulli", probs, logits)
        if probs is not None:
            (self.probs,) = _parameters(probs)
            if validate_args is not False and not bool(_core.all(_core.logical_and(self.probs >= 0, self.probs <= 1))):
                raise ValueError("[Bernoulli] probs are from 0 to 1")
            eps = (
                2.0**-23
                if self.probs.dtype == _core.float32
                else 2.0**-52
                if self.probs.dtype == _core.float64
                else 2.0**-7
            )
            held = _core.clip(self.probs, eps, 1 - eps)
            self.logits = _core.log(held) - _core.log1p(-held)
        else:
            (self.logits,) = _parameters(logits)
            self.probs = _core.sigmoid(self.logits)
        super().__init__(self.probs.shape)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """0 and 1."""
        drawn = _core.rand(self._shape(sample_shape), device=self.probs.device)
        return (drawn < self.probs.detach()).astype(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability."""
        target = _core.broadcast_arrays(value, self.logits)
        return -_core._bce_with_logits(target[1], target[0].astype(self.logits.dtype), None, "none", None)

    def entropy(self) -> Tensor:
        """In nats."""
        return _core._bce_with_logits(self.logits, self.probs, None, "none", None)


class Categorical(Distribution):
    """The numbers of classes, with probabilities, or logits, along the last axis."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        _one_of("Categorical", probs, logits)
        if probs is not None:
            (given,) = _parameters(probs)
            if given.ndim < 1:
                raise ValueError("[Categorical] probs have an axis of classes")
            if validate_args is not False and not bool(_core.all(given >= 0)):
                raise ValueError("[Categorical] probs are not negative")
            self.probs = given / _core.sum(given, -1, True)
            eps = 2.0**-23 if given.dtype == _core.float32 else 2.0**-52 if given.dtype == _core.float64 else 2.0**-7
            self.logits = _core.log(_core.clip(self.probs, eps, 1 - eps))
        else:
            (given,) = _parameters(logits)
            if given.ndim < 1:
                raise ValueError("[Categorical] logits have an axis of classes")
            self.logits = given - _core.logsumexp(given, -1, True)
            self.probs = _core.softmax(self.logits, -1)
        self._classes = given.shape[-1]
        super().__init__(given.shape[:-1])

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """int64 numbers of classes."""
        shape = self._shape(sample_shape)
        rows = _core.reshape(self.probs.detach(), (-1, self._classes))
        count = math.prod(tuple(sample_shape))
        numbers = multinomial(rows, max(count, 1), True)
        return _core.reshape(_core.transpose(numbers, 0, 1), shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of each class's probability."""
        index = _core.expand_dims(value.astype(_core.int64), -1)
        shape = _core.broadcast_arrays(index[..., 0], self.logits[..., 0])[0].shape
        logits = _core.broadcast_to(self.logits, (*shape, self._classes))
        return _core.squeeze(_core.take_along_axis(logits, _core.broadcast_to(index, (*shape, 1)), -1), -1)

    def entropy(self) -> Tensor:
        """In nats."""
        return -_core.sum(self.logits * self.probs, -1)


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence of two distributions of one kind.

    >>> gb.distributions.kl_divergence(gb.distributions.Normal(0.0, 1.0), gb.distributions.Normal(0.0, 1.0))
    tensor(0.)
    """
    if isinstance(p, Normal) and isinstance(q, Normal):
        ratio = (p.scale / q.scale) ** 2
        distance = ((p.loc - q.loc) / q.scale) ** 2
        return 0.5 * (ratio + distance - 1 - _core.log(ratio))
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        return _core.sum(p.probs * (p.logits - q.logits), -1)
    if isinstance(p, Bernoulli) and isinstance(q, Bernoulli):
        return xlogy(p.probs, p.probs / q.probs) + xlogy(1 - p.probs, (1 - p.probs) / (1 - q.probs))
    if isinstance(p, Exponential) and isinstance(q, Exponential):
        ratio = q.rate / p.rate
        return ratio - 1 - _core.log(ratio)
    raise NotImplementedError(f"[kl_divergence] of {type(p).__name__} and {type(q).__name__}")
