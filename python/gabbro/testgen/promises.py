"""Checks the rows of exceptions.json: runs what they exclude with the oracle itself, in f64 on the CPU.

A row is right where the model fails there too. Where it does not, a device's fault or a mistake of the check is hidden.
Rows of known_faults.json are checked, too: they have a day, and on a machine that they are about their tests fail.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import importlib.util
import json
import pathlib
import sys
from typing import Any

import runner


def in_f64() -> Any:
    """A plugin of pytest that keeps the excluded tests alone, in f32 and tiny; their subject is the oracle.

    That of autocast stays in f32: f64 is not cast.
    """
    import pytest

    running: list[str] = []

    def oracle(device: str, dtype: Any, regime: str = "lively", size: str = "tiny", attention: Any = None) -> Any:
        support: Any = sys.modules["support"]
        if running[-1].startswith("test_autocast"):
            return support.make_reference(dtype, regime, size)
        return support.make_oracle(dtype, regime, size)

    class InF64:
        def pytest_runtest_setup(self, item: Any) -> None:
            running.append(item.name)

        @pytest.hookimpl(tryfirst=True)  # before conftest.py marks them as skipped
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            support = sys.modules["support"]
            excluded = support.require_promise  # type: ignore[attr-defined]
            others = ("bf16", "f16", "heads", "true", "full")
            items[:] = [item for item in items if excluded(item.name) and not any(f"-{w}" in item.name for w in others)]
            support.require_promise = lambda test: None  # type: ignore[attr-defined]
            support.make_subject = oracle  # type: ignore[attr-defined]

    return InF64()


def rows_of(pack: pathlib.Path) -> list[dict[str, str]]:
    path = pack / "exceptions.json"
    return list(json.loads(path.read_text())) if path.is_file() else []


def is_about(row: dict[str, str], test: str) -> bool:
    """Whether a row excludes a test "test_padding[cpu-f32-tiny-31-left]"."""
    check, _, cases = test.removeprefix("test_").rstrip("]").partition("[")
    return row["check"] == check and row.get("only", "") in ["", *cases.split("-")]


def stale_rows(pack: pathlib.Path, options: Any) -> list[str]:
    """Lines about rows of a pack whose tests all pass in f64."""
    rows = rows_of(pack)
    if not rows:
        return []
    options.plugins, options.k, options.device = [in_f64()], None, "cpu"
    [(_, results)] = runner.run_packs([pack], options)
    lines = []
    for row in rows:
        mine = [r for r in results if is_about(row, r["test"])]
        bad = [r for r in mine if r["status"] == "failed"]
        about = f"{pack.name}: {row['check']} {row.get('only', '')}".strip()
        print(f"{about}: {len(bad)} of {len(mine)} tests fail in f64", file=sys.stderr, flush=True)
        if not bad:
            lines.append(f"{about}: exceptions.json excludes it, but in f64 it holds")
    return lines


def stale_faults(pack: pathlib.Path, options: Any, machine: dict[str, Any]) -> list[str]:
    """Lines about rows of known_faults.json that are overdue, or whose tests all pass on this machine.

    machine: the document of machine.detect(). Tests run only where it is what a row is about.
    """
    spec = importlib.util.spec_from_file_location("known_of_pack", runner.shared_of(pack) / "known.py")
    missing = not (runner.shared_of(pack) / "known.py").is_file() or not (pack / "known_faults.json").is_file()
    if spec is None or spec.loader is None or missing:
        return [f"{pack.name}: known.py or known_faults.json is missing"]
    known = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(known)
    usable = [card for card in machine.get("cards", []) if card["link"] == "none"]
    facts = {"type": json.loads((pack / "model.json").read_text()).get("model_type"), "gfx": "", "transformers": "999"}
    facts["hip"] = machine.get("torch", {}).get("hip") if usable else None
    if usable:
        facts["gfx"] = usable[0]["gfx"]
    if importlib.util.find_spec("transformers") is not None:
        facts["transformers"] = importlib.metadata.version("transformers")
    rows = known.load(pack)
    about = [row for row in rows if known.here(row, facts)]
    results: list[Any] = []
    if about:
        options.plugins, options.device = [], "auto"
        options.k = " or ".join(sorted({f"test_{check}" for row in about for check in row["checks"]}))
        [(_, results)] = runner.run_packs([pack], options)
    return [f"{pack.name}: {line}" for line in known.stale(rows, facts, results, datetime.date.today())]
