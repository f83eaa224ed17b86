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
    reorders: bool = False  # two rows change places after the prompt, as beams do


FORMS = {
    "steps": Steps(62),
    "unplaced": Steps(62, placed=False),
    "chunks": Steps(30, size=5, placed=False),
    "long": Steps(126),
    "longer": Steps(254, placed=False),
    "static": Steps(62, static=True),
    "padded": Steps(62, padding=5),
    "reordered": Steps(14, placed=False, reorders=True),
}
AFTER = 6  # tokens after the prompt
Entries = dict[str, torch.Tensor]
Inputs = dict[str, Any]


def cache_name(model: Any) -> str:
    """The name of the cache as an argument and as an output; it depends on the model and on transformers' version."""
    return next((name for name in NAMES if helpers.takes(model, name)), "past_key_values")


def new_cache(model: Any, form: Steps, length: int) -> dict[str, Any]:
    if not form.static:
        return {}
    return {cache_name(model): transformers.StaticCache(config=model.config, max_cache_len=length)}


def ids_name(model: Any) -> str:
    """The argument that the cache is about: the decoder's ids where there is an encoder."""
    return "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"


def places(model: Any, form: Steps, start: int, stop: int, rows: int) -> dict[str, Any]:
    """Positions and the mask of columns start..stop-1, as a caller gives them; nothing for decoders with an encoder."""
    given: dict[str, Any] = {}
    if model.config.is_encoder_decoder:
        return given
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


def run_steps(ids: torch.Tensor, form: Steps, model: Any, around: Inputs) -> tuple[torch.Tensor, Any]:
    """[B, T, V] logits of a prompt and of steps with a cache, and the cache. around: the encoder's inputs."""
    length, name, argument = ids.shape[1], cache_name(model), ids_name(model)
    given = {**around, argument: ids[:, : form.prompt], **places(model, form, 0, form.prompt, ids.shape[0])}
    output = support.run(model, given, use_cache=True, **new_cache(model, form, length))
    pieces, cache = [output.logits], output.get(name)
    if form.reorders:
        cache, ids = reordered(model, cache), ids.flip(0)
        around = {k: v.flip(0) if isinstance(v, torch.Tensor) and v.dim() else v for k, v in around.items()}
    for start in range(form.prompt, length, form.size):
        stop = min(start + form.size, length)
        step = {**around, argument: ids[:, start:stop], **places(model, form, start, stop, ids.shape[0])}
        output = support.run(model, step, use_cache=True, **{name: cache})
        pieces.append(output.logits)
        cache = output[name]
    return torch.cat(pieces, dim=1), cache


def in_place(x: torch.Tensor, form: Steps) -> torch.Tensor:
    """Results [B, T, ...] whose rows have changed places after the prompt, each in its own again."""
    return torch.cat([x[:, : form.prompt], x[:, form.prompt :].flip(0)], dim=1) if form.reorders and x.dim() > 1 else x


def reordered(model: Any, cache: Any) -> Any:
    """The cache with its two rows exchanged, as generate() does it; a skip where that is not possible."""
    order = torch.tensor([1, 0], device=next(model.parameters()).device)
    if hasattr(model, "_reorder_cache"):
        return model._reorder_cache(cache, order)
    if not hasattr(cache, "reorder_cache"):
        pytest.skip("the cache cannot be reordered, and beams have none")
    cache.reorder_cache(order)
    return cache


def entries_of(cache: Any) -> Entries:
    """The tensors of a cache's layers by name, such as "layer 0's keys"."""
    entries: Entries = {}
    if hasattr(cache, "cross_attention_cache"):
        both = {"": cache.self_attention_cache, "cross attention, ": cache.cross_attention_cache}
        return {f"{title}{name}": x for title, part in both.items() for name, x in entries_of(part).items()}
    for index, layer in enumerate(getattr(cache, "layers", None) or ()):
        for name in ("keys", "values", "conv_states", "recurrent_states"):
            value = getattr(layer, name, None)
            for part in value.values() if isinstance(value, dict) else [value]:
                if isinstance(part, torch.Tensor):
                    entries[f"layer {index}'s {name.replace('_', ' ')}"] = part.detach().cpu()
    return entries


def first_wrong_entry(models: forms.Models, ids: torch.Tensor, form: Steps, around: Inputs) -> str:
    """A line that names the first tensor of the device's cache that differs after steps from that of one pass."""
    whole = dataclasses.replace(form, prompt=ids.shape[1], reorders=False)
    model, length = models.subject, ids.shape[1]
    given = {**around, ids_name(model): ids, **places(model, whole, 0, length, ids.shape[0])}
    once = support.run(model, given, use_cache=True, **new_cache(model, form, length)).get(cache_name(model))
    after = run_steps(ids, form, model, around)[1]
    allowed = 16 * support.FACTOR[models.dtype] * support.floor_of(models.dtype, support.depth_of(model))
    expected = entries_of(once)
    for name, value in entries_of(after).items():
        value, right = (value.flip(0) if form.reorders else value), expected.get(name)
        if right is None or right.shape != value.shape or support.distance(value, right)[0] <= allowed:
            continue
        columns = [support.distance(x, y)[0] for x, y in zip(value.unbind(-2), right.unbind(-2), strict=True)]
        begin = next((place for place, error in enumerate(columns) if error > allowed), 0)
        where = f" from place {begin} on" if name.endswith(("keys", "values")) else ""
        return f"first wrong entry of the cache ({type(after).__name__}): {name}{where}"
    return "" if not expected else f"the cache ({type(after).__name__}) has the entries of one pass"


def is_recurrent(model: Any) -> bool:
    """Whether its cache is a state: it takes one token a step, and no mask after the prompt."""
    return bool(getattr(model, "_is_stateful", False))


def static_or_skip(model: Any) -> None:
    flags = ("_can_compile_fullgraph", "_supports_static_cache")
    if not any(getattr(model, flag, False) for flag in flags) or is_recurrent(model):
        pytest.skip("the model's class does not promise a static cache")


def text_of(model: Any, make_inputs: Callable[..., Inputs], rows: int, length: int) -> tuple[torch.Tensor, Inputs]:
    """Ids [rows, length] of the part that has a cache, and the inputs of its encoder."""
    has_encoder = bool(model.config.is_encoder_decoder)
    inputs = make_inputs(model, batch=rows) if has_encoder else make_inputs(model, batch=rows, length=length)
    ids = inputs.get(ids_name(model))
    if ids is None or ids.dim() != 2:
        pytest.skip("what has a cache does not read a text")
    if not has_encoder:
        return ids, {}
    around = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
    return ids.repeat(1, -(-length // ids.shape[1]))[:, :length].clone(), around


def check(name: str, models: forms.Models, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that one of FORMS gives the logits of one pass."""
    form = FORMS[name]
    length = form.prompt + AFTER
    if length > helpers.longest(models.oracle):
        pytest.skip(f"the model has {helpers.longest(models.oracle)} positions, this takes {length}")
    if form.static:
        static_or_skip(models.oracle)
    if models.oracle.config.is_encoder_decoder and (form.static or form.padding or form.placed):
        pytest.skip("a decoder with an encoder: test_generate has its static cache, and it counts positions")
    if form.size > 1 and is_recurrent(models.oracle):
        pytest.skip("a recurrent state takes one token a step")
    rows = 2 if form.padding or form.reorders else 1
    ids, around = text_of(models.oracle, make_inputs, rows, length)
    ids[-1, : form.padding] = helpers.padding_id(models.oracle.config)
    columns = slice(form.padding, None)
    given = places(models.oracle, Steps(length, padding=form.padding), 0, length, rows)
    one_pass = support.on_grid({**around, ids_name(models.oracle): ids, **given}, models.dtype)
    one_pass.pop("cache_position", None)
    around = {name: one_pass[name] for name in around}

    def plain(model: Any) -> torch.Tensor:
        return support.outputs(model, one_pass)["logits"][:, columns]

    def steps(model: Any) -> torch.Tensor:
        return in_place(run_steps(ids, form, model, around)[0], form)[:, columns]

    def visible(x: torch.Tensor) -> torch.Tensor:
        return x[:, columns] if x.dim() > 2 else x

    def in_steps(x: torch.Tensor) -> torch.Tensor:
        return visible(in_place(x, form))

    def more() -> str:
        return first_wrong_entry(models, ids, form, around)

    forms.hold(f"logits with a cache ({name})", models, plain, steps, (visible, in_steps), more=more)
