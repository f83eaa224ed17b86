"""Training: losses from their definitions, gradients with checkpointing, steps of an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import forms
import helpers
import support
from choices import Choices, tolerance
from draws import SameDraws

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
    labels: torch.Tensor
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


def logits_in_orders(reference: Any, inputs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The CPU's logits, then with sums in other orders: the error of one number, a mean, may be small by chance."""
    yield support.outputs(reference, inputs)["logits"]
    for seed in range(support.ORDERS):
        with support.OtherOrder(seed):
            yield support.outputs(reference, inputs)["logits"]


def check_loss(task: str, models: forms.Models, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that the model's loss with labels is own_loss() of the oracle's logits."""
    if not helpers.takes(models.oracle, "labels"):
        pytest.skip("forward() takes no labels")
    inputs = support.on_grid(make_inputs(models.oracle), models.dtype)
    exact_logits = support.outputs(models.oracle, inputs)["logits"]
    shifted = shifts(task, models.oracle.config)
    labels = labels_of(task, shifted, exact_logits, inputs)
    exact = own_loss(shifted, exact_logits, labels)
    given = {**inputs, "labels": labels}
    got = support.run(models.subject, given)["loss"].cpu()
    in_f64 = support.run(models.oracle, given)["loss"]
    cause = (
        ", in f64 on the CPU too: labels or the formula are wrong in the model's code or the library"
        if float((in_f64 - exact).abs()) > 1e-6 * float(exact.abs())
        else ""
    )
    off, own, allowed = float((got.double() - exact).abs()), 0.0, 0.0
    rounding = support.UNIT[models.dtype] * 8 * float(exact.abs())  # of the mean and of its terms
    for logits in logits_in_orders(models.reference, inputs):
        own = max(own, float((own_loss(shifted, logits, labels) - exact).abs()))
        allowed = support.FACTOR_OF_FEW * own + rounding
        if off <= allowed:
            break
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
    errors: dict[str, float] = {}
    for name, value in plain.items():
        off = float((again[name] - value).norm())
        allowed = support.floor_of(torch.float32, depth) * max(float(value.norm()), 1e-3 * largest)
        if off > allowed:  # kernels whose sums have no fixed order: each run is as near to f64 as the CPU's
            errors = errors or training_errors(size, inputs)
            allowed += 2 * support.FACTOR[torch.float32] * errors.get(name, 0.0)
        assert off <= allowed, f"gradient of {name} with checkpointing is off by {off:.3g}, allowed {allowed:.3g}"


def training_errors(size: str, inputs: dict[str, Any]) -> dict[str, float]:
    """The error of each gradient in training mode in f32 on the CPU, as a norm."""
    models = [support.make_subject("cpu", torch.float32, size=size) for _ in range(2)]
    for model in models:
        model.config.use_cache = False
    with SameDraws():
        close = gradients(without_dropout(models[0]), inputs)
    with support.InDouble(), SameDraws():
        exact = gradients(without_dropout(models[1].double()), inputs)
    return {name: float((value - exact[name]).norm()) for name, value in close.items() if name in exact}


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
            with SameDraws():
                total = total_of(model, inputs) / 64
            torch.autograd.backward(total)
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


class Steps:
    """Three steps of fresh models: in f64, on the CPU and on the device."""

    def __init__(self, device: str, size: str, make_inputs: Callable[..., dict[str, Any]]) -> None:
        self.device, self.size = device, size
        self.inputs = make_inputs(support.make_oracle(size=size))

    def exact(self) -> dict[str, torch.Tensor]:
        return trained(self.fresh().double(), self.inputs)

    def close(self) -> dict[str, torch.Tensor]:
        return trained(self.fresh(), self.inputs)

    def got(self) -> dict[str, torch.Tensor]:
        return trained(support.make_subject(self.device, torch.float32, size=self.size), self.inputs)

    def fresh(self) -> Any:
        model = support.set_weights(support.build_model(self.size))
        return support.set_implementation(model, support.attention_of_oracle())

    def following(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """(close, got) with the oracle's choices of top-k and of sides of kinks, where scores are as good as equal."""
        with Choices() as oracles:
            self.exact()
        with Choices(oracles.made) as mine:
            close = self.close()
        factor, floor = support.FACTOR[torch.float32], support.floor_of(torch.float32, support.depth_of(self.fresh()))
        pairs = zip(mine.made, oracles.made, strict=False)
        allowed = [tolerance(own, oracle, factor, floor) for own, oracle in pairs]
        with Choices(oracles.made[: len(allowed)], allowed):
            return close, self.got()


def check_optimizer(device: str, size: str, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that three steps of an optimizer move every parameter as they do in f64."""
    steps = Steps(device, size, make_inputs)
    exact, close, got = steps.exact(), steps.close(), steps.got()
    assert any(float(x.norm()) > 0 for x in exact.values()), "no parameter moves"
    missing = sorted(exact.keys() - got.keys())
    assert not missing, f"{', '.join(missing[:5])} has no gradient on {device}"
    closes, wrong = [close], far_off(exact, [close], got)
    for seed in range(support.ORDERS):
        if not wrong:
            return
        with support.OtherOrder(seed):
            closes.append(steps.close())
        wrong = far_off(exact, closes, got)
    close, got = steps.following()
    wrong = far_off(exact, [*closes, close], got)
    assert not wrong, f"{wrong[0][0]} after {STEPS} steps is off by {wrong[0][1]:.3g}, allowed {wrong[0][2]:.3g}"


def far_off(
    exact: dict[str, torch.Tensor], closes: list[dict[str, torch.Tensor]], got: dict[str, torch.Tensor]
) -> list[tuple[str, float, float]]:
    """(name, error, what is allowed) of each parameter that steps move too far or too short. closes: the CPU's."""
    largest = max(float(x.norm()) for x in exact.values())
    found = []
    for name, value in exact.items():
        off, own = float((got[name] - value).norm()), max(float((close[name] - value).norm()) for close in closes)
        allowed = 16 * own + 1e-4 * max(float(value.norm()), 1e-2 * largest)
        if not off <= allowed:
            found.append((name, off, allowed))
    return found
