"""Programs with PyTorch's results, stored so that they can be compared where there is no PyTorch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from .compare import Reference
from .outcome import Outcome
from .program import Program, decoded_array, encoded_array, from_json, to_json

FILE = Path(__file__).resolve().parents[3] / "tests" / "data" / "ops" / "torch_programs.json.gz"


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    arrays = {
        name: [encoded_array(array) for array in getattr(outcome, name)] for name in ("values", "gradients", "seconds")
    }
    return {**arrays, "dtypes": outcome.dtypes, "gradient_dtypes": outcome.gradient_dtypes}


def outcome_from_json(stored: dict[str, Any]) -> Outcome:
    values, gradients, seconds = (
        [decoded_array(array) for array in stored[name]] for name in ("values", "gradients", "seconds")
    )
    return Outcome(values, stored["dtypes"], gradients, stored["gradient_dtypes"], seconds)


def save(pairs: list[tuple[Program, Reference | None]], path: Path = FILE) -> None:
    rows = []
    for program, reference in pairs:
        row: dict[str, Any] = {"program": to_json(program)}
        if reference is not None:
            tolerances = [encoded_array(array.astype(np.float32)) for array in reference.tolerances]
            row |= {
                "native": outcome_to_json(reference.native),
                "exact": outcome_to_json(reference.exact),
                "tolerances": tolerances,
            }
        rows.append(row)
    path.write_bytes(gzip.compress(json.dumps(rows, separators=(",", ":")).encode(), mtime=0))


def load(path: Path = FILE) -> list[tuple[Program, Reference | None]]:
    """Without a reference: programs that PyTorch refuses."""
    pairs = []
    for row in json.loads(gzip.decompress(path.read_bytes())):
        reference = None
        if "native" in row:
            tolerances = [decoded_array(array).astype(np.float64) for array in row["tolerances"]]
            reference = Reference(outcome_from_json(row["native"]), outcome_from_json(row["exact"]), tolerances)
        pairs.append((from_json(row["program"]), reference))
    return pairs
