"""Models that are saved in shards, that share their head with the embeddings, or that get more tokens."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import support

MORE = 7  # tokens
SHARD = "20KB"


def loaded(model: Any, folder: pathlib.Path, device: str, **options: Any) -> Any:
    """The model, saved and loaded again."""
    model.save_pretrained(folder, **options)
    fresh = type(model).from_pretrained(folder, local_files_only=True).eval()
    return support.set_implementation(fresh, support.attention_of_oracle()).to(device)


def require_equal(subject: Any, fresh: Any, inputs: dict[str, Any], what: str) -> None:
    """Asserts equal outputs of a model and of one that was loaded; a failure names the first weight that differs."""
    one, other = support.outputs(subject, inputs), support.outputs(fresh, inputs)
    for name, value in one.items():
        same = torch.equal(other[name].nan_to_num(), value.nan_to_num())
        assert same, f"{name} differs {what}\n{first_wrong_weight(subject.state_dict(), fresh.state_dict())}"


def first_wrong_weight(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> str:
    """A line that names the first tensor of a model that another one has not, or has with other values."""
    for name, value in one.items():
        if name not in other or other[name].dtype != value.dtype or not torch.equal(other[name], value):
            return f"first wrong weight: {name}"
    return "all saved weights are equal: a buffer, the configuration, or what it chooses is another one"


def check_saveload(device: str, size: str, folder: pathlib.Path, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that a model that is saved with safetensors and loaded again has the same results bit for bit."""
    # The oracle's attention, since a loaded model may pick another one for one of its parts.
    subject = support.make_subject(device, torch.float32, size=size, attention=support.attention_of_oracle())
    require_equal(subject, loaded(subject, folder, device), make_inputs(subject), "after saving and loading")


def check_shards(device: str, size: str, folder: pathlib.Path, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that a model in several files is loaded as it was."""
    subject = support.make_subject(device, torch.float32, size=size, attention=support.attention_of_oracle())
    fresh = loaded(subject, folder, device, max_shard_size=SHARD)
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) > 1, f"a limit of {SHARD} gives {len(files)} file"
    require_equal(subject, fresh, make_inputs(subject), f"after saving in {len(files)} shards")


def tables(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The weights of the embeddings and of the head; a skip where the model has no such pair."""
    head = model.get_output_embeddings()
    table = model.get_input_embeddings()
    if head is None or table is None or getattr(head, "weight", None) is None or getattr(table, "weight", None) is None:
        pytest.skip("the model has no head over its vocabulary")
    return table.weight, head.weight


def check_tied(device: str, size: str, folder: pathlib.Path, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that the head is the embeddings exactly where the configuration says so, also after loading."""
    subject = support.make_subject(device, torch.float32, size=size, attention=support.attention_of_oracle())
    table, head = tables(subject)
    if table.shape != head.shape:
        pytest.skip("head and embeddings have other shapes")
    wants = bool(getattr(subject.config.get_text_config(decoder=True), "tie_word_embeddings", False))
    wants = wants and bool(getattr(subject.config, "tie_word_embeddings", True))
    for model, what in ((subject, ""), (loaded(subject, folder, device), " after loading")):
        table, head = tables(model)
        shared = table.data_ptr() == head.data_ptr()
        assert shared == wants, (
            f"tie_word_embeddings is {wants}, but the head is {'' if shared else 'not '}the embeddings{what}"
        )
    require_equal(subject, model, make_inputs(subject), "after loading")


def check_resize(device: str, size: str, make_inputs: Callable[..., dict[str, Any]]) -> None:
    """Asserts that more tokens leave the results of the old ones as they were."""
    subject = support.make_subject(device, torch.float32, size=size, attention=support.attention_of_oracle())
    table, head = tables(subject)
    inputs = make_inputs(subject)
    before = support.outputs(subject, inputs)["logits"]
    rows = [x.detach().clone() for x in (table, head)]
    count = before.shape[-1]
    if table.shape[0] != count:
        pytest.skip("the head has another number of tokens than the embeddings")
    try:
        subject.resize_token_embeddings(count + MORE, mean_resizing=False)
    except NotImplementedError as refusal:
        why = str(refusal).splitlines()[0] if str(refusal) else "not implemented"
        pytest.skip(f"the model's class refuses it: {why}")
    after = support.outputs(subject, inputs)["logits"]
    assert after.shape[-1] == count + MORE, f"{after.shape[-1]} scores for {count + MORE} tokens"
    # A product of another width may sum in another order.
    error = support.distance(after[..., :count], before.cpu().double())[0]
    allowed = support.FACTOR[torch.float32] * support.floor_of(torch.float32, support.depth_of(subject))
    table, head = tables(subject)
    moved = [not torch.equal(x[:count], y) for x, y in zip((table, head), rows, strict=True)]
    where = "the embeddings" if moved[0] else "the head" if moved[1] else "none of both tables"
    assert error <= allowed, (
        f"scores of the old tokens change by {error:.3g} of their size, allowed {allowed:.3g}\n"
        f"first wrong weight: {where}, in the rows of the old tokens"
    )
    ids = {**inputs, "input_ids": inputs["input_ids"].clone()}
    ids["input_ids"][:, -1] = count + MORE - 1
    assert bool(support.outputs(subject, ids)["logits"].isfinite().all()), (
        "a new token gives results that are not finite"
    )
