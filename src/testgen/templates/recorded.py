"""Values that a named version of transformers gave (recorded.json), compared with the oracle of the version under test.

The oracle and the device run the same code: a wrong formula is wrong in both. Recorded values show it.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers

import case
import forms
import support

FILE = support.FOLDER / "recorded.json"
OF_PARTS = support.FOLDER / "ceilings.json"
DIGITS = 2e-6  # of a block's norm: values have eight digits, and a norm's epsilon of 1e-5 for 1e-6 changes 4e-6
REGIMES = ("lively", "faint")
Explain = Callable[[], str]
MANY = 32  # seeds: from here on the largest error of a correct implementation is known well
# Ceilings over the recorded error, for CPUs that sum in another order; in f16 and bf16 elements are rounded alike.
MARGIN = {torch.float32: 3.0, torch.bfloat16: 1.25, torch.float16: 1.25}
MARGIN_OF_FEW = 4.0
MARGIN_OF_PARTS = 1.5
LEAST = {torch.float32: 4.0, torch.bfloat16: 0.5, torch.float16: 1.0}  # rounding errors: blocks that may be exact
NONE = "no values are recorded for this configuration: a formula that is wrong on the CPU too goes unseen"


def load() -> dict[str, Any]:
    """The row of this model; empty if none is recorded."""
    return dict(json.loads(FILE.read_text())) if FILE.is_file() else {}


def checksum() -> int:
    """CRC-32 of tiny.json. Values of another configuration are other values."""
    return zlib.crc32((support.FOLDER / "tiny.json").read_bytes())


def sketch(x: torch.Tensor) -> list[float]:
    """Three numbers that depend on every element: the norm, and two sums with weights of incommensurable periods."""
    values = support.opened(x).flatten()
    values = torch.where(values.isfinite(), values, torch.zeros_like(values))
    indices = torch.arange(values.numel(), dtype=torch.float64)
    scale = math.sqrt(max(1, values.numel()))
    sums = [float((values * (indices * step + 0.5).cos()).sum()) / scale for step in (0.7390851, 1.6180340)]
    return [float(values.norm()), *sums]


def rounded(numbers: list[float]) -> list[float]:
    return [float(f"{number:.8g}") for number in numbers]


def values_of(oracle: Any, inputs: dict[str, Any]) -> dict[str, list[float]]:
    """sketch() of the first result of each block, in the order of their calls, and of each output."""
    outputs: dict[str, torch.Tensor] = {}

    def compute(model: Any) -> torch.Tensor:
        outputs.update(support.outputs(model, inputs))
        return next(iter(outputs.values()))

    rows = {name: rounded(sketch(x)) for name, x in forms.block_results(oracle, compute).items()}
    return {**rows, **{f"output {name}": rounded(sketch(x)) for name, x in outputs.items()}}


def weights() -> list[float]:
    """sketch() of all parameters: random ones go by their names, others are what the library initializes."""
    model = support.set_weights(support.build_model())
    parameters = [x.detach().flatten().double() for _, x in sorted(model.named_parameters())]
    return rounded(sketch(torch.cat(parameters)))


def difference(found: list[float], expected: list[float]) -> float:
    """The largest difference, in units of the expected norm."""
    size = max(expected[0], 1e-30)
    return max(abs(a - b) for a, b in zip(found, expected, strict=True)) / size


def row_or_skip() -> dict[str, Any]:
    """The row of this configuration and these weights; a skip that says why there is none."""
    row = load()
    if not row:
        pytest.skip(NONE)
    if not (support.FOLDER / "tiny.json").is_file():
        pytest.skip("values are recorded for the size tiny, which this pack does not have")
    if row["config"] != checksum():
        pytest.skip("values are recorded for another tiny.json")
    if "values" not in row:
        pytest.skip("values are recorded for the seed 0 alone")
    if difference(weights(), row["weights"]) > DIGITS:
        words = "names or initializes weights of this model in another way"
        pytest.skip(f"transformers {transformers.__version__} {words} than {row['transformers']}, which was recorded")
    return row


def beside_layers(name: str) -> bool:
    """Whether a block is a module next to the layers. In another version it may end elsewhere, or be called by two
    parts; if all layers and outputs are equal, it computes the same. Up to 4.57 Gemma 2 scaled embeddings outside of it.
    """
    return not name.startswith("output ") and not any(part.isdigit() for part in name.split("."))


def check(regime: str, make_inputs: Any) -> None:
    """Asserts that the oracle gives what is recorded; the message names the first block that does not."""
    row = row_or_skip()
    oracle = support.make_oracle(regime=regime)
    found = values_of(oracle, make_inputs(oracle))
    by, expected_of = f"transformers {row['transformers']}", row["values"][regime]
    far = {name: difference(found[name], x) if name in found else math.inf for name, x in expected_of.items()}
    wrong = [name for name, off in far.items() if off > DIGITS]
    if row["transformers"] != transformers.__version__ and all(map(beside_layers, wrong)):
        return
    for name in wrong:
        off, expected = far[name], expected_of[name]
        assert name in found, f"{case.MODEL_CLASS} has no {name}, which {by} has"
        assert off <= DIGITS, (
            f"{case.MODEL_CLASS} first wrong block: {name}, in f64 on the CPU: {off:.3g} of its norm from what {by} gave "
            f"(norm {found[name][0]:.8g}, recorded {expected[0]:.8g}): a formula, a field of the configuration or the "
            f"name of a weight is another one in transformers {transformers.__version__}"
        )


def ceiling(row: dict[str, Any], block: str, dtype: torch.dtype) -> float:
    """The largest error of a correct implementation on a CPU, with a margin; infinite if none is recorded."""
    largest = row["errors"].get(block, {}).get(support.NAMES[dtype])
    if largest is None:
        return math.inf
    margin = MARGIN_OF_FEW if row["seeds"] < MANY else MARGIN[dtype]
    return max(margin * float(largest), LEAST[dtype] * support.UNIT[dtype])


def ceiling_of_parts(dtype: torch.dtype, depth: int) -> float:
    """The largest error of any recorded model in a block next to its layers, with a margin; that of sums of its length,
    `depth`, if it is more."""
    found = json.loads(OF_PARTS.read_text()).get(support.NAMES[dtype]) if OF_PARTS.is_file() else None
    least = max(LEAST[dtype] * support.UNIT[dtype], support.floor_of(dtype, depth))
    return max(MARGIN_OF_PARTS * float(found), least) if found else math.inf


def require_below_ceiling(
    errors: tuple[float, float], block: str, dtype: torch.dtype, floor: float, part: Any, explain: Explain
) -> None:
    """Asserts that the CPU's error in a block is at most its ceiling, and the device's at most what it may be then.

    The model's code is the same on both: an error that is too large on the CPU is the code's. errors: of the CPU and of
    the device. part: the block if it is one module, such as a norm: it has a ceiling without a row of its model, too.
    """
    row = load()
    most, by = math.inf, "in any recorded model"
    if row and (support.FOLDER / "tiny.json").is_file() and row["config"] == checksum():
        most, by = ceiling(row, block, dtype), f"with {row['seeds']} seeds"
    if most == math.inf and part is not None:
        most, by = ceiling_of_parts(dtype, support.depth_of(part)), "in any recorded model"
    name = f"{case.MODEL_CLASS} first wrong block: {block} in {support.NAMES[dtype]}"
    if errors[0] > most:
        lines = [
            f"{name}: error {errors[0]:.3g} on the CPU, at most {most:.3g} by what correct implementations had {by}: the "
            "model's code loses digits that it should keep",
            explain(),
        ]
        raise AssertionError("\n".join(filter(None, lines)))
    allowed = support.FACTOR[dtype] * most + floor
    assert errors[1] <= allowed, f"{name}: error {errors[1]:.3g}, at most {allowed:.3g} by what correct ones had {by}"
