"""The cases of bench.py: pairs of functions that do the same in Gabbro and in PyTorch, made when they are asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import torch

import gabbro as gb

Pair = tuple[Callable[[], object], Callable[[], object]]
RANDOM = np.random.default_rng(0)
COUNT = 1_000_000  # elements of an elementwise case


def both(shape, dtype="float32", scale=1.0, positive=False):
    """The same numbers as a tensor of each library."""
    values = RANDOM.standard_normal(shape) * scale
    values = (np.abs(values) + (1 if "int" in dtype else 0.5) if positive else values).astype(dtype)
    return gb.tensor(values).eval(), torch.from_numpy(values)


def applied(ours, theirs, *inputs) -> Pair:
    """Both functions of inputs that both() made."""
    a, b = [x[0] for x in inputs], [x[1] for x in inputs]
    return lambda: ours(*a).eval(), lambda: theirs(*b)


def recurrent(kind, batch, steps, inputs, hidden, train, **options) -> Pair:
    options = {"batch_first": True, **options}
    ours, theirs = getattr(gb.nn, kind)(inputs, hidden, **options), getattr(torch.nn, kind)(inputs, hidden, **options)
    x, y = both((batch, steps, inputs))

    def train_ours():
        gb.sum(ours(x)[0] ** 2).backward()
        gb.eval([p.grad for p in ours.parameters()])
        for p in ours.parameters():
            p.grad = None

    def train_theirs():
        (theirs(y)[0] ** 2).sum().backward()
        theirs.zero_grad()

    def run_ours():
        with gb.no_grad():
            ours(x)[0].eval()

    def run_theirs():
        with torch.no_grad():
            theirs(y)

    return (train_ours, train_theirs) if train else (run_ours, run_theirs)


def assigned(rows) -> Pair:
    """x[i] = i for each i, or x[i] = row."""
    (row, other), shape = both(64), (500, 64) if rows else 1000

    def fill(zeros, value):
        x = zeros(shape)
        for i in range(x.shape[0]):
            x[i] = value if rows else i
        return x

    return lambda: fill(gb.zeros, row).eval(), lambda: fill(torch.zeros, other)


def small_ops(mixed) -> Pair:
    """100 ops that are recorded again each time."""
    (a, x), (b, y) = both((8, 8)), both((8, 8), scale=0.3)

    def run(tanh, start, other):
        z = start
        for _ in range(25):
            z = tanh(z @ other) + start - other if mixed else (z * other + start) * other + start
        return z

    return lambda: run(gb.tanh, a, b).eval(), lambda: run(torch.tanh, x, y)


def recurrent_cases():
    for kind in ("LSTM", "GRU", "RNN"):
        for train in (False, True):
            name = f"{kind} 16x60x64 to 128, {'train' if train else 'forward'}"
            yield name, functools.partial(recurrent, kind, 16, 60, 64, 128, train)
        yield (
            f"{kind} two layers, both directions, train",
            functools.partial(recurrent, kind, 16, 60, 64, 128, True, num_layers=2, bidirectional=True),
        )
    yield "LSTM 1x100x128 to 256, forward", functools.partial(recurrent, "LSTM", 1, 100, 128, 256, False)
    yield "LSTM 4x20x16 to 32, train", functools.partial(recurrent, "LSTM", 4, 20, 16, 32, True)
    yield "LSTM 64x50x256 to 512, train", functools.partial(recurrent, "LSTM", 64, 50, 256, 512, True)


def elementwise_cases():
    def function(name, dtype, **options):
        theirs = torch.nn.functional.gelu if name == "gelu" else getattr(torch, name)
        return applied(getattr(gb, name), theirs, both(COUNT, dtype, **options))

    everywhere = "exp sin cos tan tanh sigmoid erf expm1 sinh cosh atan asinh".split()
    positive, inner = "log log1p log2 log10".split(), "asin acos atanh".split()
    for dtype in ("float64", "float32"):
        for name in [*everywhere, *(["gelu"] if dtype == "float32" else [])]:
            yield f"{dtype} {name}", functools.partial(function, name, dtype)
        for name in positive:
            yield f"{dtype} {name}", functools.partial(function, name, dtype, positive=True)
        for name in inner:
            yield f"{dtype} {name}", functools.partial(function, name, dtype, scale=0.15)


def binary_cases():
    def function(ours, theirs, dtype, scale):
        return applied(ours, theirs, both(COUNT, dtype, scale), both(COUNT, dtype, scale, positive=True))

    for dtype in ("float32", "float64", "int8", "int16", "int32", "int64"):
        scale = 20.0 if dtype != "int32" else 1e6
        yield f"{dtype} //", functools.partial(function, lambda a, b: a // b, torch.floor_divide, dtype, scale)
        yield f"{dtype} %", functools.partial(function, lambda a, b: a % b, torch.remainder, dtype, scale)
    for dtype in ("float32", "float64"):
        for name in ("atan2", "hypot"):
            yield f"{dtype} {name}", functools.partial(function, getattr(gb, name), getattr(torch, name), dtype, 1.0)
        yield (
            f"{dtype} **",
            lambda dtype=dtype: applied(gb.pow, torch.pow, both(COUNT, dtype, positive=True), both(COUNT, dtype)),
        )


def other_cases():
    for dtype in ("float32", "float64", "int32", "int64"):
        for axis in (None, 0, 1):
            yield (
                f"{dtype} prod, axis {axis}",
                lambda dtype=dtype, axis=axis: applied(
                    lambda x: gb.prod(x, axis),
                    lambda x: torch.prod(x) if axis is None else torch.prod(x, axis),
                    both((1000, 1000), dtype, 1e-3, positive=True),
                ),
            )
    for text, axes in (("[::-1]", (0,)), ("[:, ::-1]", (1,)), ("[::-1, ::-1]", (0, 1))):
        yield (
            f"flip {text}",
            lambda axes=axes: applied(lambda x: gb.flip(x, axes), lambda x: x.flip(axes), both((1000, 1000))),
        )
    yield "flip of one axis", lambda: applied(lambda x: x[::-1], lambda x: x.flip(0), both(COUNT))
    yield "x[i] = i", lambda: assigned(False)
    yield "x[i] = row", lambda: assigned(True)
    yield "100 small ops, elementwise", lambda: small_ops(False)
    yield "100 small ops, mixed", lambda: small_ops(True)
    yield "add of 8 elements", lambda: applied(lambda a, b: a + b, lambda a, b: a + b, both(8), both(8))
    yield "sum of 4 Mi elements", lambda: applied(gb.sum, torch.sum, both(1 << 22))


EINSUMS = {
    "ij,jk->ik": [(256, 256), (256, 256)],
    "ij,kj->ik": [(64, 64), (64, 64)],
    "bij,bjk->bik": [(16, 64, 64), (16, 64, 64)],
    "bqhd,bkhd->bhqk": [(4, 64, 8, 32), (4, 64, 8, 32)],
    "bhqk,bkhd->bqhd": [(4, 8, 64, 64), (4, 64, 8, 32)],
    "ijk,kl->ijl": [(16, 64, 64), (64, 64)],
    "ijk,jil->kl": [(30, 40, 50), (40, 30, 20)],
    "abc,abd->dc": [(20, 30, 40), (20, 30, 50)],
    "bi,ij,bj->b": [(64, 128), (128, 128), (64, 128)],
    "ij,j->i": [(1000, 1000), (1000,)],
    "ij,ij->": [(500, 500), (500, 500)],
    "bij,bij->bi": [(16, 64, 64), (16, 64, 64)],
    "i,j->ij": [(1000,), (1000,)],
    "ij->i": [(500, 500)],
    "ii->i": [(500, 500)],
}


def einsum_cases():
    for equation, shapes in EINSUMS.items():
        yield (
            f"einsum {equation}",
            lambda equation=equation, shapes=shapes: applied(
                functools.partial(gb.einsum, equation), functools.partial(torch.einsum, equation), *map(both, shapes)
            ),
        )


def all_cases() -> dict[str, Callable[[], Pair]]:
    groups = (recurrent_cases, elementwise_cases, binary_cases, other_cases, einsum_cases)
    return {name: make for group in groups for name, make in group()}
