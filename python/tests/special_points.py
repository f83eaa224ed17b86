"""Functions and the points at which gradients are special: zeros, bounds, ties, infinities, NaN.

A function of the table takes a library (`gabbro`, or what tests/reference/make_special_point_fixtures.py makes of
PyTorch) with `F`, its functions for networks, and tensors. Reductions are over the last axis, so that rows are
separate points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

INF, NAN = math.inf, math.nan
TINY, LARGE = 1e-40, 1e30  # a denormal; and a number whose square is infinite

# Points of elementwise functions of one tensor, and, in pairs, of two.
POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, -6.0, 25.0, -30.0, 100.0, -100.0]
POINTS += [TINY, -TINY, LARGE, -LARGE, INF, -INF, NAN]
PAIRS = list(itertools.product([0.0, -0.0, 1.0, -1.0, 2.0, -0.5, TINY, LARGE, -LARGE, INF, -INF, NAN], repeat=2))

ROWS = [
    [0.0, 0.0, 0.0],
    [-0.0, 0.0, 0.0],
    [2.0, 2.0, 2.0],
    [1.0, 0.0, 2.0],
    [0.0, 3.0, 0.0],
    [3.0, 1.0, 3.0],
    [-1.5, -1.5, 2.0],
    [1.0, -2.0, 0.5],
    [1e-12, 1e-13, 0.0],
]
INFINITE_ROWS = [
    [INF, 1.0, 2.0],
    [-INF, 1.0, 2.0],
    [-INF, -INF, -INF],
    [INF, INF, -INF],
    [NAN, 1.0, 2.0],
]

Function = Callable[..., Any]


class Case(NamedTuple):
    function: Function
    inputs: list[np.ndarray]
    order: int = 2  # of the highest derivative that is compared
    absolute: float = 0  # tolerance of float32, where terms of that size cancel


UNARY: dict[str, Function] = {
    name: lambda lib, x, name=name: getattr(lib, name)(x)
    for name in [
        "abs",
        "sign",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "sqrt",
        "rsqrt",
        "square",
        "reciprocal",
        "floor",
        "ceil",
        "round",
        "trunc",
        "sigmoid",
        "relu",
    ]
} | {
    name: lambda lib, x, name=name: getattr(lib.F, name)(x)
    for name in [
        "elu",
        "celu",
        "selu",
        "leaky_relu",
        "relu6",
        "hardtanh",
        "hardsigmoid",
        "hardswish",
        "mish",
        "softplus",
        "softsign",
        "logsigmoid",
        "silu",
        "gelu",
    ]
}
UNARY |= {
    "elu_2": lambda lib, x: lib.F.elu(x, 2.0),
    "celu_2": lambda lib, x: lib.F.celu(x, 2.0),
    "leaky_relu_negative": lambda lib, x: lib.F.leaky_relu(x, 0.25),
    "clamp": lambda lib, x: lib.clamp(x, -1.0, 2.0),
    "clamp_min": lambda lib, x: lib.clamp(x, min=-1.0),
    "clamp_max": lambda lib, x: lib.clamp(x, max=2.0),
    "pow_0": lambda lib, x: x**0.0,
    "pow_1": lambda lib, x: x**1.0,
    "pow_2": lambda lib, x: x**2.0,
    "pow_3": lambda lib, x: x**3.0,
    "pow_half": lambda lib, x: x**0.5,
    "pow_minus_1": lambda lib, x: x**-1.0,
    "rpow_2": lambda lib, x: 2.0**x,
    "prelu": lambda lib, x: lib.prelu(x, 0.25),
    "masked_log": lambda lib, x: lib.where(x > 0, lib.log(lib.where(x > 0, x, lib.ones_like(x))), x),
}
BINARY: dict[str, Function] = {
    name: lambda lib, x, y, name=name: getattr(lib, name)(x, y)
    for name in ["maximum", "minimum", "pow", "atan2", "hypot", "logaddexp", "remainder", "floor_divide", "div", "mul"]
}
BINARY |= {
    "clamp_tensors": lambda lib, x, y: lib.clamp(x, y, y + 1.0),
    "where": lambda lib, x, y: lib.where(x > y, x, y),
    "smooth_l1_loss": lambda lib, x, y: lib.F.smooth_l1_loss(x, y, reduction="none"),
    "smooth_l1_loss_half": lambda lib, x, y: lib.F.smooth_l1_loss(x, y, reduction="none", beta=0.5),
    "huber_loss": lambda lib, x, y: lib.F.huber_loss(x, y, reduction="none"),
    "l1_loss": lambda lib, x, y: lib.F.l1_loss(x, y, reduction="none"),
    "mse_loss": lambda lib, x, y: lib.F.mse_loss(x, y, reduction="none"),
}
# PyTorch's formula or this one's subtracts nearly equal numbers, as 1 - tanh(x)² and 1 + erf(x).
CANCEL = {
    "tanh": 5e-7,
    "gelu": 1e-6,
    "mish": 1e-6,
    "softplus": 1e-6,
    "sigmoid": 1e-6,
    "logsigmoid": 1e-7,
    "expm1": 2e-7,
}
CANCEL |= {"hypot": 3e-7, "logaddexp": 3e-7, "softsign": 1e-12}
ALONG: dict[str, Function] = {
    "sum": lambda lib, x: lib.sum(x, axis=-1),
    "mean": lambda lib, x: lib.mean(x, axis=-1),
    "prod": lambda lib, x: lib.prod(x, axis=-1),
    "amax": lambda lib, x: lib.amax(x, axis=-1),
    "amin": lambda lib, x: lib.amin(x, axis=-1),
    "logsumexp": lambda lib, x: lib.logsumexp(x, axis=-1),
    "var_0": lambda lib, x: lib.var(x, axis=-1, correction=0),
    "var_1": lambda lib, x: lib.var(x, axis=-1, correction=1),
    "std_0": lambda lib, x: lib.std(x, axis=-1, correction=0),
    "std_1": lambda lib, x: lib.std(x, axis=-1, correction=1),
    "cumsum": lambda lib, x: lib.cumsum(x, -1),
    "cumprod": lambda lib, x: lib.cumprod(x),
    "sort": lambda lib, x: lib.sort(x, axis=-1),
    "topk": lambda lib, x: lib.topk(x, 2),
    "softmax": lambda lib, x: lib.F.softmax(x, -1),
    "log_softmax": lambda lib, x: lib.F.log_softmax(x, -1),
    "normalize": lambda lib, x: lib.F.normalize(x, dim=-1),
    "layer_norm": lambda lib, x: lib.F.layer_norm(x, (3,)),
    "rms_norm": lambda lib, x: lib.F.rms_norm(x, (3,), eps=1e-5),
    "group_norm": lambda lib, x: lib.F.group_norm(x, 1),
}


def _array(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def _pairs_of_rows() -> list[np.ndarray]:
    pairs = list(itertools.product(ROWS, repeat=2))
    return [_array([a for a, _ in pairs]), _array([b for _, b in pairs])]


def cases() -> Iterator[tuple[str, Case]]:
    """All cases by name."""
    for name, function in UNARY.items():
        yield name, Case(function, [_array(POINTS)], absolute=CANCEL.get(name, 0))
    for name, function in BINARY.items():
        pairs = [_array([a for a, _ in PAIRS]), _array([b for _, b in PAIRS])]
        yield name, Case(function, pairs, absolute=CANCEL.get(name, 0))
    for name, function in ALONG.items():
        rows = ROWS if name in ("prod", "cumprod") else ROWS + INFINITE_ROWS
        yield name, Case(function, [_array(rows)], absolute=2e-6)
    yield "var_of_one", Case(lambda lib, x: lib.var(x, axis=-1, correction=1), [_array([[1.0], [0.0]])])
    yield "std_of_one", Case(lambda lib, x: lib.std(x, axis=-1, correction=1), [_array([[1.0], [0.0]])])
    yield "std_of_one_0", Case(lambda lib, x: lib.std(x, axis=-1, correction=0), [_array([[1.0], [0.0]])])
    yield (
        "cosine_similarity",
        Case(lambda lib, x, y: lib.F.cosine_similarity(x, y, dim=-1), _pairs_of_rows(), absolute=2e-6),
    )
    probabilities = [(p, t) for p in (0.0, 1.0, 0.5, 1e-30) for t in (0.0, 1.0, 0.25)]
    yield (
        "binary_cross_entropy",
        Case(
            lambda lib, x, y: lib.F.binary_cross_entropy(x, y, reduction="none"),
            [_array([p for p, _ in probabilities]), _array([t for _, t in probabilities])],
        ),
    )
    logits = [(x, t) for x in (0.0, -0.0, 1.0, 100.0, -100.0) for t in (0.0, 1.0, 0.25)]
    yield (
        "binary_cross_entropy_with_logits",
        Case(
            lambda lib, x, y: lib.F.binary_cross_entropy_with_logits(x, y, reduction="none"),
            [_array([x for x, _ in logits]), _array([t for _, t in logits])],
        ),
    )
    yield (
        "kl_div",
        Case(
            lambda lib, x, y: lib.F.kl_div(x, y, reduction="none"),
            [_array([x for x, _ in probabilities]), _array([t for _, t in probabilities])],
        ),
    )
    yield (
        "prod_of_many",
        Case(
            lambda lib, x: lib.prod(x, axis=-1),
            [_array([[2, 3, 0, 5, 7], [0, 3, 0, 5, 7], [0, 0, 0, 5, 7], [2, 3, 4, 5, 7], [0, 0, 0, 0, 0]])],
            3,
        ),
    )


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """What the elements of a gradient are multiplied by before their sum is differentiated again."""
    return (np.arange(math.prod(shape)) * 3 % 5 + 1).reshape(shape) / 2
