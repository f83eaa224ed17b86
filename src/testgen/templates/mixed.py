"""Gradients in mixed precision, in f16 with a GradScaler, against f64.

Right implementations round at different places: the mixed precision of cards computes norms, softmax and powers in f32,
the CPU's does not; kernels of attention keep probabilities or compute them again; sums have orders. Their error is
measured with the CPU as each of them in sequence, until the device is within the allowance or none is left.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import helpers
import support
from attention import Recomputed
from choices import Choices, tolerance
from losses import total_of

Gradients = dict[str, torch.Tensor]
ORDERS = 3  # of sums, with the casts of a card and with the CPU's
# docs.pytorch.org/docs/stable/amp.html, "CUDA Ops that can autocast to float32": functions of models among them.
IN_F32 = (
    "acos asin cosh cumprod cumsum cdist dist erfinv exp expm1 log log10 log1p log2 norm pow prod reciprocal renorm rsqrt "
    "sinh softmax log_softmax sum tan __pow__ __rpow__ __rdiv__ __rtruediv__ cosine_similarity cross_entropy group_norm "
    "kl_div l1_loss layer_norm mse_loss nll_loss normalize smooth_l1_loss softmin softplus"
)
PLACES = (torch, torch.Tensor, nn.functional)
OF_CARDS = {getattr(place, name) for name in IN_F32.split() for place in PLACES if hasattr(place, name)}


class CastsOfCards(TorchFunctionMode):
    """Takes f32 where the mixed precision of cards does; the CPU's has another list."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in OF_CARDS:
            args = tuple(widened(x) for x in args)
            kwargs = {name: widened(x) for name, x in (kwargs or {}).items()}
        return func(*args, **(kwargs or {}))


def widened(x: Any) -> Any:
    return x.float() if isinstance(x, torch.Tensor) and x.dtype in (torch.float16, torch.bfloat16) else x


def scaled_gradients(model: Any, inputs: dict[str, Any], dtype: torch.dtype, device: str) -> Gradients:
    """Gradients in mixed precision; in f16 with a GradScaler, as users have it."""
    kind = torch.device(device).type
    scaler = torch.amp.GradScaler(kind, init_scale=128.0, enabled=dtype == torch.float16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer.zero_grad()
    with torch.autocast(kind, dtype=dtype):
        total = total_of(model, inputs) / 64
    torch.autograd.backward([scaler.scale(total)])
    if scaler.is_enabled():
        require_unscaled(model, scaler, optimizer)
    return {name: p.grad.detach().cpu().double() for name, p in model.named_parameters() if p.grad is not None}


def require_unscaled(model: Any, scaler: Any, optimizer: Any) -> None:
    """unscale_(); asserts that it divides each gradient by the scale, a power of two: exactly, but for tiny numbers."""
    parameters = {name: p for name, p in model.named_parameters() if p.grad is not None}
    expected = {name: p.grad.detach().double() / scaler.get_scale() for name, p in parameters.items()}
    scaler.unscale_(optimizer)
    for name, p in parameters.items():
        off = (p.grad.double() - expected[name]).abs().nan_to_num()
        worst = float((off - 1e-6 * expected[name].abs().nan_to_num()).max()) if off.numel() else 0.0
        assert worst <= 1e-30, (
            f"gradient of {name} is {worst:.3g} from what it was divided by the scale {scaler.get_scale():g}\n"
            "operation: GradScaler.unscale_()"
        )


def skip_where_refused(error: RuntimeError, refused: str, device: str) -> None:
    """A skip where the device's mixed precision lacks an operation that the CPU, too, does not have in that data type.

    The CPU's mixed precision keeps such an operation in f32, a card's may not: torch.fft is one. refused: the reason why
    the model does not run in the data type on the CPU; empty where it does. An error of the device itself is a failure.
    """
    words = str(error).splitlines()[0] if str(error) else type(error).__name__
    if refused and not re.search("(CUDA|HIP) error", words):
        pytest.skip(f"{refused}; mixed precision on {device} does not take it either: {words}")


class Measure:
    """Gradients of the CPU in mixed precision as other right implementations have them. They are computed by need."""

    def __init__(self, inputs: dict[str, Any], dtype: torch.dtype, size: str) -> None:
        self.inputs, self.dtype, self.size = inputs, dtype, size
        self.found: list[Gradients] = []
        self.left = self.others()

    def run(self, device: str, *modes: Any, attention: str | None = None) -> Gradients:
        model = support.make_subject(device, torch.float32, size=self.size, attention=attention)
        with contextlib.ExitStack() as stack:
            for mode in modes:
                stack.enter_context(mode)
            return scaled_gradients(model, self.inputs, self.dtype, device)

    def others(self) -> Iterator[Gradients]:
        eager = support.attention_of_oracle()
        yield self.run("cpu", attention=eager)
        yield self.run("cpu", Recomputed())
        yield self.run("cpu", CastsOfCards())
        yield self.run("cpu", CastsOfCards(), Recomputed())
        for seed in range(ORDERS):
            yield self.run("cpu", support.OtherOrder(seed))
            yield self.run("cpu", CastsOfCards(), Recomputed(), support.OtherOrder(seed))

    def error(self, name: str, exact: torch.Tensor, own: float, enough: Callable[[float], bool]) -> float:
        """The largest error of a gradient, with no more implementations than are enough."""
        for gradients in self.every():
            error = float((gradients[name] - exact).norm()) if name in gradients else 0.0
            own = max(own, error if math.isfinite(error) else 0.0)
            if enough(own):
                break
        return own

    def every(self) -> Iterator[Gradients]:
        yield from self.found
        for gradients in self.left:
            self.found.append(gradients)
            yield gradients

    def following(self, oracle: Any, device: str) -> tuple[Gradients, Gradients]:
        """(the device's, the CPU's) gradients with the oracle's choices: of top-k, and of sides of kinks."""
        factor, floor = support.FACTOR[self.dtype], support.UNIT[self.dtype]
        with Choices() as exact:
            helpers.gradients(oracle, self.inputs)
        close = Choices(exact.made)
        of_cpu = self.run("cpu", CastsOfCards(), close)
        allowed = [tolerance(c, e, factor, floor) for c, e in zip(close.made, exact.made, strict=False)]
        return self.run(device, Choices(exact.made[: len(allowed)], allowed)), of_cpu


def check_mixed(dtype: torch.dtype, device: str, size: str, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that gradients in mixed precision are finite, and as near to f64 as right implementations are."""
    oracle = support.make_oracle(size=size)
    inputs = make_inputs(oracle)
    exact = {name: value.double() / 64 for name, value in helpers.gradients(oracle, inputs).items()}
    measure = Measure(inputs, dtype, size)
    try:
        close = measure.run("cpu")
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"mixed precision fails on the CPU: {str(error).splitlines()[0]}")
    try:
        got = measure.run(device)
    except RuntimeError as error:
        skip_where_refused(error, support.refusal(dtype, size), device)
        raise
    wrong = []
    for name in (name for name in exact if name in close and bool(close[name].isfinite().all())):
        assert name in got and bool(got[name].isfinite().all()), f"gradient of {name} is not finite on {device}"
        off, allowed = judged(name, got, [close], exact, measure)
        if off > allowed:
            wrong.append(name)
    if wrong:
        followed, of_cpu = measure.following(oracle, device)
    for name in wrong:
        off, allowed = judged(name, followed, [close, of_cpu], exact, measure)
        assert off <= allowed, f"gradient of {name} in mixed precision is off by {off:.3g}, allowed {allowed:.3g}"


def judged(
    name: str, got: Gradients, close: list[Gradients], exact: Gradients, measure: Measure
) -> tuple[float, float]:
    """(the error of a gradient, what is allowed), with `close` and the implementations of `measure`."""
    dtype, value = measure.dtype, exact[name]
    largest = max((float(x.norm()) for x in exact.values()), default=0.0)
    rounding = 2 * support.UNIT[dtype] * max(float(value.norm()), 1e-2 * largest)
    factor = support.FACTOR_OF_FEW if value.numel() < support.FEW else support.FACTOR[dtype]
    off, errors = float((got[name] - value).norm()), [float((x[name] - value).norm()) for x in close if name in x]
    own = max(error for error in errors if math.isfinite(error))
    own = measure.error(name, value, own, lambda error: off <= factor * error + rounding)
    return off, factor * own + rounding
