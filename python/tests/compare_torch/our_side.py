"""Programs in Gabbro."""

from __future__ import annotations

from typing import Any

import numpy as np

import gabbro as gb
import gabbro.nn.functional as F

from .operations import OPERATIONS
from .outcome import Outcome, weights_of
from .program import FLOATS, DTypeName, Input, Program, substituted


class Helpers:
    """What expressions of our side call `ours`."""

    @staticmethod
    def setitem(a: gb.Tensor, key: Any, value: Any) -> gb.Tensor:
        result = a * 1 if a.dtype != gb.bool else gb.logical_or(a, False)
        result[key] = value
        return result


NAMES = {"gb": gb.array_api, "F": F, "ours": Helpers}  # functions with the meanings of the standard


def to_ours(x: Input) -> gb.Tensor:
    """With the strides that the input's layout says."""
    array = x.array.astype(np.float32) if x.dtype == "bfloat16" else x.array
    dtype = getattr(gb, x.dtype)
    make = lambda array: gb.tensor(np.array(array, order="C"), dtype=dtype)  # noqa: E731
    if x.layout == "transposed" and array.ndim >= 2:
        return make(np.swapaxes(array, -1, -2)).swapaxes(-1, -2)
    if x.layout == "reversed" and array.ndim >= 1:
        return make(array[::-1])[::-1]
    if x.layout == "strided" and array.ndim >= 1:
        return make(np.repeat(array, 2, -1))[..., ::2]
    return make(array)


def dtype_name(x: gb.Tensor) -> str:
    return str(x.dtype).removeprefix("gabbro.")


def to_numpy(x: gb.Tensor) -> np.ndarray:
    if dtype_name(x) in FLOATS:
        return np.asarray((x.astype(gb.float32) if x.dtype == gb.bfloat16 else x).numpy(), np.float64)
    return x.numpy().copy()


class OurRun:
    def __init__(self, program: Program):
        self.program = program
        self.inputs = [to_ours(x) for x in program.inputs]
        self.wanted = [at for at, x in enumerate(program.inputs) if x.grad and program.order > 0]

    def results(self, inputs: list[gb.Tensor]) -> list[gb.Tensor]:
        results: list[gb.Tensor] = []

        def argument(item: Any) -> Any:
            if isinstance(item, DTypeName):
                return getattr(gb, item.name)
            if isinstance(item, float):
                return item
            return inputs[item.number] if item.kind == "x" else results[item.number]

        for call in self.program.calls:
            results.append(eval(OPERATIONS[call.op].our_code, NAMES, substituted(call.args, argument)))
            if self.program.mode == "eager":
                gb.eval(results[-1])
        return [results[at] for at in self.program.outputs]

    def with_wanted(self, values: tuple[gb.Tensor, ...]) -> list[gb.Tensor]:
        inputs = list(self.inputs)
        for at, value in zip(self.wanted, values, strict=True):
            inputs[at] = value
        return inputs

    def weighted(self, outputs: list[gb.Tensor]) -> gb.Tensor:
        loss = gb.zeros((), dtype=gb.float32)
        weights = weights_of(self.program, [y.shape for y in outputs])
        for y, weight in zip(outputs, weights, strict=True):
            if dtype_name(y) in FLOATS:
                wide = gb.float64 if y.dtype == gb.float64 else gb.float32
                loss = loss + (y.astype(wide) * gb.tensor(weight, dtype=wide)).sum()
        return loss

    def first(self, *values: gb.Tensor) -> tuple[list[gb.Tensor], list[gb.Tensor]]:
        """Outputs, and gradients of their weighted sum."""

        def loss(*values: gb.Tensor) -> tuple[gb.Tensor, list[gb.Tensor]]:
            outputs = self.results(self.with_wanted(values))
            return self.weighted(outputs), outputs

        if not self.wanted or self.program.order == 0:
            return self.results(self.with_wanted(values)), []
        gradients, outputs = gb.grad(loss, range(len(values)), has_aux=True)(*values)
        return outputs, list(gradients)

    def second(self, *values: gb.Tensor) -> tuple[gb.Tensor, ...]:
        return gb.grad(lambda *values: self.weighted(self.first(*values)[1]), range(len(values)))(*values)

    def outcome(self) -> Outcome:
        values = [self.inputs[at] for at in self.wanted]
        first = self.first
        if self.program.mode == "compile":
            first = gb.compile(self.first)
            first(*values)
        outputs, gradients = first(*values)
        result = Outcome(
            [to_numpy(y) for y in outputs],
            [dtype_name(y) for y in outputs],
            [to_numpy(g) for g in gradients],
            [dtype_name(g) for g in gradients],
        )
        if self.program.order == 2 and values:
            result.seconds = [to_numpy(g) for g in self.second(*values)]
        return result
