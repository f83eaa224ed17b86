"""Programs in PyTorch: in the dtypes of the program, in float64 as the reference, and in float64 with every rounding
error of the program's dtypes replaced by a random one, whose effect on the results is what a tolerance is made of."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as TF

from . import torch_names
from .compare import EPSILON, FEW, MANY
from .operations import OPERATIONS
from .outcome import Outcome, weights_of
from .program import FLOATS, DTypeName, Input, Program, Ref, substituted

warnings.filterwarnings("ignore", category=UserWarning)


def to_torch(x: Input) -> torch.Tensor:
    array = np.array(x.array, order="C")
    plain = torch.from_numpy(array).to(getattr(torch, x.dtype)).reshape(x.array.shape)
    if x.layout == "transposed" and plain.ndim >= 2:
        return plain.transpose(-1, -2).contiguous().transpose(-1, -2)
    if x.layout == "strided" and plain.ndim >= 1:
        wide = torch.stack([plain, plain], -1)
        return wide[..., 0]
    return plain  # PyTorch has no negative strides


def dtype_name(x: torch.Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def to_numpy(x: torch.Tensor) -> np.ndarray:
    x = x.detach()
    return (x.double() if x.dtype.is_floating_point else x).numpy(force=True)


class Rounded(torch.autograd.Function):
    """float64 to the next number of a dtype, with the derivative 1."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return x.to(dtype).to(x.dtype)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


class Run:
    """One run of a program: in float64 with `dtypes` (the dtypes of its calls), and perturbed with `noise` (a seed)."""

    def __init__(self, program: Program, dtypes: list[str] | None = None, noise: int | None = None):
        self.program, self.dtypes, self.exact = program, dtypes, dtypes is not None
        self.noise = None if noise is None else torch.Generator().manual_seed(noise)
        # In some of many runs results are numbers of the dtype: they may meet a point where a derivative is infinite.
        self.rounds = noise is not None and noise >= FEW.runs and noise % 2 == 1
        self.sizes = noise is not None and noise >= MANY.runs
        self.names = {"torch": torch, "TF": TF, "t": torch_names}
        self.inputs = []
        for x in program.inputs:
            value = to_torch(x)
            value = value.double() if self.exact and value.dtype.is_floating_point else value
            self.inputs.append(value.requires_grad_(x.grad and program.order > 0))
        self.results: list[torch.Tensor] = []
        self.known: Outcome | None = None

    def errors(self, x: torch.Tensor) -> torch.Tensor:
        """In units of the largest: that one at first, which moves results the most; any where there are many runs."""
        if self.sizes:
            return torch.rand(x.shape, generator=self.noise, dtype=torch.float64) * 2 - 1
        return self.signs(x)

    def signs(self, x: torch.Tensor) -> torch.Tensor:
        return torch.randint(0, 2, x.shape, generator=self.noise, dtype=torch.float64) * 2 - 1

    def perturbed(self, x: torch.Tensor, epsilon: float) -> torch.Tensor:
        if self.noise is None or not x.dtype.is_floating_point:
            return x
        return x * (1 + epsilon / 2 * self.errors(x))

    def moved(self, number: float, dtype: str) -> float:
        return number * (1 + EPSILON[dtype] / 2 * float(self.errors(torch.zeros(())).item()))

    def nominal(self, ref: Ref) -> str:
        assert self.dtypes is not None
        return self.program.inputs[ref.number].dtype if ref.kind == "x" else self.dtypes[ref.number]

    def argument(self, inner: bool, item: Any, dtype: str) -> Any:
        if isinstance(item, float):  # it is rounded to the dtype of the call
            return item if self.noise is None or item.is_integer() or dtype not in FLOATS else self.moved(item, dtype)
        if isinstance(item, DTypeName):
            return torch.float64 if self.exact and item.name in FLOATS else getattr(torch, item.name)
        value = self.inputs[item.number] if item.kind == "x" else self.results[item.number]
        if self.noise is None or self.nominal(item) not in FLOATS:
            return value
        epsilon = EPSILON[self.nominal(item)]
        if value.requires_grad:  # what each use of a value adds to its gradient is rounded, too
            value = value.view_as(value)
            value.register_hook(lambda gradient: gradient if gradient is None else self.perturbed(gradient, epsilon))
        # Functions of several steps compute f16 and bf16 in float32.
        return self.perturbed(value, min(epsilon, EPSILON["float32"])) if inner else value

    def call(self, number: int) -> torch.Tensor:
        call = self.program.calls[number]
        op = OPERATIONS[call.op]
        dtype = "" if self.dtypes is None else self.dtypes[number]
        args = substituted(call.args, lambda item: self.argument(op.inner, item, dtype))
        epsilon = min(EPSILON.get(dtype, 0), EPSILON["float32"])
        torch_names.rounding = lambda x: self.perturbed(x, epsilon)
        with self.perturbed_memory(op.exact, dtype):
            result = eval(op.torch_code, self.names, args)
        if op.exact and self.rounds and dtype in FLOATS:  # exact but for a number that the dtype does not have
            result = Rounded.apply(result, getattr(torch, dtype))
        if self.exact and not op.exact and dtype in FLOATS:
            result = self.perturbed(result, EPSILON[dtype])
            if self.rounds:
                result = Rounded.apply(result, getattr(torch, dtype))
            if op.inner and self.noise is not None:  # a sum that is zero may have either sign
                result = result * torch.where(result == 0, self.signs(result), 1.0)
        return result

    def perturbed_memory(self, exact: bool, dtype: str) -> Any:
        """What a call keeps for its gradient was rounded."""
        if self.noise is None or self.rounds or exact or self.program.order == 0 or dtype not in FLOATS:
            return contextlib.nullcontext()
        pack = lambda x: self.perturbed(x.detach(), EPSILON[dtype])  # noqa: E731
        return torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x)

    def forward(self) -> None:
        for number in range(len(self.results), len(self.program.calls)):
            self.results.append(self.call(number))

    def gradients(self, outputs: list[torch.Tensor], create: bool) -> list[torch.Tensor]:
        return self.gradients_of([x for x in self.inputs if x.requires_grad], outputs, create)

    def gradients_of(self, wanted: list[torch.Tensor], outputs: list[torch.Tensor], create: bool) -> list[torch.Tensor]:
        weights = weights_of(self.program, [tuple(y.shape) for y in outputs])
        loss = torch.zeros((), dtype=torch.float64)
        for y, weight in zip(outputs, weights, strict=True):
            if y.dtype.is_floating_point and y.requires_grad:
                wide = y.float() if y.dtype in (torch.float16, torch.bfloat16) else y
                weight = self.perturbed(torch.from_numpy(weight), EPSILON["float32"])
                loss = loss + (wide * weight.to(wide.dtype)).sum()
        if not loss.requires_grad:
            return [torch.zeros_like(x) for x in wanted]
        found = torch.autograd.grad(loss, wanted, create_graph=create, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]

    def outcome(self) -> Outcome:
        if self.known is None:
            self.known = self.computed()
        return self.known

    def computed(self) -> Outcome:
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64 if self.exact else torch.float32)
        try:
            self.forward()
            outputs = [self.results[number] for number in self.program.outputs]
            result = Outcome([to_numpy(y) for y in outputs], [dtype_name(y) for y in outputs])
            if self.program.order >= 1:
                first = self.gradients(outputs, self.program.order == 2)
                result.gradients = [to_numpy(g) for g in first]
                result.gradient_dtypes = [dtype_name(g) for g in first]
                if self.program.order == 2:
                    result.seconds = [to_numpy(g) for g in self.gradients(first, False)]
            return result
        finally:
            torch.set_default_dtype(default)
