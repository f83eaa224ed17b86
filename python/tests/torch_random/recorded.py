"""Programs with PyTorch's results, stored for machines without PyTorch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[3] / "tests" / "data" / "ops" / "torch_random.json.gz"


def load(path: Path = FILE) -> list[dict[str, Any]]:
    programs: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    return programs


def save(programs: list[dict[str, Any]], path: Path = FILE) -> None:
    text = json.dumps([rounded(program) for program in programs], separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def rounded(value: Any) -> Any:
    """With seven digits of each number."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return {name: rounded(item) for name, item in value.items()} if isinstance(value, dict) else value
