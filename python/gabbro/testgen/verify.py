"""Checks packs themselves: they parse, functions are short, nothing forbidden is in them, no exception is stale.

    verify.py PACK... [--mutate] [--device NAME] [--json]

An exception is stale where the model does what it is excused from, in f64 on the CPU; that needs torch. A known fault
is stale after its day, and where its tests pass on a machine that it is about.
--mutate plants one fault after the other in the model under test and counts those that a test finds. Exit code 1 where
a pack is wrong, or where a planted fault is not found.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import promises  # noqa: E402
import runner  # noqa: E402

LONGEST = 40  # lines of a function
FORBIDDEN = re.compile(r"\bmock|except:|hasattr\(torch\.version|trust_remote_code=True", re.IGNORECASE)
MUTATION_TESTS = "(layers or end_to_end or padding or causal or cache or probe) and f32 and not f16 and not bf16"


def problems_of(pack: pathlib.Path) -> list[str]:
    """Lines about what is wrong in the files of a pack."""
    lines = []
    for path in sorted(pack.glob("*.py")):
        text = path.read_text()
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            lines.append(f"{pack.name}/{path.name}: {error}")
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > LONGEST:
                lines.append(f"{pack.name}/{path.name}: {node.name} is longer than {LONGEST} lines")
        if found := FORBIDDEN.search(text):
            lines.append(f"{pack.name}/{path.name}: has {found[0]!r}")
    return lines


def plant(pack: pathlib.Path, name: str, options: Any) -> str:
    """ "found by TEST", "not found", or "changes nothing" of one fault in one pack."""
    import faults

    with tempfile.TemporaryDirectory() as folder:
        counter = os.path.join(folder, "changed")
        options.plugins, options.k = [faults.Planter(name, counter)], MUTATION_TESTS
        [(_, results)] = runner.run_packs([pack], options)
        changed = os.path.exists(counter)
    bad = [r["test"] for r in results if r["status"] in ("failed", "crashed", "timeout")]
    if not changed:
        return "changes nothing"
    return f"found by {bad[0]} and {len(bad) - 1} more" if bad else "not found"


def mutate(packs: list[pathlib.Path], options: Any) -> dict[str, dict[str, str]]:
    """{pack: {fault: outcome}}"""
    import faults

    runner.warm_up()
    table: dict[str, dict[str, str]] = {}
    for pack in packs:
        for name in faults.NAMES:
            table.setdefault(pack.name, {})[name] = plant(pack, name, options)
        found = sum(text.startswith("found") for text in table[pack.name].values())
        missed = [name for name, text in table[pack.name].items() if text == "not found"]
        print(
            f"{pack.name}: {found} of {found + len(missed)} faults found {', '.join(missed)}",
            file=sys.stderr,
            flush=True,
        )
    return table


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--mutate"]
    options = runner.parse_arguments(words)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    packs = runner.find_packs(options.packs)
    problems = [line for pack in packs for line in problems_of(pack)]
    with_rows = [pack for pack in packs if promises.rows_of(pack)]
    if with_rows and importlib.util.find_spec("torch") is None:
        print(f"gabbro: note: {sys.executable} has no torch: exceptions are not checked", file=sys.stderr)
    elif with_rows:
        runner.warm_up()
        problems += [line for pack in with_rows for line in promises.stale_rows(pack, options)]
    facts = runner.machine_facts() if options.device != "cpu" and importlib.util.find_spec("torch") else {}
    problems += [line for pack in packs for line in promises.stale_faults(pack, options, facts)]
    document: dict[str, Any] = {"packs": len(packs), "problems": problems}
    if "--mutate" in sys.argv:
        document["faults"] = mutate(packs, options)
        missed = [
            f"{p}: {n}" for p, row in document["faults"].items() for n, text in row.items() if text == "not found"
        ]
        problems += [f"{line} is not found" for line in missed]
    print(json.dumps(document, indent=1) if options.json else "\n".join([*problems, f"{len(packs)} packs verified"]))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
