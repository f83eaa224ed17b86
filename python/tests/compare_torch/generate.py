"""Random programs: each call is made for the values that are there, which PyTorch computes on the way."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from .operations import OPERATIONS, Op
from .program import FLOATS, INTEGERS, LAYOUTS, Call, Input, Program, Ref, Unfit, refs_of, without_unused
from .torch_side import Run, dtype_name

LENGTHS = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 13, 17]
LIMIT = {"float16": 2e4, "bfloat16": 1e18, "float32": 1e18, "float64": 1e100}
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
SPECIALS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5]
EXTREMES = {
    "float16": [65504.0, -65504.0, 2.0**-24, 2.0**-14],
    "bfloat16": [3e38, -3e38, 2.0**-126, 1e-30],
    "float32": [3e38, -3e38, 2.0**-126, 1e-30, 16777217.0],
    "float64": [1e300, -1e300, 1e-300, 9007199254740993.0],
}


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """float64 numbers that the dtype holds."""
    return torch.from_numpy(np.array(array, order="C")).to(getattr(torch, dtype)).double().numpy().reshape(array.shape)


class Generator:
    """What makers of arguments draw from. `refused` programs end in a call with arguments that hardly fit."""

    def __init__(self, seed: int, dtypes: Sequence[str] = FLOATS):
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.dtypes = [dtype for dtype in FLOATS if dtype in dtypes]
        weights = {"float32": 6, "float64": 1, "float16": 1.5, "bfloat16": 1}
        self.base = self.random.choices(self.dtypes, [weights[dtype] for dtype in self.dtypes])[0]
        self.plain = self.random.random() < 0.6  # no special values in the whole program
        self.program = Program([], [], [])
        self.run = Run(self.program)
        self.floats: tuple[str, ...] = FLOATS
        self.refused: list[tuple[str, Exception]] = []

    # Numbers.
    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def choose(self, *items: Any) -> Any:
        return self.random.choice(items)

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def number(self) -> float | int:
        """A Python scalar."""
        kind = self.random.random()
        if kind < 0.4:
            return self.integer(-3, 5)
        if kind < 0.97 or self.plain:
            return round(self.random.uniform(-4, 4), self.integer(1, 3))
        return self.choose(0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e10, 1e-10)

    def shape(self, rank: int | None = None, most: int = 3000, least: int = 0) -> tuple[int, ...]:
        rank = self.random.choices(range(6), [2, 7, 9, 6, 3, 0.5])[0] if rank is None else rank
        if rank in (1, 2) and self.chance(0.015):
            return tuple(self.choose(1, 3, 1023, 1025, 4099) if at == rank - 1 else 1 for at in range(rank))
        lengths = LENGTHS if self.chance(0.15) else LENGTHS[1:]
        while True:
            shape = tuple(max(self.random.choice(lengths), least) for _ in range(rank))
            if np.prod(shape, dtype=int) <= most:
                return shape

    # Values that are there, and new inputs.
    def value(self, ref: Ref) -> torch.Tensor:
        return self.run.inputs[ref.number] if ref.kind == "x" else self.run.results[ref.number]

    def dtype(self, ref: Ref) -> str:
        return dtype_name(self.value(ref))

    def rank(self, ref: Ref) -> int:
        return self.value(ref).ndim

    def shape_of(self, ref: Ref) -> tuple[int, ...]:
        return tuple(self.value(ref).shape)

    def find(self, fits: Callable[[torch.Tensor], bool], make: Callable[[], Ref], reuse: float = 0.8) -> Ref:
        if self.chance(reuse):
            refs = [Ref("v", at) for at in range(len(self.run.results))]
            recent = refs[-3:] if self.chance(0.7) else refs + [Ref("x", at) for at in range(len(self.run.inputs))]
            fitting = [ref for ref in recent if fits(self.value(ref))]
            if fitting:
                return self.random.choice(fitting)
        return make()

    def add_input(self, array: np.ndarray, dtype: str) -> Ref:
        x = Input(dtype, array, self.random.choices(LAYOUTS, [5, 2, 1, 1])[0], dtype in FLOATS and self.chance(0.8))
        self.program.inputs.append(x)
        self.run.inputs.append(Run(Program([x], [], [])).inputs[0])
        return Ref("x", len(self.program.inputs) - 1)

    def special(self, array: np.ndarray, dtype: str) -> np.ndarray:
        kind = self.random.random()
        if kind < 0.35:  # ties, and values at which functions have corners
            return np.round(array).clip(-3, 3)
        if kind < 0.45:
            return array * 0
        if kind < 0.55:
            return np.round(array * 2) / 2
        some = self.numbers.random(array.shape) < 0.15
        values = SPECIALS if kind < 0.8 else EXTREMES[dtype]
        return np.where(some, self.numbers.choice(values, array.shape), array)

    def new_float(self, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Ref:
        shape = self.shape() if shape is None else shape
        dtype = dtype or (self.base if self.base in self.floats and self.chance(0.93) else self.choose(*self.floats))
        array = self.numbers.standard_normal(shape) * self.choose(1, 1, 1, 3, 0.1)
        if not self.plain and self.chance(0.35):
            array = self.special(array, dtype)
        return self.add_input(rounded(np.asarray(array, np.float64), dtype), dtype)

    def new_integer(self, shape: tuple[int, ...], low: int, high: int, dtype: str | None = None) -> Ref:
        dtype = dtype or self.choose("int32", "int32", "int64")
        return self.add_input(np.asarray(self.numbers.integers(low, high + 1, shape), dtype), dtype)

    def floating(
        self, rank: int | None = None, least: int = 0, shape: tuple[int, ...] | None = None, dtype: str | None = None
    ) -> Ref:
        """A tensor of floats; with at least `least` axes, or exactly `rank`, or of a shape."""

        def fits(x: torch.Tensor) -> bool:
            name = dtype_name(x)
            return (
                (name == dtype if dtype else name in self.floats)
                and (rank is None or x.ndim == rank)
                and x.ndim >= least
                and (shape is None or tuple(x.shape) == shape)
            )

        def make() -> Ref:
            return self.new_float(shape if shape is not None else self.shape_with(rank, least), dtype)

        return self.find(fits, make)

    def shape_with(self, rank: int | None, least: int = 0) -> tuple[int, ...]:
        if rank is not None:
            return self.shape(rank)
        shape = self.shape()
        return shape if len(shape) >= least else shape + self.shape(least - len(shape))

    def integral(self, rank: int | None = None, least: int = 0) -> Ref:
        def make() -> Ref:
            dtype = self.random.choices(INTEGERS, [1, 1, 3, 2])[0]
            low, high = RANGES[dtype] if not self.plain and self.chance(0.08) else (-9, 9)
            return self.new_integer(self.shape_with(rank, least), max(low, RANGES[dtype][0]), min(high, 2**62), dtype)

        return self.find(
            lambda x: dtype_name(x) in INTEGERS and (rank is None or x.ndim == rank) and x.ndim >= least, make
        )

    def boolean(self, shape: tuple[int, ...] | None = None) -> Ref:
        def make() -> Ref:
            return self.add_input(self.numbers.random(self.shape() if shape is None else shape) < 0.5, "bool")

        return self.find(lambda x: x.dtype == torch.bool and (shape is None or tuple(x.shape) == shape), make, 0.5)

    def any(self, least: int = 0, rank: int | None = None) -> Ref:
        kind = self.random.random()
        if kind < 0.7:
            return self.floating(rank, least)
        if kind < 0.9:
            return self.integral(rank, least)
        return self.boolean(self.shape_with(rank, least))

    def number_tensor(self, least: int = 0) -> Ref:
        return self.floating(least=least) if self.chance(0.75) else self.integral(least=least)

    def broadcasting(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that goes with this one."""
        kind = self.random.random()
        if kind < 0.45:
            return shape
        shape = tuple(1 if self.chance(0.3) else n for n in shape)
        return shape[self.integer(0, len(shape)) :] if kind < 0.85 else shape

    def partner(self, ref: Ref, dtype: str | None = None) -> Ref:
        """A tensor that broadcasts with another, mostly of its dtype."""
        own, shape = self.dtype(ref), self.shape_of(ref)

        def fits(x: torch.Tensor) -> bool:
            try:
                torch.broadcast_shapes(tuple(x.shape), shape)
            except RuntimeError:
                return False
            return dtype_name(x) == (dtype or own) or (dtype is None and self.chance(0.1))

        def make() -> Ref:
            other = self.broadcasting(shape)
            kind = dtype or (own if self.chance(0.85) else self.choose(*self.floats, *INTEGERS, "bool"))
            if kind in FLOATS:
                return self.new_float(other, kind)
            return self.boolean(other) if kind == "bool" else self.new_integer(other, max(-9, RANGES[kind][0]), 9, kind)

        return self.find(fits, make, 0.5)

    def like(self, ref: Ref) -> Ref:
        """A tensor of its shape and dtype."""
        return self.floating(shape=self.shape_of(ref), dtype=self.dtype(ref))

    def positive(self, ref: Ref, low: float = 0.0, high: float = 1.0) -> Ref:
        """A new tensor of its shape and dtype with numbers within bounds."""
        dtype = self.dtype(ref)
        return self.add_input(rounded(self.numbers.uniform(low, high, self.shape_of(ref)), dtype), dtype)

    # Axes and indices.
    def axis(self, ref: Ref) -> int:
        rank = max(self.rank(ref), 1)
        return self.integer(-rank, rank - 1)

    def axes(self, ref: Ref) -> Any:
        """None, an axis, or some of them."""
        rank, kind = self.rank(ref), self.random.random()
        if rank == 0 or kind < 0.3:
            return None
        if kind < 0.7:
            return self.axis(ref)
        some = self.random.sample(range(rank), self.integer(1, rank))
        return tuple(axis - rank if self.chance(0.3) else axis for axis in some)

    def indices(self, shape: tuple[int, ...], length: int) -> Ref:
        if length == 0:
            raise Unfit
        low = -length if self.chance(0.5) else 0
        return self.new_integer(shape, low, length - 1)

    # Whole programs.
    def try_call(self, op: Op) -> bool:
        """Whether a call of this op was added; else all is as before."""
        inputs = len(self.program.inputs)
        self.floats = tuple(dtype for dtype in op.floats if dtype in self.dtypes) or op.floats
        try:
            args = op.arguments(self)
        except Unfit:
            args = None
        finally:
            self.floats = FLOATS
        if args is not None and self.add_call(Call(op.name, args)):
            return True
        del self.program.inputs[inputs:], self.run.inputs[inputs:]
        return False

    def add_call(self, call: Call) -> bool:
        self.program.calls.append(call)
        try:
            self.run.forward()
        except Exception as error:  # PyTorch refuses it
            self.program.calls.pop()
            self.refused.append((call.op, error))
            return False
        if self.useful(self.run.results[-1]):
            return True
        self.run.results.pop()
        self.program.calls.pop()
        return False

    def useful(self, y: torch.Tensor) -> bool:
        """Most programs go on with numbers that can be told from others."""
        if not isinstance(y, torch.Tensor) or y.numel() > 20000 or y.ndim > 6:
            return False
        if y.numel() == 0:
            return self.chance(0.3)
        if not y.dtype.is_floating_point:
            return True
        size = y.detach().double().abs()
        bad = (~torch.isfinite(size)).double().mean().item() > 0.3 or (size > LIMIT[dtype_name(y)]).any().item()
        return not bad or self.chance(0.1)

    def make(self, names: Sequence[str] | None = None) -> Program:
        table = [OPERATIONS[name] for name in names or OPERATIONS]
        weights = [op.weight for op in table]
        count, tries = self.random.choices(range(1, 13), [3, 4, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1])[0], 0
        while len(self.program.calls) < count and tries < 60:
            tries += 1
            self.try_call(self.random.choices(table, weights)[0])
        if not self.program.calls:
            return self.make(names)
        self.finish()
        return without_unused(self.program)

    def make_refused(self, names: Sequence[str] | None = None) -> Program | None:
        """A program whose last call PyTorch refuses: one with an argument replaced by another; None where none is."""
        program = self.make(names)
        for _ in range(8):
            name = self.random.choice([*(names or OPERATIONS)])
            self.program.calls = list(program.calls)
            self.run.program = self.program = Program(list(program.inputs), list(program.calls), [])
            self.run.inputs = [Run(Program([x], [], [])).inputs[0] for x in program.inputs]
            self.run.results = []
            self.run.forward()
            if not self.try_call(OPERATIONS[name]):
                continue
            self.run.results.pop()
            call = self.program.calls.pop()
            wild = Call(
                name, {key: self.wild(value) if self.chance(0.5) else value for key, value in call.args.items()}
            )
            self.refused.clear()
            if not self.add_call(wild) and self.refused and ordinary(self.refused[-1][1]):
                self.program.calls.append(wild)
                self.program.outputs, self.program.refused = [len(self.program.calls) - 1], True
                return without_unused(self.program)
        return None

    def wild(self, value: Any) -> Any:
        """Another value of its kind, which may not fit."""
        if isinstance(value, Ref):
            refs = [Ref("v", at) for at in range(len(self.run.results))]
            refs += [Ref("x", at) for at in range(len(self.run.inputs))]
            return self.choose(*refs)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            return self.integer(-7, 7)
        if isinstance(value, (tuple, list)):
            return type(value)(self.wild(item) if self.chance(0.5) else item for item in value)
        return value

    def finish(self) -> None:
        program = self.program
        used = {ref.number for call in program.calls for ref in refs_of(call.args) if ref.kind == "v"}
        last = len(program.calls) - 1
        others = [at for at in range(last) if at not in used]
        program.outputs = [last, *self.random.sample(others, min(len(others), 2))]
        gradients = any(self.run.results[at].dtype.is_floating_point for at in program.outputs)
        program.order = self.random.choices([0, 1, 2], [15, 70, 15])[0] if gradients else 0
        reads = any(OPERATIONS[call.op].reads for call in program.calls)
        program.mode = self.random.choices(["lazy", "eager", "compile"], [70, 20, 0 if reads else 10])[0]
        program.weights = self.integer(0, 2**31 - 1)


def ordinary(error: Exception) -> bool:
    """Whether the arguments are at fault, not a dtype for which PyTorch has no kernel on the CPU."""
    return isinstance(error, (RuntimeError, IndexError, ValueError, TypeError)) and "not implemented" not in str(error)
