"""Gradients, mixed precision and torch.compile against f64."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import forms
import helpers
import support
from choices import Again, Choices, OneOf

MakeInputs = Callable[..., dict[str, Any]]
# Relative errors say nothing where terms of a sum cancel, so that the CPU itself has half of the digits.
LOST = 2.0**-12
SYSTEMATIC = 8.0  # times the change by another order of sums: an error above is not one of rounding


def check_grad(device: str, size: str, make_inputs: MakeInputs) -> None:
    """One backward pass: the gradient of every parameter against f64."""
    oracle, reference = support.make_oracle(size=size), support.make_reference(torch.float32, size=size)
    subject = support.make_subject(device, torch.float32, size=size)
    inputs = make_inputs(oracle)
    exact, close, got = (helpers.gradients(model, inputs) for model in (oracle, reference, subject))
    largest = max((float(g.norm()) for g in exact.values()), default=0.0)
    assert largest > 0, "no parameter has a gradient"
    missing = sorted(exact.keys() - got.keys())
    assert not missing, f"no gradient on {device}, but in the oracle: {', '.join(missing)}"
    require_rounding(oracle, reference, inputs, exact, close)
    depth = helpers.gradient_depth(oracle, inputs)
    kept: dict[Any, Any] = {}

    def compute(model: Any) -> Any:  # all gradients take the time of one
        return helpers.gradients(model, inputs)

    for name, value in exact.items():
        if float(value.norm()) > 1e-6 * largest and support.distance(close[name], value)[0] <= LOST:
            again = OneOf(compute, reference, oracle, subject, LOST, name=name, kept=kept)
            support.compare(f"gradient of {name}", got[name], close[name], value, torch.float32, depth, again)


def require_rounding(
    oracle: Any, reference: Any, inputs: dict[str, Any], exact: dict[str, torch.Tensor], close: dict[str, torch.Tensor]
) -> None:
    """Asserts that the CPU's error in all gradients together is one of rounding, which another order of sums changes.

    The device runs the code of the CPU: a gradient that is wrong on both does not measure the device's error.
    """
    if total_error(close, exact) <= LOST:
        return
    with Choices() as chosen:
        helpers.gradients(oracle, inputs)
    orders = []
    for seed in (0, 1):
        with Choices(chosen.made), support.OtherOrder(seed):
            orders.append(helpers.gradients(reference, inputs))
    plain, other = orders
    error, change = total_error(plain, exact), total_error(other, plain)
    names = [name for name in exact if name in plain and support.distance(plain[name], exact[name])[0] > LOST]
    assert error <= LOST or error <= SYSTEMATIC * change, (
        f"{type(oracle).__name__}: gradients in f32 on the CPU are off by {error:.3g} of their norm, and by {change:.3g} "
        f"from those in another order of sums: it is not rounding, a backward pass is wrong\nwrong gradients: {', '.join(names[:5])}"
    )


def total_error(got: dict[str, torch.Tensor], exact: dict[str, torch.Tensor]) -> float:
    """The relative error of all gradients together."""
    pairs = [(got[name].double(), value.double()) for name, value in exact.items() if name in got]
    size = math.sqrt(sum(float(value.norm()) ** 2 for _, value in pairs))
    return math.sqrt(sum(float((g - value).norm()) ** 2 for g, value in pairs)) / max(size, 1e-30)


def mixed_outputs_or_skip(
    device: str, size: str, subject: Any, inputs: dict[str, Any]
) -> list[dict[str, torch.Tensor]]:
    """Outputs in mixed precision of the CPU and of the device, and the CPU's in bf16; a skip where the CPU has none."""
    reference = support.make_reference(torch.float32, size=size)
    try:
        mixed = helpers.mixed_outputs(reference, inputs)  # experts chosen by rounded scores may be others than in bf16
    except RuntimeError as error:
        pytest.skip(f"mixed precision fails on the CPU: {str(error).splitlines()[0]}")
    refused = support.refusal(torch.bfloat16, size)
    half = mixed if refused else support.outputs(support.make_reference(torch.bfloat16, size=size), inputs)
    try:
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
            return [mixed, support.outputs(subject, inputs), half]
    except RuntimeError as error:
        # An operation without bf16, which mixed precision leaves in f32 on the CPU alone.
        if str(error).splitlines()[0] not in refused:
            raise
        pytest.skip(refused)


def check_autocast(device: str, size: str, make_inputs: MakeInputs) -> None:
    """Mixed precision: within bf16's error or that of the CPU's own, finite, and the weights are unchanged."""
    oracle, subject = support.make_oracle(size=size), support.make_subject(device, torch.float32, size=size)
    reference = support.make_reference(torch.float32, size=size)
    before = {name: value.clone() for name, value in subject.state_dict().items()}
    inputs = make_inputs(oracle)
    exact = support.outputs(oracle, inputs)
    mixed, got, half = mixed_outputs_or_skip(device, size, subject, inputs)
    models = forms.Models(oracle, reference, subject, torch.bfloat16)
    for name, value in exact.items():
        close = helpers.worse(half[name], mixed[name], value)
        if support.distance(close, value)[0] == math.inf:
            pytest.skip(f"{name} overflows in mixed precision on the CPU")

        def compute(model: Any, name: str = name) -> torch.Tensor:
            return support.output(inputs, name, model) if model is oracle else helpers.mixed_output(inputs, name, model)

        again = Again(functools.partial(helpers.mixed_output, inputs, name), reference)
        explain = functools.partial(forms.first_block, models, compute, compute, (forms.same, forms.same))
        depth = support.depth_of(oracle)
        support.compare(f"autocast: {name}", got[name], close, value, torch.bfloat16, depth, again, explain)
    changed = [name for name, value in subject.state_dict().items() if not torch.equal(before[name], value)]
    assert not changed, f"mixed precision changes weights\nfirst wrong weight: {changed[0]}"


def check_compile(device: str, size: str, make_inputs: MakeInputs) -> None:
    """torch.compile against the oracle, by the rule for everything else."""
    if device == "cpu":
        pytest.skip("on a CPU this tests the C++ compiler of the machine")
    oracle, reference = support.make_oracle(size=size), support.make_reference(torch.float32, size=size)
    inputs = make_inputs(oracle)
    exact, close = support.outputs(oracle, inputs), support.outputs(reference, inputs)
    subject = support.make_subject(device, torch.float32, size=size)
    subject.forward = torch.compile(subject.forward)
    got = support.outputs(subject, inputs)
    depth = support.depth_of(oracle)
    for name, value in exact.items():
        again = Again(functools.partial(support.output, inputs, name), reference)
        support.compare(f"compiled: {name}", got[name], close[name], value, torch.float32, depth, again)
