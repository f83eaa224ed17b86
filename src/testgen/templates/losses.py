"""Training: losses from their definitions, gradients with checkpointing, steps of an optimizer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import forms
import helpers
import support
from attention import Recomputed

IGNORED = -100
STEPS, RATE, EPSILON, DECAY = 3, 1e-3, 1.0, 0.1  # of AdamW
TO_SEQUENCES = ("seq2seq-lm", "speech-seq2seq")
PER_ROW = ("sequence-classification", "image-classification", "audio-classification")


def shifts(task: str, config: Any) -> bool:
    """Whether the loss compares a position with the next token. Decoders alone do, also those whose library lists them
    among models with an encoder, such as Audio Flamingo 3 and Granite Speech."""
    return task == "causal-lm" or (task in TO_SEQUENCES and not config.is_encoder_decoder)


def labels_of(task: str, shifted: bool, logits: torch.Tensor, inputs: dict[str, Any]) -> torch.Tensor:
    """Labels for the task: ids in the shape of the logits, the first and some others are ignored."""
    generator = torch.Generator().manual_seed(3)
    if task in PER_ROW:
        return torch.randint(0, logits.shape[-1], logits.shape[:1], generator=generator)
    if shifted:
        labels = inputs["input_ids"].clone()
    else:
        labels = torch.randint(0, logits.shape[-1], logits.shape[:2], generator=generator)
    labels[:, 1::4] = IGNORED
    labels[0, -2:] = IGNORED
    return labels


def own_loss(shifted: bool, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean of -log softmax at the labels that are not ignored, written out."""
    if shifted:
        logits, labels = logits[:, :-1], labels[:, 1:]
    logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    kept = labels != IGNORED
    logits, labels = logits[kept], labels[kept]
    wide = logits.double()
    return (wide.logsumexp(-1) - wide[torch.arange(len(labels)), labels]).mean()


def check_loss(task: str, models: forms.Models, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that the model's loss with labels is own_loss() of the oracle's logits."""
    if not helpers.takes(models.oracle, "labels"):
        pytest.skip("forward() takes no labels")
    inputs = support.on_grid(make_inputs(models.oracle), models.dtype)
    exact_logits = support.outputs(models.oracle, inputs)["logits"]
    shifted = shifts(task, models.oracle.config)
    labels = labels_of(task, shifted, exact_logits, inputs)
    exact = own_loss(shifted, exact_logits, labels)
    close = own_loss(shifted, support.outputs(models.reference, inputs)["logits"], labels)
    given = {**inputs, "labels": labels}
    got = support.run(models.subject, given)["loss"].cpu()
    rounding = support.UNIT[models.dtype] * 8  # of the mean and of its terms
    in_f64 = support.run(models.oracle, given)["loss"]
    allowed = support.FACTOR[models.dtype] * float((close - exact).abs()) + rounding * float(exact.abs())
    cause = (
        ", in f64 on the CPU too: labels or the formula are wrong in the model's code or the library"
        if float((in_f64 - exact).abs()) > 1e-6 * float(exact.abs())
        else ""
    )
    off = float((got.double() - exact).abs())
    assert off <= allowed, (
        f"the loss is {float(got):.9g}, from its definition {float(exact):.9g}, allowed {allowed:.3g}{cause}"
    )


def without_dropout(model: Any) -> Any:
    """The model in training mode with all rates of dropout 0."""
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and ("drop" in name or name == "p" and "drop" in type(module).__name__.lower()):
                setattr(module, name, 0.0)
    for part in helpers.parts_of(model.config):
        for name, value in list(vars(part).items()):
            if isinstance(value, float) and ("drop" in name or "mask_" in name and name.endswith("_prob")):
                setattr(part, name, 0.0)
    return model.train()


def total_of(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    """The sum of the products of all outputs with fixed numbers."""
    parameter = next(p for p in model.parameters() if p.is_floating_point())
    given = support.on(inputs, parameter.device, parameter.dtype)
    total = torch.zeros((), dtype=parameter.dtype, device=parameter.device)
    torch.manual_seed(0)
    for _, value in support.float_outputs(model(**given)):
        numbers = torch.randint(-8, 9, value.shape, generator=torch.Generator().manual_seed(1))
        total = total + (value * numbers.to(value) / 8).sum()
    return total


def gradients(model: Any, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    model.zero_grad()
    torch.autograd.backward(total_of(model, inputs))
    return {name: p.grad.detach().cpu().double() for name, p in model.named_parameters() if p.grad is not None}


def checkpoint_or_skip(model: Any) -> None:
    """Turns gradient checkpointing on, by the name that this version of transformers has for it."""
    if not getattr(model, "supports_gradient_checkpointing", False):
        pytest.skip("the model's class does not promise gradient checkpointing")
    enable = getattr(model, "gradient_checkpointing_enable", None) or model.activation_checkpointing_enable
    enable()


def check_checkpointing(device: str, size: str, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that gradients with checkpointing are those without: the same operations run again."""
    model = without_dropout(support.make_subject(device, torch.float32, size=size))
    inputs = make_inputs(model)
    depth = helpers.gradient_depth(model, inputs)
    model.config.use_cache = False  # checkpointing refuses a cache
    plain = gradients(model, inputs)
    checkpoint_or_skip(model)
    again = gradients(model, inputs)
    largest = max((float(g.norm()) for g in plain.values()), default=0.0)
    missing = sorted(plain.keys() - again.keys())
    assert not missing, f"no gradient with checkpointing: {', '.join(missing[:5])}"
    for name, value in plain.items():
        off = float((again[name] - value).norm())
        allowed = support.floor_of(torch.float32, depth) * max(float(value.norm()), 1e-3 * largest)
        assert off <= allowed, f"gradient of {name} with checkpointing is off by {off:.3g}, allowed {allowed:.3g}"


def trained(model: Any, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """How far three steps of AdamW move each parameter. Its epsilon is large, so that steps depend smoothly on gradients."""
    wide = support.InDouble() if next(model.parameters()).dtype == torch.float64 else torch.enable_grad()
    model = without_dropout(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, eps=EPSILON, weight_decay=DECAY)
    seen: list[dict[str, torch.Tensor]] = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with wide, helpers.recurrent_gradients(model):
            torch.autograd.backward(total_of(model, inputs) / 64)
        seen.append({name: p.grad.detach().clone() for name, p in model.named_parameters() if p.grad is not None})
        optimizer.step()
    after = {name: p.detach() for name, p in model.named_parameters() if name in seen[-1]}
    for name, value in after.items():
        require_adamw(name, before[name], [row[name] for row in seen if name in row], value)
    return {name: (value - before[name]).cpu().double() for name, value in after.items()}


def adamw(value: torch.Tensor, gradients: list[torch.Tensor]) -> torch.Tensor:
    """The value after a step with each gradient, by the definition (arxiv.org/abs/1711.05101, algorithm 2), in f64."""
    value, mean, square = value.double(), torch.zeros_like(value).double(), torch.zeros_like(value).double()
    for step, gradient in enumerate(gradients, 1):
        mean = 0.9 * mean + 0.1 * gradient.double()
        square = 0.999 * square + 0.001 * gradient.double() ** 2
        update = (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + EPSILON)
        value = value - RATE * DECAY * value - RATE * update
    return value


def require_adamw(name: str, before: torch.Tensor, gradients: list[torch.Tensor], after: torch.Tensor) -> None:
    """Asserts that an optimizer's steps with these gradients move it as adamw() does: only their rounding is allowed."""
    if len(gradients) != STEPS or not all(bool(g.isfinite().all()) for g in gradients):
        return  # the comparison with f64 shows it
    expected = adamw(before, gradients)
    off, moved = float((after.double() - expected).norm()), float((expected - before.double()).norm())
    allowed = 16 * support.UNIT[torch.float32] * STEPS * float(before.double().norm()) + 1e-4 * moved
    assert off <= allowed, (
        f"{name} after {STEPS} steps of AdamW is {off:.3g} from the definition with the same gradients, allowed "
        f"{allowed:.3g}\noperation: the optimizer's step"
    )


def check_optimizer(device: str, size: str, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that three steps of an optimizer move every parameter as they do in f64."""
    fresh = [support.set_weights(support.build_model(size)) for _ in range(2)]
    attention = support.attention_of_oracle()
    oracle, reference = (support.set_implementation(model, attention) for model in fresh)
    inputs = make_inputs(oracle)
    exact, close = trained(oracle.double(), inputs), trained(reference, inputs)
    got = trained(support.make_subject(device, torch.float32, size=size), inputs)
    largest = max((float(x.norm()) for x in exact.values()), default=0.0)
    assert largest > 0, "no parameter moves"
    for name, value in exact.items():
        assert name in got, f"{name} has no gradient on {device}"
        off, own = float((got[name] - value).norm()), float((close[name] - value).norm())
        allowed = 16 * own + 1e-4 * max(float(value.norm()), 1e-2 * largest)
        assert off <= allowed, f"{name} after {STEPS} steps is off by {off:.3g}, allowed {allowed:.3g}"


def scaled_gradients(model: Any, inputs: dict[str, Any], dtype: torch.dtype, device: str) -> dict[str, torch.Tensor]:
    """Gradients in mixed precision; in f16 with a GradScaler, as users have it."""
    kind = torch.device(device).type
    scaler = torch.amp.GradScaler(kind, init_scale=128.0, enabled=dtype == torch.float16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer.zero_grad()
    with torch.autocast(kind, dtype=dtype):
        total = total_of(model, inputs) / 64
    scaler.scale(total).backward()
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


def other_kernels(inputs: dict[str, Any], dtype: torch.dtype, size: str) -> list[dict[str, torch.Tensor]]:
    """The CPU's gradients in mixed precision with eager attention, and with SDPA that computes probabilities again: all of
    these are right, and where terms cancel, as in the gradient of a bias of keys, one alone may be near by chance."""
    eager = support.make_subject("cpu", torch.float32, size=size, attention=support.attention_of_oracle())
    found = [scaled_gradients(eager, inputs, dtype, "cpu")]
    with Recomputed():
        found.append(scaled_gradients(support.make_subject("cpu", torch.float32, size=size), inputs, dtype, "cpu"))
    return found


def check_mixed(dtype: torch.dtype, device: str, size: str, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that gradients in mixed precision are finite, and as near to f64 as the CPU's own."""
    oracle = support.make_oracle(size=size)
    inputs = make_inputs(oracle)
    exact = {name: value.double() for name, value in helpers.gradients(oracle, inputs).items()}
    try:
        close = scaled_gradients(support.make_subject("cpu", torch.float32, size=size), inputs, dtype, "cpu")
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"mixed precision fails on the CPU: {str(error).splitlines()[0]}")
    try:
        got = scaled_gradients(support.make_subject(device, torch.float32, size=size), inputs, dtype, device)
    except RuntimeError as error:
        skip_where_refused(error, support.refusal(dtype, size), device)
        raise
    largest = max((float(x.norm()) for x in exact.values()), default=0.0) / 64
    others: list[dict[str, torch.Tensor]] = []
    for name in exact.keys() & close.keys():
        value = exact[name] / 64
        if not bool(close[name].isfinite().all()):
            continue  # the CPU overflows too
        assert name in got and bool(got[name].isfinite().all()), f"gradient of {name} is not finite on {device}"
        off, own = float((got[name] - value).norm()), float((close[name] - value).norm())
        rounding = 2 * support.UNIT[dtype] * max(float(value.norm()), 1e-2 * largest)
        if off > support.FACTOR[dtype] * own + rounding:
            others = others or other_kernels(inputs, dtype, size)
            errors = [float((other[name] - value).norm()) for other in others if name in other]
            own = max([own, *(error for error in errors if math.isfinite(error))])
        allowed = support.FACTOR[dtype] * own + rounding
        assert off <= allowed, f"gradient of {name} in mixed precision is off by {off:.3g}, allowed {allowed:.3g}"
