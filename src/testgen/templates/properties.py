"""What a model promises about its own results: the same again, the same alone, nothing of the future."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

import forms
import helpers
import support
from choices import Again

MakeInputs = Callable[..., dict[str, Any]]
RUNS = 8


def check_repeat(device: str, dtype: torch.dtype, size: str, make_inputs: MakeInputs) -> None:
    """RUNS runs are equal bit for bit."""
    subject = support.make_subject(device, dtype, size=size)
    inputs = make_inputs(subject)
    first = support.outputs(subject, inputs)
    for turn in range(1, RUNS):
        again = support.outputs(subject, inputs)
        for name, value in first.items():
            if torch.equal(again[name].nan_to_num(), value.nan_to_num()):
                continue
            compute = functools.partial(support.output, inputs, name)
            where = forms.first_changed_block(subject, compute, compute)
            raise AssertionError(f"{name} of run {turn + 1} differs\n{where}")


def check_equal_rows(models: forms.Models, make_inputs: MakeInputs) -> None:
    """Equal rows of a batch give equal results."""
    one = support.on_grid(make_inputs(models.subject, batch=1), models.dtype)
    three = helpers.repeat_rows(one, 3)
    equal = support.outputs(models.subject, three)
    exact, close = support.outputs(models.oracle, one), support.outputs(models.reference, one)
    for name, value in exact.items():
        if name.startswith("logits_per_"):  # every image by every text: another shape in a batch
            continue
        for index, row in enumerate(helpers.rows_of(equal[name], value, 3)):
            compute = functools.partial(helpers.row_output, three, name, value, 3, index)
            compare_row(f"row of {name}", models, compute, row, close[name], value)


def compare_row(
    title: str,
    models: forms.Models,
    compute: forms.Compute,
    row: torch.Tensor,
    close: torch.Tensor,
    exact: torch.Tensor,
) -> None:
    """Asserts that a row of a batch, which compute() gives, has the results of the row alone."""
    again = Again(compute, models.reference, models.oracle, models.subject)
    explain = functools.partial(forms.explain, models, compute, compute)
    support.compare(title, row, close, exact, models.dtype, support.depth_of(models.oracle), again, explain)


def check_batch(models: forms.Models, make_inputs: MakeInputs) -> None:
    """One sequence alone has the results that it has in a batch."""
    both = support.on_grid(make_inputs(models.oracle, batch=2), models.dtype)
    together = support.outputs(models.subject, both)
    for row in range(2):
        alone = helpers.row_of(both, row, 2)
        exact, close = support.outputs(models.oracle, alone), support.outputs(models.reference, alone)
        for name, value in exact.items():
            rows = helpers.rows_of(together[name], value, 2)
            # Every image by every text, and means over the batch: the other rows are part of the result.
            if name == "loss" or name.startswith("logits_per_"):
                continue
            if not rows or (value.numel() == 1 and together[name].numel() == 1):
                continue
            compute = functools.partial(helpers.row_output, both, name, value, 2, row)
            compare_row(f"row {row} of {name}", models, compute, rows[row], close[name], value)


def check_padding(models: forms.Models, make_inputs: MakeInputs, count: int, left: bool) -> None:
    """`count` columns of padding that the mask hides change nothing."""
    ids = make_inputs(models.oracle, batch=1)["input_ids"]
    given = helpers.padded(models.oracle, ids, count, left)
    columns = slice(count, None) if left else slice(0, ids.shape[1])
    exact = support.outputs(models.oracle, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    name, value = next(iter(exact.items()))

    def compute(model: Any) -> torch.Tensor:
        return support.outputs(model, given)[name][:, columns]

    support.require_in_f64(name, compute(models.oracle), value)
    # The reference has the same padding: models with chunked recurrences sum in another order then.
    close, got = compute(models.reference), compute(models.subject)
    title = f"{name} with {count} on the {'left' if left else 'right'}"
    again = Again(compute, models.reference, models.oracle, models.subject)
    explain = functools.partial(forms.explain, models, compute, compute)
    support.compare(title, got, close, value, models.dtype, support.depth_of(models.oracle), again, explain)


def check_causal(device: str, dtype: torch.dtype, size: str, make_inputs: MakeInputs) -> None:
    """A later token changes nothing before it; a token that is visible does change the result."""
    subject = support.make_subject(device, dtype, size=size)
    ids = make_inputs(subject, batch=1)["input_ids"]
    last, first = ids.clone(), ids.clone()
    last[:, -1] += 1
    first[:, 0] += 1
    name = next(iter(support.outputs(subject, {"input_ids": ids})))
    base, future, past = (support.outputs(subject, {"input_ids": x})[name] for x in (ids, last, first))
    allowed = support.FACTOR[dtype] * support.floor_of(dtype, support.depth_of(subject))
    error = support.distance(future[:, :-1], base[:, :-1].cpu().double())[0]
    if error > allowed:
        one, other = (functools.partial(support.output, {"input_ids": x}, name) for x in (ids, last))
        where = forms.first_changed_block(subject, one, other, lambda x: x[:, :-1] if x.dim() > 2 else x, allowed)
        raise AssertionError(f"a later token changes earlier results by {error:.3g}\n{where}")
    assert not torch.equal(future[:, -1], base[:, -1]), "the last token has no effect on its own result"
    assert not torch.equal(past[:, 1], base[:, 1]), "the first token has no effect on the next"


def check_window(models: forms.Models, make_inputs: MakeInputs) -> None:
    """Keys beyond the sliding window do not matter, and those inside do, as the oracle says for each position."""
    window = int(helpers.find(models.oracle.config, ["sliding_window", "attention_window"], 0) or 0)
    length = min(4 * window + 3, 2048)
    inputs = {"input_ids": make_inputs(models.oracle, batch=1, length=length)["input_ids"]}
    compute = forms.first(inputs)
    forms.hold(f"{length} tokens beyond a window of {window}", models, compute, compute)
