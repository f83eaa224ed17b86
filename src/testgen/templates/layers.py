"""Blocks and the whole model against f64 on the CPU. A failure names the block and, where one can be named, the operation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import calls
import case
import forms
import helpers
import recorded
import support
from choices import Again

MakeInputs = Callable[..., dict[str, Any]]
STEP = 8  # the ratio of errors in f16 or bf16 and in f32


def check_layers(models: forms.Models, make_inputs: MakeInputs, regime: str, size: str) -> None:
    """Teacher forcing: each block gets the oracle's inputs. Errors of a small model with lively weights have a ceiling."""
    oracle, reference, subject, dtype = models.oracle, models.reference, models.subject, models.dtype
    device, depth = next(subject.parameters()).device, support.depth_of(oracle)
    for title, given in forms.calls_of(oracle, make_inputs, long=regime == "lively"):
        call = support.on_grid(given, dtype)
        of_oracle = dict(support.run_block(oracle, call, "cpu", torch.float64))
        of_cpu = dict(support.run_block(reference, call, "cpu", dtype))
        got = support.run_block(
            subject, call, device, dtype
        )  # without the weights of attention, which SDPA does not return
        assert not of_oracle or got, f"{title} returns no tensor, the oracle {len(of_oracle)}"
        for name, value in got:
            assert name in of_oracle, f"{title} returns {name}, the oracle does not"
            again = Again(functools.partial(support.block_output, call, name), reference, oracle, subject)
            explain = functools.partial(calls.explain_block, call, oracle, reference, subject, dtype)
            close, exact = of_cpu[name], of_oracle[name]
            support.compare(f"{title}.{name}", value, close, exact, dtype, depth, again, explain)
            if regime == "lively" and size == "tiny":
                errors = support.distance(close, exact)[0], support.distance(value, exact)[0]
                module = oracle.get_submodule(call.block)
                part = module if next(module.children(), None) is None else None
                loss = functools.partial(calls.explain_loss, call, oracle, reference, dtype)
                floor = support.floor_of(dtype, depth)
                recorded.require_below_ceiling(errors, f"{title}.{name}", dtype, floor, part, loss)


def check_end_to_end(models: forms.Models, make_inputs: MakeInputs) -> None:
    """The outputs of the whole model, where errors add up as they do in use."""
    inputs = support.on_grid(make_inputs(models.oracle), models.dtype)
    compare_outputs("", models, inputs)


def compare_outputs(title: str, models: forms.Models, inputs: dict[str, Any]) -> None:
    """Asserts that each output of the device is near the oracle's; `title` begins the message."""
    exact, close = support.outputs(models.oracle, inputs), support.outputs(models.reference, inputs)
    got = support.outputs(models.subject, inputs)
    assert list(got) == list(exact), "the device's model has other outputs than the oracle"
    assert exact, "the model has no floating-point output"
    depth = support.depth_of(models.oracle)
    for name, value in exact.items():
        compute = functools.partial(support.output, inputs, name)
        again = Again(compute, models.reference, models.oracle, models.subject)
        explain = functools.partial(forms.explain, models, compute, compute)
        support.compare(f"{title}{name}", got[name], close[name], value, models.dtype, depth, again, explain)


def check_attention(models: forms.Models, make_inputs: MakeInputs, attention: str) -> None:
    """One implementation of attention against the oracle, which has another one."""
    if not helpers.offers(models.subject, attention):
        pytest.skip(f"the model has no attention {attention}")
    inputs = support.on_grid(make_inputs(models.oracle), models.dtype)
    support.set_implementation(models.subject, attention)
    compare_outputs(f"{attention}: ", models, inputs)


def check_finite(models: forms.Models, make_inputs: MakeInputs) -> None:
    """NaN and infinity are where the oracle has them; the first block that has others is named."""
    inputs = make_inputs(models.subject)
    got, exact = support.outputs(models.subject, inputs), support.outputs(models.oracle, inputs)
    for name, value in exact.items():
        if torch.equal(got[name].cpu().isfinite(), value.isfinite()):
            continue
        compute = functools.partial(support.output, inputs, name)
        results = [forms.block_results(model, compute) for model in (models.subject, models.oracle)]
        pairs = [(block, x, results[1].get(block, x)) for block, x in results[0].items()]
        wrong = [block for block, x, y in pairs if x.shape == y.shape and not torch.equal(x.isfinite(), y.isfinite())]
        counts = [int((~x.isfinite()).sum()) for x in (got[name], value)]
        pytest.fail(
            f"{name}: {counts[0]} elements are not finite, {counts[1]} of the oracle\n"
            f"first wrong block: {next(iter(wrong), 'none, the fault is after the blocks')}"
        )


def check_ladder(device: str, size: str, make_inputs: MakeInputs) -> None:
    """Errors are ordered as the data types are: f32 far below f16, and far below bf16."""
    oracle, errors = support.make_oracle(torch.float32, size=size), {}
    inputs = make_inputs(oracle)
    exact = next(iter(support.outputs(oracle, inputs).values()))
    for name, dtype in support.DTYPES.items():
        reason = support.refusal(dtype, size) if name != "f32" else ""
        if reason:
            pytest.skip(reason)
        got = next(iter(support.outputs(support.make_subject(device, dtype, size=size), inputs).values()))
        errors[name] = support.distance(got, exact)[0]
    for half in ("f16", "bf16"):
        assert errors["f32"] * STEP < errors[half], f"f32 is hardly better than {half}: {errors}"


def similarity(model: Any, outputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """[texts, images] exp(logit_scale) times the cosine of each pair, plus logit_bias: the definition, in f64."""
    text, image = (outputs[name].double().cpu() for name in ("text_embeds", "image_embeds"))
    text, image = (x / x.norm(dim=-1, keepdim=True) for x in (text, image))
    scale = model.logit_scale.detach().double().cpu().exp()
    bias = getattr(model, "logit_bias", None)
    scores: torch.Tensor = text @ image.T * scale + (0.0 if bias is None else bias.detach().double().cpu())
    return scores


def check_similarity(models: forms.Models, make_inputs: MakeInputs) -> None:
    """Asserts that the scores of pairs of a text and an image are similarity() of the model's embeddings."""
    inputs = support.on_grid(make_inputs(models.oracle), models.dtype)
    outputs = [support.outputs(model, inputs) for model in (models.oracle, models.reference, models.subject)]
    needed = {"text_embeds", "image_embeds", "logits_per_text"}
    if (
        not hasattr(models.oracle, "logit_scale")
        or not needed <= outputs[0].keys()
        or outputs[0]["text_embeds"].dim() != 2
    ):
        pytest.skip("the model's scores are not a scaled cosine of two embeddings")
    exact, close = similarity(models.oracle, outputs[0]), similarity(models.reference, outputs[1])
    in_f64 = support.distance(outputs[0]["logits_per_text"], exact)[0]
    cause = ", in f64 on the CPU too: the scale or the formula is wrong in the model's code" if in_f64 > 1e-6 else ""
    got = outputs[2]["logits_per_text"]
    # Absolute: cosines of unrelated pairs are small differences of large terms.
    allowed = float((close - exact).abs().max()) * support.FACTOR[models.dtype]
    allowed += 4 * support.UNIT[models.dtype] * float(exact.abs().max() + models.oracle.logit_scale.detach().exp())
    off = float((got.cpu().double() - exact).abs().max())
    name = f"{case.MODEL_CLASS} logits_per_text"
    assert off <= allowed and math.isfinite(off), (
        f"{name} is {off:.3g} from its definition, allowed {allowed:.3g}{cause}"
    )
