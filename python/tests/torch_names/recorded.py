"""PyTorch's results by lines, stored for machines without PyTorch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[3] / "tests" / "data" / "ops" / "torch_names.json.gz"


def load(path: Path = FILE) -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    return results


def save(results: dict[str, dict[str, Any]], path: Path = FILE) -> None:
    path.write_bytes(gzip.compress(json.dumps(results, separators=(",", ":")).encode(), mtime=0))
