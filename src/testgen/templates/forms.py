"""Forms of a call that have to give the same results: padded, in other batches, with a cache. Each is compared with the
plain call in f64; a failure names the first block whose results differ."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import calls
import case
import helpers
import support
from choices import Again

Compute = Callable[[Any], torch.Tensor]
LENGTHS = (64, 65, 127, 129, 256, 257, 1025)  # next to the blocks of kernels
LONG = 513  # tokens
JUMP = 100.0  # the largest ratio of errors of 1025 and of 12 tokens: recurrences multiply them
ROWS = 8
ORDER = 4  # how much larger the CPU's error may be in a form that sums in another order
HEAD_SIZES = (16, 64, 80, 96, 128, 256)
MASKS = {"attention_mask": ("input_ids", "input_values"), "decoder_attention_mask": ("decoder_input_ids",)}


@dataclasses.dataclass
class Models:
    """The model in f64, on the CPU and on the device under test."""

    oracle: Any
    reference: Any
    subject: Any
    dtype: torch.dtype


def make_models(device: str, dtype: torch.dtype, size: str, regime: str = "lively") -> Models:
    kind = (dtype, regime, size)
    return Models(support.make_oracle(*kind), support.make_reference(*kind), support.make_subject(device, *kind), dtype)


def calls_of(
    oracle: Any, make_inputs: Callable[..., dict[str, Any]], long: bool = True
) -> Iterator[tuple[str, support.Call]]:
    """(title, call) of each block. With `long` blocks that compute with positions alone, such as rotations, also see LONG
    tokens: their errors grow with the position. A model that refuses a text of that length is a skip of test_lengths."""
    for call in support.record(oracle, make_inputs(oracle)):
        yield call.block, call
    without_weights = [name for name, module in support.blocks(oracle) if not any(True for _ in module.parameters())]
    computed = without_weights if long else []
    length = min(LONG, helpers.longest(oracle))
    inputs = make_inputs(oracle, batch=1, length=length) if computed else {}
    ids = inputs.get("input_ids")
    if ids is None or ids.shape[-1] != length:
        return
    try:
        calls_of_long = support.record(oracle, inputs, computed)
    except (RuntimeError, ValueError, IndexError):
        return
    for call in calls_of_long:
        yield f"{call.block} of {length} tokens", call


def same(x: torch.Tensor) -> torch.Tensor:
    """The part of a block's result that both forms have: all of it."""
    return x


def hold(
    title: str,
    models: Models,
    plain: Compute,
    form: Compute,
    parts: tuple[Compute, Compute] = (same, same),
    refused: str = "",
    of_blocks: Compute | None = None,
    more: Callable[[], str] | None = None,
    computed: Compute | None = None,
) -> None:
    """Asserts that form(subject) is plain(oracle) within the limit that plain(reference) sets.

    `parts` take what can be compared from a block's result: in the plain call, and in the form. `of_blocks` takes the
    place of the plain call if its blocks have other shapes. With `refused`, what the oracle does not run with is a skip.
    more() ends the message of a failure. computed() is the plain call where
    plain() has kept results, which show no choices.
    """
    exact = run_or_skip(models.oracle, plain, refused) if refused else plain(models.oracle)
    close, got, depth = plain(models.reference), form(models.subject), support.depth_of(models.oracle)
    if support.measure(title, got, close, exact, models.dtype, depth)["ratio"] > 1.0:
        close = rounded_otherwise(close, form(models.reference), exact, support.floor_of(models.dtype, depth))

    def once_more(model: Any) -> torch.Tensor:  # a form that is wrong on the CPU too does not measure rounding
        return plain(model) if model is models.reference else form(model)

    def say() -> str:
        return "\n".join(filter(None, [explain(models, of_blocks or plain, form, parts), more() if more else ""]))

    again = Again(once_more, models.reference, models.oracle, models.subject, forms=(computed or plain, form))
    support.compare(title, got, close, exact, models.dtype, depth, again, say)


def explain(models: Models, plain: Compute, form: Compute, parts: tuple[Compute, Compute] = (same, same)) -> str:
    """Lines of a failure: the first wrong block, and the operation if one can be named."""
    operation = calls.explain(form, models.oracle, models.reference, models.subject, models.dtype)
    return "\n".join([first_block(models, plain, form, parts), *filter(None, [operation])])


def rounded_otherwise(close: torch.Tensor, other: torch.Tensor, exact: torch.Tensor, floor: float) -> torch.Tensor:
    """The CPU's value in the form, whose sums may have another order, unless its error is too large for rounding."""
    plain, in_form = support.distance(close, exact)[0], support.distance(other, exact)[0]
    return other if plain < in_form <= ORDER * plain + ORDER * floor else close


def block_results(model: Any, compute: Compute) -> dict[str, torch.Tensor]:
    """The first result of each block in the order of their calls; results of several calls follow each other."""
    results: dict[str, list[torch.Tensor]] = {}
    handles = []
    for name, module in support.blocks(model):

        def note(_module: Any, _args: Any, output: Any, name: str = name) -> None:
            first = next((x for _, x in support.leaves(output)), None)
            if first is not None:
                results.setdefault(name, []).append(first.detach().cpu().clone())

        handles.append(module.register_forward_hook(note))
    try:
        compute(model)
    finally:
        for handle in handles:
            handle.remove()
    return {name: joined(pieces) for name, pieces in results.items()}


def joined(pieces: list[torch.Tensor]) -> torch.Tensor:
    """Results of a prompt and of steps [B, T, ...] as one; the first where they do not fit."""
    fits = all(
        x.dim() > 1 and x.shape[:1] == pieces[0].shape[:1] and x.shape[2:] == pieces[0].shape[2:] for x in pieces
    )
    return torch.cat(pieces, dim=1) if fits else pieces[0]


def first_block(models: Models, plain: Compute, form: Compute, parts: tuple[Compute, Compute]) -> str:
    """A line that names the first block that is wrong in the form, or that says why none is."""
    try:
        exact, close = block_results(models.oracle, plain), block_results(models.reference, plain)
        got = block_results(models.subject, form)
        in_f64 = block_results(models.oracle, form)
    except (RuntimeError, ValueError, IndexError) as error:
        return f"blocks cannot be compared: {str(error).splitlines()[0]}"
    depth, (of_plain, of_form) = support.depth_of(models.oracle), parts
    for name, value in got.items():
        if name not in exact or of_form(value).shape != of_plain(exact[name]).shape:
            continue
        right = of_plain(exact[name])
        entry = support.measure(name, of_form(value), of_plain(close[name]), right, models.dtype, depth)
        if entry["ratio"] > 1.0:
            wrong = support.distance(of_form(in_f64[name]), right)[0] > 1e-6
            cause = ", in f64 on the CPU too: the model's code or the library" if wrong else ""
            return f"first wrong block: {name}, {entry['ratio']:.3g} times its limit{cause}"
    return "no block by itself: the fault is after the blocks, or they have other shapes here"


def first_changed_block(model: Any, one: Compute, other: Compute, part: Compute = same, allowed: float = 0.0) -> str:
    """A line that names the first block whose results in two runs differ by more than `allowed` of their norm."""
    before, after = block_results(model, one), block_results(model, other)
    for name, value in before.items():
        x, y = part(after[name]), part(value)
        if x.shape == y.shape and support.distance(x.nan_to_num(), y.nan_to_num())[0] > allowed:
            return f"first block that differs: {name}"
    return "no block differs: the fault is after the blocks, or does not come again"


def first(inputs: dict[str, Any]) -> Compute:
    """The first floating-point output of a forward pass."""

    def compute(model: Any) -> torch.Tensor:
        return next(iter(support.outputs(model, inputs).values()))

    return compute


def masks_of(model: Any, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """A mask for each sequence of the inputs: the last row's last third is hidden, the others see all."""
    masks = {}
    for name, sequences in MASKS.items():
        ids = next((inputs[s] for s in sequences if isinstance(inputs.get(s), torch.Tensor)), None)
        if ids is not None and helpers.takes(model, name) and ids.dim() == 2 and ids.shape[1] > 2:
            mask = torch.ones(ids.shape, dtype=torch.long)
            mask[-1, ids.shape[1] - max(1, ids.shape[1] // 3) :] = 0
            masks[name] = mask
    return masks


def seen_by(masks: dict[str, torch.Tensor]) -> Compute:
    """Results [B, T, ...] with zeros in hidden columns: with a window, a hidden query may see no key, which is not defined."""

    def visible(x: torch.Tensor) -> torch.Tensor:
        mask = next((m for m in reversed(masks.values()) if x.dim() == 3 and x.shape[:2] == m.shape), None)
        return x if mask is None else torch.where(mask[..., None].to(x.device) == 1, x, x.new_zeros(()))

    return visible


def check_mask(models: Models, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that a batch with hidden columns in one row has the oracle's results for the same mask."""
    inputs = make_inputs(models.oracle)
    masks = masks_of(models.oracle, inputs)
    if not masks:
        pytest.skip("no argument of this model is a sequence with a mask")
    compute_all, visible = first(support.on_grid({**inputs, **masks}, models.dtype)), seen_by(masks)

    def compute(model: Any) -> torch.Tensor:
        return visible(compute_all(model))

    hold("with a mask", models, compute, compute, (visible, visible), refused="a mask")


def rows_first(inputs: dict[str, Any], count: int, batch: int) -> dict[str, Any]:
    """The first rows of a batch; what has another first dimension is for all rows."""
    has_rows = {k: v for k, v in inputs.items() if isinstance(v, torch.Tensor) and v.dim() and v.shape[0] == batch}
    return {**inputs, **{k: v[:count] for k, v in has_rows.items()}}


def run_or_skip(model: Any, compute: Compute, what: str) -> torch.Tensor:
    """The oracle's result; a skip with its reason where the model's own code refuses these inputs."""
    try:
        return compute(model)
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, AttributeError) as error:
        pytest.skip(f"the oracle does not run with {what}: {str(error).splitlines()[0][:200] or type(error).__name__}")


def attention_cases() -> Iterator[tuple[int, int, bool]]:
    """(head size, keys, with a mask) next to the sizes of kernels' tiles."""
    for head in HEAD_SIZES:
        for keys in (1, 63, 65, 127, 129, 257):
            yield from ((head, keys, False), (head, keys, True))


def exact_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """softmax(q k^T / sqrt(D)) v from its definition. q, k, v: [B, H, T, D]."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return (weights / weights.sum(-1, keepdim=True)) @ v


def check_head_sizes(device: str, dtype: torch.dtype) -> None:
    """Asserts that scaled_dot_product_attention() is near exact_attention() for attention_cases()."""
    attention = torch.nn.functional.scaled_dot_product_attention
    for head, keys, hides in attention_cases():
        generator = torch.Generator().manual_seed(head + keys)
        q, k, v = (torch.randn(2, 2, t, head, generator=generator).to(dtype) for t in (5, keys, keys))
        mask = torch.ones(2, 1, 5, keys, dtype=torch.bool)
        mask[-1, ..., keys - keys // 3 :] = False
        given = mask if hides else None
        exact = exact_attention(q.double(), k.double(), v.double(), given)
        close = exact_attention(q.float(), k.float(), v.float(), given).to(dtype)
        got = attention(q.to(device), k.to(device), v.to(device), given.to(device) if given is not None else None)
        title = f"scaled_dot_product_attention, head size {head}, {keys} keys{', with a mask' if hides else ''}"
        support.compare(title, got.cpu(), close, exact, dtype, max(head, keys))


def check_length(models: Models, make_inputs: Callable[..., dict[str, Any]], length: int) -> None:
    """Asserts that a text of this length has the oracle's results, alone and next to one with hidden columns."""
    if length > helpers.longest(models.oracle):
        pytest.skip(f"the model has {helpers.longest(models.oracle)} positions")
    for rows in (1, 2):
        inputs = make_inputs(models.oracle, batch=rows, length=length)
        masks = masks_of(models.oracle, inputs) if rows == 2 else {}
        compute_all, visible = first(support.on_grid({**inputs, **masks}, models.dtype)), seen_by(masks)

        def compute(model: Any, compute_all: Compute = compute_all, visible: Compute = visible) -> torch.Tensor:
            return visible(compute_all(model))

        if rows == 1:
            require_usual_error(models, make_inputs, compute, f"{length} tokens")
        title = f"{length} tokens in {rows} rows"
        hold(title, models, compute, compute, (visible, visible), refused=f"{length} tokens")


def require_usual_error(
    models: Models, make_inputs: Callable[..., dict[str, Any]], compute: Compute, what: str
) -> None:
    """Asserts that the CPU's own error is at most JUMP times that of a short text: an operation that is wrong on the CPU,
    too, from some length on errs by more than rounding. Few elements, such as one score of a pair, may be near zero."""
    exact = run_or_skip(models.oracle, compute, what)
    if exact.numel() < support.FEW:
        return
    short = first(support.on_grid(make_inputs(models.oracle), models.dtype))
    usual = support.distance(short(models.reference), short(models.oracle))[0]
    allowed = JUMP * max(usual, support.floor_of(models.dtype, support.depth_of(models.oracle)))
    error = support.distance(compute(models.reference), exact)[0]
    if error > allowed:
        right, wrong = block_results(models.oracle, compute), block_results(models.reference, compute)
        names = [name for name, x in wrong.items() if support.distance(x, right[name])[0] > allowed]
        raise AssertionError(
            f"{case.MODEL_CLASS} {what} in {support.NAMES[models.dtype]}: the CPU's own error is {error:.3g}, {usual:.3g} "
            f"with a short text\nfirst wrong block: {next(iter(names), 'none, the fault is after the blocks')}"
        )


def check_rows(models: Models, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that each row of batches of 2 to ROWS rows has the results that the oracle gives it alone."""
    every = support.on_grid(make_inputs(models.oracle, batch=ROWS), models.dtype)
    rows = [helpers.row_of(every, row, ROWS) for row in range(ROWS)]
    alone = {id(m): [support.outputs(m, row) for row in rows] for m in (models.oracle, models.reference)}
    names = [name for name in alone[id(models.oracle)][0] if name != "loss" and not name.startswith("logits_per_")]
    name = next(iter(names), None)
    whole = support.outputs(models.oracle, every)
    if name is None or whole[name].shape[0] != ROWS or alone[id(models.oracle)][0][name].shape[0] != 1:
        pytest.skip("no result has a row for each row of the batch")
    if whole[name].shape[1:] != alone[id(models.oracle)][0][name].shape[1:]:
        pytest.skip("a result has another shape alone than in a batch")
    for count in range(2, ROWS + 1):

        def computed(model: Any, count: int = count) -> torch.Tensor:
            return torch.cat([support.outputs(model, row)[name] for row in rows[:count]])

        def plain(model: Any, count: int = count, computed: Compute = computed) -> torch.Tensor:
            pieces = alone.get(id(model))
            return torch.cat([piece[name] for piece in pieces[:count]]) if pieces else computed(model)

        def together(model: Any, count: int = count) -> torch.Tensor:
            return support.outputs(model, rows_first(every, count, ROWS))[name]

        hold(f"a batch of {count} rows", models, plain, together, of_blocks=together, computed=computed)


def check_hidden(models: Models, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that other ids in hidden columns change nothing in the columns that are seen."""
    inputs = make_inputs(models.oracle)
    masks = masks_of(models.oracle, inputs)
    pairs = [(mask, next(s for s in MASKS[name] if s in inputs)) for name, mask in masks.items()]
    pairs = [(mask, sequence) for mask, sequence in pairs if not inputs[sequence].is_floating_point()]
    if not pairs:
        pytest.skip("no ids of this model have a mask")
    other = dict(inputs)
    for mask, sequence in pairs:
        other[sequence] = torch.where(mask == 0, inputs[sequence].roll(1, 1), inputs[sequence])

    visible = seen_by(masks)

    def compute_with(given: dict[str, Any]) -> Compute:
        def compute(model: Any) -> torch.Tensor:
            return visible(next(iter(support.outputs(model, {**given, **masks}).values())))

        return compute

    plain, form = compute_with(inputs), compute_with(other)
    hold("other ids behind a mask", models, plain, form, (visible, visible), refused="a mask")


def check_positions(models: Models, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that the caller's positions are used: 0, 1, 2 ... as without them, and others as the oracle uses them."""
    inputs = make_inputs(models.oracle, batch=2)
    ids = inputs["input_ids"]
    given = helpers.positions(models.oracle, torch.arange(ids.shape[1]).expand(ids.shape))
    if not given:
        pytest.skip("the caller does not give the positions of this model")
    plain = first(support.on_grid(inputs, models.dtype))
    hold("positions given", models, plain, first({**inputs, **given}))
    spread = {"position_ids": given["position_ids"] * 2 + 3}
    later = first({**inputs, **spread})
    hold("positions 3, 5, 7 ...", models, later, later)
    rotary = any(name.endswith("inv_freq") for name, _ in models.oracle.named_buffers())
    if rotary and case.TASK == "causal-lm" and float((later(models.oracle) - plain(models.oracle)).abs().max()) == 0.0:
        pytest.fail("position_ids has no effect, in f64 on the CPU")


def check_embeds(models: Models, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that inputs_embeds in place of input_ids gives the same."""
    if not helpers.takes(models.oracle, "inputs_embeds"):
        pytest.skip("forward() takes no embeddings")
    inputs = make_inputs(models.oracle)
    ids = inputs.pop("input_ids")

    def plain(model: Any) -> torch.Tensor:
        return first({**inputs, "input_ids": ids})(model)

    def embedded(model: Any) -> torch.Tensor:
        table = model.get_input_embeddings()
        with torch.no_grad():
            rows = table(ids.to(next(table.parameters()).device))
        return first({**inputs, "inputs_embeds": rows})(model)

    run_or_skip(models.oracle, embedded, "embeddings")
    hold("embeddings in place of ids", models, plain, embedded)
