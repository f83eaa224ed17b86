"""Steps with a cache: what a prompt and steps give is what one pass gives, whatever the cache and the caller's arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers

import forms
import helpers
import support

NAMES = ("cache", "past_key_values", "cache_params", "past_buckets_states", "state")


@dataclasses.dataclass
class Steps:
    """A prompt of `prompt` tokens, then `size` tokens a step. `placed`: the caller gives positions."""

    prompt: int
    size: int = 1
    placed: bool = True
    static: bool = False
    padding: int = 0  # hidden columns on the left of the last row


FORMS = {
    "steps": Steps(62),
    "unplaced": Steps(62, placed=False),
    "chunks": Steps(30, size=5, placed=False),
    "long": Steps(126),
    "longer": Steps(254, placed=False),
    "static": Steps(62, static=True),
    "padded": Steps(62, padding=5),
}
AFTER = 6  # tokens after the prompt


def cache_name(model: Any) -> str:
    """The name of the cache as an argument and as an output; it depends on the model and on transformers' version."""
    return next((name for name in NAMES if helpers.takes(model, name)), "past_key_values")


def new_cache(model: Any, form: Steps, length: int) -> dict[str, Any]:
    if not form.static:
        return {}
    return {cache_name(model): transformers.StaticCache(config=model.config, max_cache_len=length)}


def places(model: Any, form: Steps, start: int, stop: int, rows: int) -> dict[str, Any]:
    """Positions and the mask of columns start..stop-1, as a caller gives them."""
    given: dict[str, Any] = {}
    columns = torch.arange(start, stop)[None]
    if form.padding and not (start and is_recurrent(model)):
        mask = torch.ones(rows, stop, dtype=torch.long)
        mask[-1, : form.padding] = 0
        given["attention_mask"] = mask
        columns = (mask.cumsum(1) - 1)[:, start:stop]
    if form.placed:
        given.update(helpers.positions(model, columns))
    if helpers.takes(model, "cache_position"):
        given["cache_position"] = torch.arange(start, stop)
    return given


def logits_of(ids: torch.Tensor, form: Steps, model: Any) -> torch.Tensor:
    """[B, T, V] of a prompt and of steps with a cache."""
    length = ids.shape[1]
    given = {"input_ids": ids[:, : form.prompt], **places(model, form, 0, form.prompt, ids.shape[0])}
    name = cache_name(model)
    output = support.run(model, given, use_cache=True, **new_cache(model, form, length))
    pieces = [output.logits]
    for start in range(form.prompt, length, form.size):
        stop = min(start + form.size, length)
        step = {"input_ids": ids[:, start:stop], **places(model, form, start, stop, ids.shape[0])}
        output = support.run(model, step, use_cache=True, **{name: output[name]})
        pieces.append(output.logits)
    return torch.cat(pieces, dim=1)


def is_recurrent(model: Any) -> bool:
    """Whether its cache is a state: it takes one token a step, and no mask after the prompt."""
    return bool(getattr(model, "_is_stateful", False))


def static_or_skip(model: Any) -> None:
    flags = ("_can_compile_fullgraph", "_supports_static_cache")
    if not any(getattr(model, flag, False) for flag in flags) or is_recurrent(model):
        pytest.skip("the model's class does not promise a static cache")


def check(name: str, models: forms.Models, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that one of FORMS gives the logits of one pass."""
    form = FORMS[name]
    length = form.prompt + AFTER
    if length > forms.longest(models.oracle):
        pytest.skip(f"the model has {forms.longest(models.oracle)} positions, this takes {length}")
    if form.static:
        static_or_skip(models.oracle)
    if form.size > 1 and is_recurrent(models.oracle):
        pytest.skip("a recurrent state takes one token a step")
    rows = 2 if form.padding else 1
    ids = make_inputs(models.oracle, batch=rows, length=length)["input_ids"]
    ids[-1, : form.padding] = helpers.padding_id(models.oracle.config)
    columns = slice(form.padding, None)
    one_pass = {"input_ids": ids, **places(models.oracle, Steps(length, padding=form.padding), 0, length, rows)}
    one_pass.pop("cache_position", None)

    def plain(model: Any) -> torch.Tensor:
        return support.outputs(model, one_pass)["logits"][:, columns]

    def steps(model: Any) -> torch.Tensor:
        return logits_of(ids, form, model)[:, columns]

    def visible(x: torch.Tensor) -> torch.Tensor:
        return x[:, columns] if x.dim() > 2 else x

    forms.hold(f"logits with a cache ({name})", models, plain, steps, (visible, visible))
