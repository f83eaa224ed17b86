"""PyTorch's results by the keys of the cases, stored for machines without PyTorch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from .sides import Outcome

FILE = Path(__file__).resolve().parents[3] / "tests" / "data" / "nn" / "torch_arguments.json.gz"


def save(results: dict[str, Outcome]) -> None:
    """Of errors only that there is one, since their texts change."""
    rows = {key: {"error": ""} if "error" in result else result for key, result in results.items()}
    text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))


def load() -> dict[str, Outcome]:
    results: dict[str, Outcome] = json.loads(gzip.decompress(FILE.read_bytes()))
    return results
