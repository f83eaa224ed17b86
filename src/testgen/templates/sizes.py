"""Sizes of the model that the tests take: the pack's, and on a card one with heads of the real size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import case
import helpers
import support

MakeInputs = Callable[..., dict[str, Any]]
KEYS = 256  # tokens of a text with heads of the real size
RESERVED = 2  # positions that RoBERTa and its like leave out: the place of padding, and the one before
REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, AttributeError, KeyError, AssertionError, ArithmeticError)
TESTS_OF_CARDS = ("test_layers", "test_end_to_end", "test_attention")


def of_test(name: str, given: str | None, on_card: bool) -> list[str]:
    """The sizes of a test: `given` by --size, else the pack's; on a card layers also have the sizes of cards."""
    if given:
        return given.split(",")
    return [*case.SIZES, *(case.CARD_SIZES if on_card and name in TESTS_OF_CARDS else [])]


def require_known(given: str | None) -> None:
    """Raises UsageError for a size of --size that this pack does not have."""
    here = [name for name in ("tiny", "heads", "true", "full") if support.file_of(name).is_file()]
    unknown = [name for name in (given or "").split(",") if name and name not in here]
    if unknown:
        words = f"--size {', '.join(unknown)}: this pack has {', '.join(here)}"
        raise pytest.UsageError(f"{case.MODEL_TYPE}: {words}; gabbro testgen --size writes others")


def is_extra(item: pytest.Item, given: str | None) -> bool:
    """Whether a test is one of a size of cards on the CPU: there are such where both are tested, as with --device all."""
    callspec = getattr(item, "callspec", None)
    values = callspec.params if callspec else {}
    return not given and values.get("device") == "cpu" and "size" in values and values["size"] not in case.SIZES


def require(size: str) -> None:
    """Builds the model and runs it. A size of cards that its class refuses is a skip: the fields were made by rules."""
    try:
        support.require_model(size)
    except REFUSALS as error:
        if size not in case.CARD_SIZES:
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        pytest.skip(f"no model with the configuration {size}.json: {lines[0]}")


def inputs_of(make_inputs: MakeInputs, size: str) -> MakeInputs:
    """make_inputs(); with heads of the real size its texts have KEYS tokens, or as many as the model has positions."""

    def made(model: Any, **options: Any) -> dict[str, Any]:
        return make_inputs(model, **{"length": min(KEYS, helpers.longest(model) - RESERVED), **options})

    return made if size == "heads" else make_inputs
