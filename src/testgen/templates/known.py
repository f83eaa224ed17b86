"""Faults that others reported (known_faults.json): a failed test names those that match it, and stays failed."""

from __future__ import annotations

import datetime
import json
import pathlib
from typing import Any

Row = dict[str, Any]


def load(pack: pathlib.Path) -> list[Row]:
    """The rows of a pack's known_faults.json."""
    return list(json.loads((pack / "known_faults.json").read_text()))


def older(version: str, than: str) -> bool:
    """Whether a version is older than another by its first two numbers."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split("+")[0].split(".")[:2] if part.isdigit()]

    return numbers(version) < numbers(than)


def here(row: Row, facts: dict[str, Any]) -> bool:
    """Whether a row is about this machine. facts: "gfx" of the device, "hip" and "transformers" versions, "type"."""
    if "gfx" in row and facts["gfx"] not in row["gfx"]:
        return False
    if "hip" in row and not str(facts["hip"] or "").startswith(f"{row['hip']}."):
        return False
    if "transformers" in row and not older(str(facts["transformers"]), row["transformers"]):
        return False
    return facts["type"] in row.get("types", [facts["type"]])


def covers(row: Row, test: str) -> bool:
    """Whether a row is about the test "test_attention[cuda:0-f16-tiny-sdpa]": the longest check that begins its name."""
    name, _, cases = test.removeprefix("test_").rstrip("]").partition("[")
    dtypes = {"f32", "bf16", "f16"} & set(cases.split("-"))
    fits = any(name == check or name.startswith(f"{check}_") for check in row["checks"])
    return fits and (not dtypes or not dtypes.isdisjoint(row.get("dtypes", dtypes)))


def avoided(rows: list[Row], facts: dict[str, Any]) -> list[str]:
    """A line for each known fault of the attention that the library picks by itself: the tests take eager attention, so
    that one cause is one failure, in test_attention, which takes each implementation by its name."""
    mine = [row for row in rows if "attention" in row and here(row, facts)]
    return [f"eager attention in place of {row['attention']}: {row['reason']} ({row['link']})" for row in mine]


def matching(rows: list[Row], test: str, facts: dict[str, Any]) -> list[str]:
    """A line for each known fault that can be behind the failure of a test."""
    mine = [row for row in rows if here(row, facts) and covers(row, test)]
    return [f"known: {row['reason']} ({row['link']})" for row in mine]


def stale(rows: list[Row], facts: dict[str, Any], results: list[Row], today: datetime.date) -> list[str]:
    """Lines about rows that match this machine although all of their tests pass, and about those that are overdue."""
    lines = []
    for row in rows:
        if datetime.date.fromisoformat(row["until"]) < today:
            lines.append(f"known_faults.json: {row['link']}: to be looked at again since {row['until']}")
        mine = [
            r for r in results if covers(row, r["test"]) and r["status"] in ("passed", "failed", "crashed", "timeout")
        ]
        if here(row, facts) and mine and all(r["status"] == "passed" for r in mine):
            lines.append(f"known_faults.json: {row['link']}: its {len(mine)} tests pass here")
    return lines
