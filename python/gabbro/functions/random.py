"""Random numbers with PyTorch's arguments. The numbers are others than PyTorch's: Philox 4x32-10 on every device."""

from __future__ import annotations

import contextlib
import operator
import secrets
from collections.abc import Iterator
from typing import Any

from .. import _core
from .._core import Tensor
from ._arguments import ABSENT, into, sizes
from .creation import _finished, _lengths

_initial = secrets.randbits(63)


def manual_seed(seed: int) -> Generator:
    """Restarts the random numbers: equal seeds give equal numbers on every device.

    >>> _ = gb.manual_seed(7)
    >>> a = gb.rand(3)
    >>> _ = gb.manual_seed(7)
    >>> gb.equal(a, gb.rand(3))
    True
    """
    return default_generator.manual_seed(seed)


def initial_seed() -> int:
    """The number that `manual_seed` was given last.

    >>> _ = gb.manual_seed(7)
    >>> gb.initial_seed()
    7
    """
    return default_generator.initial_seed()


class Generator:
    """A separate sequence of random numbers, for the argument `generator` of functions, samplers and `random_split`.

    >>> g = gb.Generator().manual_seed(3)
    >>> gb.randperm(4, generator=g).shape
    (4,)
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = _core.Device(str(device))
        self._seed = secrets.randbits(63)
        self._position = 0

    def manual_seed(self, seed: int) -> Generator:
        """Restarts the numbers."""
        number = operator.index(seed)
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"[manual_seed] {seed} does not fit in 64 bits")
        self._seed, self._position = number % 2**64, 0
        return self

    def seed(self) -> int:
        """Restarts the numbers with a random seed, which is the result."""
        self.manual_seed(secrets.randbits(63))
        return self._seed

    def initial_seed(self) -> int:
        """The seed of the numbers."""
        return self._seed

    def get_state(self) -> Tensor:
        """The seed and the position, as int64 [2]."""
        return _core.tensor([self._seed - 2**64 * (self._seed >= 2**63), self._position])

    def set_state(self, state: Tensor) -> Generator:
        """Goes on from a state."""
        seed, self._position = (int(number) for number in state.tolist())
        self._seed = seed % 2**64
        return self


class _DefaultGenerator(Generator):
    """The process's numbers."""

    def __init__(self) -> None:
        self._seed = _initial
        _core.seed(_initial)

    @property
    def device(self) -> _core.Device:  # type: ignore[override]
        """The CPU's name: all devices draw the same numbers."""
        return _core.Device("cpu")

    @property
    def _position(self) -> int:
        return _core._random_position()

    @_position.setter
    def _position(self, position: int) -> None:
        _core.seed(self._seed)
        _core._set_random_position(position)


default_generator = _DefaultGenerator()


@contextlib.contextmanager
def drawn_from(generator: Generator | None) -> Iterator[None]:
    """While it lasts, the process draws the generator's numbers."""
    if generator is None or generator is default_generator:
        yield
        return
    if not isinstance(generator, Generator):
        raise TypeError(f"[random] generator is a gabbro.Generator, not {generator!r}")
    seed, position = default_generator._seed, default_generator._position
    default_generator._seed, default_generator._position = generator._seed, generator._position
    try:
        yield
    finally:
        generator._position = default_generator._position
        default_generator._seed = seed
        default_generator._position = position


def get_rng_state() -> Tensor:
    """The state of the process's random numbers.

    >>> state = gb.get_rng_state()
    >>> a = gb.rand(2)
    >>> gb.set_rng_state(state)
    >>> gb.equal(a, gb.rand(2))
    True
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Goes on from a state that `get_rng_state` gave.

    >>> gb.set_rng_state(gb.get_rng_state())
    """
    default_generator.set_state(new_state)


def rand(
    *size: Any,
    shape: Any = ABSENT,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: Any = _core.float32,
    device: Any = None,
    requires_grad: bool = False,
    **rest: Any,
) -> Tensor:
    """Numbers spread evenly over [0, 1): multiples of 2⁻²⁴, of 2⁻¹¹ in float16 and 2⁻⁸ in bfloat16.

    >>> gb.rand(2, 3).shape
    (2, 3)
    """
    lengths = _lengths("rand", size, shape)
    with drawn_from(generator):
        x = _uniform(lengths, dtype or _core.float32, device)
    return _finished("rand", into("rand", out, x), requires_grad, rest)


def _uniform(shape: tuple[int, ...], dtype: Any, device: Any) -> Tensor:
    if _core._dtype(dtype) == _core.float64:
        return _core.rand(shape, device=device).astype(_core.float64)
    return _core.rand(shape, dtype=dtype, device=device)


def _normal(shape: tuple[int, ...], dtype: Any, device: Any) -> Tensor:
    return _core.randn(shape, dtype=dtype, device=device)


def randn(
    *size: Any,
    shape: Any = ABSENT,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: Any = _core.float32,
    device: Any = None,
    requires_grad: bool = False,
    **rest: Any,
) -> Tensor:
    """Numbers of the normal distribution with mean 0 and variance 1 (Box and Muller 1958).

    >>> gb.randn(2, 3).shape
    (2, 3)
    """
    lengths = _lengths("randn", size, shape)
    with drawn_from(generator):
        x = _normal(lengths, dtype or _core.float32, device)
    return _finished("randn", into("randn", out, x), requires_grad, rest)


def randint(
    low: Any,
    high: Any = ABSENT,
    size: Any = ABSENT,
    *,
    shape: Any = ABSENT,
    generator: Generator | None = None,
    dtype: Any = _core.int64,
    device: Any = None,
    requires_grad: bool = False,
    **rest: Any,
) -> Tensor:
    """Whole numbers, spread evenly over [low, high): ``randint(10, (2,))`` or ``randint(0, 10, (2,))``; int64.

    >>> gb.randint(0, 10, (4,)).shape
    (4,)
    """
    if size is ABSENT and shape is ABSENT:
        if high is ABSENT:
            raise TypeError("[randint] the argument size is missing: randint(low, high, size)")
        low, high, size = 0, low, high
    elif high is ABSENT:
        low, high = 0, low
    lengths = sizes("randint", (size if shape is ABSENT else shape,))
    with drawn_from(generator):
        x = _core.randint(int(low), int(high), lengths, dtype=dtype or _core.int64, device=device)
    return _finished("randint", x, requires_grad, rest)


def rand_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """As `rand`, with the shape, dtype and device of another tensor.

    >>> gb.rand_like(gb.ones(2)).shape
    (2,)
    """
    return rand(input.shape, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def randn_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """As `randn`, with the shape, dtype and device of another tensor.

    >>> gb.randn_like(gb.ones(2)).shape
    (2,)
    """
    return randn(input.shape, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def randint_like(input: Tensor, low: int, high: Any = ABSENT, *, dtype: Any = None, device: Any = None) -> Tensor:
    """As `randint`, with the shape, dtype and device of another tensor.

    >>> gb.randint_like(gb.ones(2), 5).shape
    (2,)
    """
    low, high = (0, low) if high is ABSENT else (low, high)
    return randint(low, high, input.shape, dtype=dtype or input.dtype, device=device or input.device)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: Any = _core.int64,
    device: Any = None,
    requires_grad: bool = False,
    **rest: Any,
) -> Tensor:
    """The numbers 0 .. n - 1 in a random order; int64.

    >>> sorted(gb.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    count = operator.index(n)
    with drawn_from(generator):  # 48 random bits decide the order; equal ones keep theirs
        coarse, fine = _core.rand(count, device=device), _core.rand(count, device=device)
    order = _core.argsort(fine)
    order = _core.take(order, _core.argsort(_core.take(coarse, order, axis=0)), axis=0)
    return _finished("randperm", into("randperm", out, order.astype(dtype or _core.int64)), requires_grad, rest)


def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that each element is, or with `p`, else 0.

    >>> gb.bernoulli(gb.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is not None and not 0 <= p <= 1:
        raise ValueError(f"[bernoulli] p is {p}: from 0 to 1")
    with drawn_from(generator):
        drawn = _core.rand(input.shape, device=input.device)
    share = input.detach() if p is None else p
    return (drawn < share).astype(input.dtype)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Numbers of classes, drawn with probabilities that are proportional to the elements: [V] or [N, V].

    Parameters
    ----------
    input : Tensor
        Not negative, of floats.
    num_samples : int
    replacement : bool
        Whether a class may come more than once in a row.

    Returns
    -------
    Tensor
        int64 [num_samples] or [N, num_samples].

    Raises
    ------
    ValueError
        For other shapes and dtypes, and for negative, infinite and too few positive elements. Evaluates `input`.

    >>> gb.multinomial(gb.tensor([0.0, 1.0]), 1)
    tensor([1])
    """
    if input.ndim not in (1, 2) or not input.dtype.is_floating_point:
        raise ValueError(f"[multinomial] of floats [V] or [N, V], not of {input.dtype} {input.shape}")
    weights = input.detach().astype(_core.float32)
    classes, count = weights.shape[-1], operator.index(num_samples)
    if count < 1:
        raise ValueError(f"[multinomial] num_samples is {num_samples}: it is 1 or larger")
    if not replacement and count > classes:
        raise ValueError(f"[multinomial] {count} different ones of {classes}")
    positive = _core.sum((weights > 0).astype(_core.int32), -1)
    right = _core.logical_and(_core.all(_core.isfinite(weights)), _core.all(weights >= 0))
    enough = _core.all(positive >= (1 if replacement else count))
    if not bool(_core.logical_and(right, enough)):
        raise ValueError("[multinomial] the elements are finite, not negative, and enough of them are positive")
    with drawn_from(generator):
        if not replacement:
            # The largest of log(p) - log(-log(u)) are drawn with the probabilities p (Gumbel 1954).
            u = _core.rand(weights.shape, device=input.device)
            noise = -_core.log(-_core.log(u + 2.0**-25))
            _, indices = _core.topk(_core.log(weights) + noise, count, -1)
            return indices.astype(_core.int64)
        u = _core.rand((*weights.shape[:-1], count), device=input.device)
    sums = _core.cumsum(weights, -1)
    total = sums[..., -1:]
    before = _core.less_equal(_core.expand_dims(sums, -2), _core.expand_dims(u * total, -1))
    places = _core.sum(before.astype(_core.int32), -1)
    # Rounding may put a number on the end: the last class with a probability is the largest result.
    order = _core.arange(classes, device=input.device)
    last = _core.max(_core.where(weights > 0, order, -1), -1, True)
    return _core.minimum(places, last).astype(_core.int64)


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers with means and standard deviations: numbers with a size, or tensors.

    >>> gb.normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    if not tensors and size is None:
        raise TypeError("[normal] the argument size is missing: normal(0.0, 1.0, (2, 3))")
    if tensors and size is not None:
        raise TypeError("[normal] size is for a mean and a deviation that are numbers")
    if not isinstance(std, Tensor) and not std >= 0:
        raise ValueError(f"[normal] std is {std}: it is not negative")
    if tensors:
        shape = _core.broadcast_arrays(*tensors)[0].shape
        device = device or tensors[0].device
        dtype = dtype or tensors[0].dtype
    else:
        shape = sizes("normal", (size,))
    with drawn_from(generator):
        x = _normal(shape, dtype or _core.float32, device)
    x = x * (std.detach() if isinstance(std, Tensor) else std) + (mean.detach() if isinstance(mean, Tensor) else mean)
    return _finished("normal", x, requires_grad, {})
