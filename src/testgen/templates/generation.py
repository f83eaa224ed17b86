"""generate() against the oracle: the scores of each step, and of beams, equal one pass over the same tokens."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import transformers

import caches
import forms
import helpers
import support

NEW = 8  # tokens
BEAMS = 3
FORMS = ("greedy", "static", "padded", "rows", "long")


def start_of(model: Any, name: str, make_inputs: Any) -> dict[str, Any]:
    """The inputs of generate(): a text, several, or one with hidden padding on the left."""
    rows = {"padded": 2, "rows": 5}.get(name, 1)
    inputs = {k: v for k, v in make_inputs(model, batch=rows).items() if not k.startswith("decoder_")}
    if name == "long":
        if helpers.longest(model) < 136:
            pytest.skip(f"the model has {helpers.longest(model)} positions")
        inputs = {k: v for k, v in make_inputs(model, batch=rows, length=126).items() if not k.startswith("decoder_")}
    ids = inputs.get("input_ids")
    if ids is not None and helpers.takes(model, "attention_mask"):
        inputs["attention_mask"] = torch.ones_like(ids)
    if name == "padded":
        if model.config.is_encoder_decoder or ids is None or "attention_mask" not in inputs:
            pytest.skip("texts are padded on the left for decoders alone")
        ids[-1, :5] = helpers.padding_id(model.config)
        inputs["attention_mask"][-1, :5] = 0
    return inputs


def generate(model: Any, inputs: dict[str, Any], **options: Any) -> Any:
    """The document of model.generate(), without end tokens of the configuration."""
    parameter = next(p for p in model.parameters() if p.is_floating_point())
    torch.manual_seed(0)
    settings = {"eos_token_id": None, "forced_eos_token_id": None, "pad_token_id": 0, "do_sample": False}
    if model.config.is_encoder_decoder:
        settings["decoder_start_token_id"] = helpers.find(model.config, ["decoder_start_token_id", "bos_token_id"], 0)
    settings.update(max_new_tokens=NEW, min_new_tokens=NEW, return_dict_in_generate=True, **options)
    with torch.no_grad():
        return model.generate(**support.on(inputs, parameter.device, parameter.dtype), **settings)


def replayed(inputs: dict[str, Any], tokens: torch.Tensor, model: Any) -> torch.Tensor:
    """[B, NEW, V] logits of one pass over the prompt and the new tokens, from the first new one on."""
    if model.config.is_encoder_decoder:
        given = {**inputs, "decoder_input_ids": tokens}
    else:
        given = {**inputs, "input_ids": tokens}
        if "attention_mask" in inputs:
            mask = inputs["attention_mask"]
            mask = torch.cat([mask, mask.new_ones(mask.shape[0], tokens.shape[1] - mask.shape[1])], dim=1)
            given.update(attention_mask=mask, **helpers.positions(model, mask.cumsum(1) - 1))
    return support.outputs(model, given)["logits"][:, -NEW - 1 : -1]


class Positions:
    """Records the positions that generate() gives to a model; require() compares them with their definition."""

    def __init__(self, model: Any) -> None:
        self.model, self.given = model, list[torch.Tensor]()

    def __enter__(self) -> Positions:
        def note(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if isinstance(kwargs.get("position_ids"), torch.Tensor):
                self.given.append(kwargs["position_ids"].detach().cpu())

        self.handle = self.model.register_forward_pre_hook(note, with_kwargs=True)
        return self

    def __exit__(self, *ending: Any) -> None:
        self.handle.remove()

    def require(self, inputs: dict[str, Any]) -> None:
        """Asserts that the prompt's positions count the tokens that its mask shows, from 0 on, in each row."""
        mask = inputs.get("attention_mask")
        if mask is None or not self.given or self.given[0].shape != mask.shape or not bool((mask == 0).any()):
            return  # such as positions in three axes
        shown = mask != 0
        expected = mask.cumsum(1) - 1
        wrong = ((self.given[0] != expected) & shown).nonzero()
        assert not len(wrong), (
            f"{type(self.model).__name__}: generate() gives row {int(wrong[0, 0])} of the prompt the positions "
            f"{self.given[0][wrong[0, 0]].tolist()}, its mask {mask[wrong[0, 0]].int().tolist()} counts "
            f"{expected[wrong[0, 0]].clamp_min(0).tolist()}\noperation: the positions of generate() with padding"
        )


def check(name: str, models: forms.Models, make_inputs: Any) -> None:
    """Asserts that the logits of each step of generate() are the oracle's for the same tokens, and their best chosen."""
    options: dict[str, Any] = {}
    if name == "static":
        caches.static_or_skip(models.oracle)
        options = {"cache_implementation": "static", "disable_compile": True}
    inputs = start_of(models.oracle, name, make_inputs)
    inputs = support.on_grid(inputs, models.dtype)
    with Positions(models.subject) as positions:
        got = generate(models.subject, inputs, output_logits=True, **options)
    positions.require(inputs)
    tokens = got.sequences.cpu()

    def plain(model: Any) -> torch.Tensor:
        return replayed(inputs, tokens, model)

    def steps(model: Any) -> torch.Tensor:
        out = got if model is models.subject else generate(model, inputs, output_logits=True, **options)
        same = torch.equal(out.sequences.cpu(), tokens)  # a near-tie: the pass over the tokens takes its place
        return torch.stack(out.logits, dim=1) if same else plain(model)

    forms.hold(f"logits of generate() ({name})", models, plain, steps)
    best = plain(models.oracle)
    behind = best.amax(-1) - best.gather(-1, tokens[:, -NEW:, None])[..., 0]
    worst = float((plain(models.reference).double() - best).abs().max())
    floor = support.floor_of(models.dtype, support.depth_of(models.oracle)) * float(best.abs().max())
    allowed = 2 * (support.FACTOR[models.dtype] * worst + floor)
    assert float(behind.max()) <= allowed, (
        f"generate() ({name}): a token is {float(behind.max()):.3g} behind the oracle's best, allowed {allowed:.3g}\n"
        "operation: the choice of the token (argmax, or a logits processor): the logits of each step are right"
    )


def score_of(inputs: dict[str, Any], tokens: torch.Tensor, model: Any) -> torch.Tensor:
    """[B] mean log probability of the new tokens, by one pass."""
    logits = replayed(inputs, tokens, model)
    chosen = logits.float() if logits.dtype != torch.float64 else logits
    return chosen.log_softmax(-1).gather(-1, tokens[:, -NEW:, None].to(logits.device))[..., 0].mean(-1)


def repeated(inputs: dict[str, Any], count: int) -> dict[str, Any]:
    return {k: v.repeat_interleave(count, 0) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}


def beams_of_oracle(inputs: dict[str, Any], start: torch.Tensor, model: Any, tolerance: float) -> float | None:
    """The best mean log probability that beam search from its definition finds for one row; None at a near-tie."""
    beams, scores = start, torch.zeros(1, dtype=torch.float64)
    for step in range(NEW):
        padded = torch.cat([beams, beams.new_zeros(len(beams), NEW - step)], dim=1)  # later tokens do not matter
        logits = replayed(repeated(inputs, len(beams)), padded, model)[:, step]
        total = (scores[:, None] + logits.log_softmax(-1)).flatten()
        best, indices = total.topk(min(BEAMS + 1, len(total)))
        if float(best[BEAMS - 1] - best[-1]) < tolerance:
            return None
        rows, tokens = indices[:BEAMS] // logits.shape[-1], indices[:BEAMS] % logits.shape[-1]
        beams, scores = torch.cat([beams[rows], tokens[:, None]], dim=1), best[:BEAMS]
    return float(scores.max()) / NEW


class Forced(transformers.LogitsProcessor):  # type: ignore[misc,unused-ignore]
    """Lets generate() choose given tokens [B, T]: all others have no probability."""

    def __init__(self, tokens: torch.Tensor) -> None:
        self.tokens = tokens

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        chosen = self.tokens[:, input_ids.shape[1], None].to(scores.device)
        return torch.full_like(scores, -math.inf).scatter(1, chosen, 0.0)


def cause_of_beams(models: forms.Models, inputs: dict[str, Any], tokens: torch.Tensor) -> str:
    """Where beams are wrong: steps with a cache, the order of its rows, or the scores. inputs: a row for each beam."""

    def plain(model: Any) -> torch.Tensor:
        return replayed(inputs, tokens, model)

    def steps(model: Any) -> torch.Tensor:
        forced = transformers.LogitsProcessorList([Forced(tokens)])
        return torch.stack(generate(model, inputs, output_logits=True, logits_processor=forced).logits, dim=1)

    exact, close, got = plain(models.oracle), plain(models.reference), steps(models.subject)
    entry = support.measure("", got, close, exact, models.dtype, support.depth_of(models.oracle))
    if entry["ratio"] > 1.0:
        return forms.explain(models, plain, steps)
    out = generate(models.subject, inputs)
    kinds = [type(out[name]).__name__ for name in caches.NAMES if out.get(name) is not None]
    return (
        f"operation: reorder_cache() of {next(iter(kinds), 'the cache')}, or the sum of scores in generate(): steps with a cache "
        "are right for the tokens of each beam alone"
    )


def check_beams(models: forms.Models, make_inputs: Any) -> None:
    """Asserts that the score of every beam is that of one pass over its tokens, and that no better one was there."""
    inputs = start_of(models.oracle, "rows", make_inputs)
    inputs = support.on_grid(forms.rows_first(inputs, 2, 5), models.dtype)
    options = {"num_beams": BEAMS, "num_return_sequences": BEAMS, "length_penalty": 1.0, "output_scores": True}
    got = generate(models.subject, inputs, **options)
    tokens, every = got.sequences.cpu(), repeated(inputs, BEAMS)
    exact, close = score_of(every, tokens, models.oracle), score_of(every, tokens, models.reference)
    depth = support.depth_of(models.oracle)
    scores = replayed(every, tokens, models.oracle).log_softmax(-1)
    error = (replayed(every, tokens, models.reference).double().log_softmax(-1) - scores).abs().max()
    size = float(scores.abs().max())
    allowed = support.FACTOR[models.dtype] * float(error) + support.floor_of(models.dtype, depth) * size
    off = (got.sequences_scores.cpu().double() - exact).abs()
    name, beam = type(models.subject).__name__, int(off.argmax())
    if float(off.max()) > 2 * allowed:
        raise AssertionError(
            f"{name} beams: the score of beam {beam % BEAMS} of row {beam // BEAMS} is {float(off.max()):.3g} from that "
            f"of one pass over its tokens, allowed {2 * allowed:.3g} (the CPU's {float((close - exact).abs().max()):.3g})"
            f"\n{cause_of_beams(models, every, tokens)}"
        )
    prompt = tokens[:, :-NEW]
    for row in range(len(tokens) // BEAMS):
        start = prompt[row * BEAMS : row * BEAMS + 1]
        best = beams_of_oracle(rows_of(inputs, row), start, models.oracle, 2 * NEW * allowed)
        found = float(exact[row * BEAMS : row * BEAMS + BEAMS].max())
        assert best is None or math.isclose(found, best, abs_tol=2 * allowed), (
            f"{name} beams: row {row} has the score {found:.6g}, beam search from its definition {best:.6g}, allowed "
            f"{2 * allowed:.3g}\noperation: the choice of beams in generate(): the scores of those that it has are right"
        )


def rows_of(inputs: dict[str, Any], row: int) -> dict[str, Any]:
    return helpers.row_of(inputs, row, 2)


def check_sampling(device: str, dtype: torch.dtype, size: str, make_inputs: Any) -> None:
    """Asserts that sampling with a seed, and beams, give the same tokens again."""
    subject = support.make_subject(device, dtype, size=size)
    ids = make_inputs(subject, batch=2)["input_ids"]
    for options in ({"do_sample": True, "top_k": 20}, {"num_beams": 3, "do_sample": False}):

        def tokens(model: Any, options: dict[str, Any] = options) -> torch.Tensor:
            return helpers.generate(model, ids, max_new_tokens=6, min_new_tokens=6, **options)

        if not torch.equal(tokens(subject), tokens(subject)):
            where = forms.first_changed_block(subject, tokens, tokens)
            raise AssertionError(f"other tokens in a second call with {options}\n{where}")
