"""Checks packs themselves, stage by stage: they parse, type-check, are collected, run, and their rows hold.

    verify.py PACK... [--mutate] [--journal FILE] [--seconds S] [--force] [--rendered FILE] [--device NAME] [--json]

types is mypy --strict, collect is pytest --collect-only, run is a run on the CPU in f32. rows are exceptions and known
faults: an exception is stale if the model passes the excused check in f64 on the CPU; a known fault is stale
after its day, and where its tests pass on a machine that it is about. A tool that is missing is one line, and its
stages are "not checked". FILE of --journal has a line for each pack, and packs that it has are not checked again until
they, or the versions that check them, change (or --force is given). No pack starts after S seconds.
--mutate plants one fault after the other in the model under test and counts those that a test finds. Exit code 1 where
a pack is wrong, or where a planted fault is not found.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import importlib.metadata
import json
import os
import pathlib
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import promises  # noqa: E402
import runner  # noqa: E402
import stages  # noqa: E402

MUTATION_TESTS = "(layers or end_to_end or padding or causal or cache or probe) and f32 and not f16 and not bf16"
STAGES = ("parse", "types", "collect", "run", "rows")
TOOLS = {"types": ("mypy", "torch"), "collect": ("torch", "transformers", "pytest")}
TOOLS["run"] = TOOLS["collect"]  # and exceptions; known faults are checked by their day without any
COLLECTED_WITHIN, TYPED_WITHIN = 120.0, 300.0  # seconds; the first run of mypy reads all of torch
Row = dict[str, Any]


class Verifier:
    """Takes packs through the stages. What was seen of one pack is not checked again in another that is equal to it."""

    def __init__(self, options: argparse.Namespace, cache: pathlib.Path) -> None:
        self.options, self.cache = options, cache
        self.missing = {stage: stages.missing_tools(TOOLS.get(stage, ())) for stage in STAGES}
        self.essence = stages.Essence()
        self.typed: dict[str, str] = {}  # essence of a pack: the pack whose types were checked
        self.on_machine: set[tuple[str, str]] = set()  # (file, essence) whose checks of the machine ran
        self.versions = {name: version_of(name) for name in ("torch", "transformers", "pytest", "mypy")}
        self.versions["verify"] = hashlib.sha256(
            b"".join(p.read_bytes() for p in sorted(HERE.glob("*.py")))
        ).hexdigest()
        self.facts = runner.machine_facts() if options.device != "cpu" and not self.missing["run"] else {}
        if not self.missing["run"]:
            runner.warm_up()

    def check(self, pack: pathlib.Path) -> Row:
        """The outcome of every stage of a pack."""
        started = time.monotonic()
        files = self.essence.of_pack(pack)
        done = {"parse": stages.parse(pack)}
        for stage, work in (("types", self.types), ("collect", self.collect), ("run", self.run), ("rows", self.rows)):
            if done["parse"]["status"] == "wrong" or (
                stage in ("run", "rows") and done["collect"]["status"] == "wrong"
            ):
                done[stage] = stages.outcome("skipped", ["not reached"])
            elif self.missing[stage]:
                done[stage] = stages.outcome("skipped", [f"needs {', '.join(self.missing[stage])}"])
            else:
                done[stage] = work(pack, files)
        row = {"pack": pack.name, "key": stages.key_of(pack, self.versions), "stages": done, "files": files}
        return {**row, "seconds": round(time.monotonic() - started, 1)}

    def know(self, row: Row) -> None:
        """Takes over what a row says about packs that are equal to its pack."""
        done, files = row["stages"], row["files"]
        if done["types"]["status"] == "ok":
            self.typed.setdefault(one_hash(files), row["pack"])
        if done["run"]["status"] == "ok":
            self.on_machine.update(files.items())

    def types(self, pack: pathlib.Path, files: dict[str, str]) -> stages.Outcome:
        if twin := self.typed.get(one_hash(files)):
            return {**stages.outcome("ok"), "as": twin}
        return stages.type_check(pack, self.cache, TYPED_WITHIN)

    def collect(self, pack: pathlib.Path, _: dict[str, str]) -> stages.Outcome:
        return stages.collect(pack, COLLECTED_WITHIN)

    def run(self, pack: pathlib.Path, files: dict[str, str]) -> stages.Outcome:
        new = [name for name, text in files.items() if (name, text) not in self.on_machine]
        return stages.run(pack, new, self.options.limit)

    def rows(self, pack: pathlib.Path, _: dict[str, str]) -> stages.Outcome:
        lines = promises.stale_faults(pack, argparse.Namespace(**vars(self.options)), self.facts)
        if not self.missing["run"]:
            lines += promises.stale_rows(pack, argparse.Namespace(**vars(self.options)))
        elif promises.rows_of(pack) and not lines:
            return stages.outcome("skipped", [f"exceptions need {', '.join(self.missing['run'])}"])
        return stages.wrong_if(lines)


def one_hash(files: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def version_of(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


class Journal:
    """Rows of packs that were checked, a line of JSON each; the last one of a pack counts."""

    def __init__(self, path: str | None, force: bool) -> None:
        self.path = pathlib.Path(path) if path else None
        self.rows: dict[str, Row] = {}
        if self.path is not None and self.path.is_file() and not force:
            for line in self.path.read_text().splitlines():
                try:
                    row = json.loads(line)
                    self.rows[row["pack"]] = row
                except (ValueError, KeyError, TypeError):  # a line that was cut off
                    continue
        elif self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text("")

    def add(self, row: Row) -> None:
        self.rows[row["pack"]] = row
        if self.path is not None:
            with open(self.path, "a") as file:
                file.write(json.dumps(row) + "\n")


def brief(row: Row) -> str:
    """ "parse, types, collect, run (85 passed), rows" of what is good, and what is not."""
    words = []
    for stage in STAGES:
        done = row["stages"][stage]
        note = f" ({done['counts']})" if done.get("counts") else ""
        words.append(stage + note if done["status"] == "ok" else f"{stage} {done['status'].upper()}{note}")
    return f"{', '.join(words)}; {row['seconds']} s"


def verify(verifier: Verifier, packs: list[pathlib.Path], journal: Journal, seconds: float) -> tuple[list[Row], int]:
    """(the rows of the packs that were checked now or before, how many are left)"""
    until, rows = time.monotonic() + seconds, []
    waiting = []
    for pack in packs:
        row = journal.rows.get(pack.name)
        if row is not None and row["key"] == stages.key_of(pack, verifier.versions):
            rows.append(row)
            verifier.know(row)
        else:
            waiting.append(pack)
    if rows:
        print(f"{len(rows)} of {len(packs)} packs were checked before", file=sys.stderr, flush=True)
    jobs: dict[int, tuple[int, int]] = {}
    while True:
        while waiting and len(jobs) < verifier.options.jobs and time.monotonic() < until:
            start(verifier, waiting.pop(0).resolve(), jobs)
        if not jobs:
            break
        row = finish(jobs)
        journal.add(row)
        verifier.know(row)
        rows.append(row)
        print(f"[{len(rows)}/{len(packs)}] {row['pack']}: {brief(row)}", file=sys.stderr, flush=True)
    return rows, len(waiting)


def start(verifier: Verifier, pack: pathlib.Path, jobs: dict[int, tuple[int, int]]) -> None:
    """Forks a process that checks a pack and writes its row to a file without a name. jobs: {process: (file, slot)}"""
    file = os.memfd_create(pack.name)
    slot = min(set(range(len(jobs) + 1)) - {slot for _, slot in jobs.values()})
    process = os.fork()
    if process == 0:
        try:
            verifier.cache /= str(slot)  # two processes of mypy do not write to one cache
            os.write(file, json.dumps(verifier.check(pack)).encode())
        finally:
            os._exit(0)
    jobs[process] = file, slot


def finish(jobs: dict[int, tuple[int, int]]) -> Row:
    """The row of the first job that ends."""
    process, status = os.wait()
    file, _ = jobs.pop(process)
    with os.fdopen(file, "rb") as reading:
        reading.seek(0)
        text = reading.read()
    if not text:
        raise SystemExit(f"gabbro: error: a process that checks a pack ended with status {status}")
    return dict(json.loads(text))


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


def say_missing(verifier: Verifier) -> None:
    """One line for each tool that is missing, with the stages that it takes away."""
    without = collections.defaultdict(list)
    for stage, names in verifier.missing.items():
        for name in names:
            without[name].append(stage)
    for name, words in without.items():
        words += ["exceptions"] if "run" in words else []
        print(f"gabbro: note: {sys.executable} has no {name}: not checked: {', '.join(words)}", file=sys.stderr)


def table_of(rows: list[Row], left: int, rendered: dict[str, Any] | None) -> dict[str, dict[str, int]]:
    """{stage: {"ok", "wrong", "skipped", "left"}}"""
    table: dict[str, dict[str, int]] = {}
    if rendered is not None:
        made, failed = len(rendered["types"]), len(rendered["failed"])
        table["render"] = {"ok": made, "wrong": failed, "skipped": len(rendered["skipped"]), "left": 0}
    for stage in STAGES:
        counts = collections.Counter(row["stages"][stage]["status"] for row in rows)
        table[stage] = {**{status: counts[status] for status in ("ok", "wrong", "skipped")}, "left": left}
    return table


def lines_of(rows: list[Row], status: str) -> list[str]:
    """ "bert: types: case.py:3: error: ..." of the stages with this status."""
    stages_of = [(row, stage, row["stages"][stage]) for row in rows for stage in STAGES]
    return [
        f"{row['pack']}: {s}: {line}"
        for row, s, done in stages_of
        if done["status"] == status
        for line in done["lines"]
    ]


def text_of(document: dict[str, Any]) -> str:
    """The wrong lines, the reasons for what was not checked with their counts, and the table."""
    same = collections.Counter(line.split(": ", 1)[1] for line in document["skipped"])
    lines = [f"{count} packs: {note}: not checked" for note, count in same.items() if count > 1]
    lines += [line for line in document["skipped"] if same[line.split(": ", 1)[1]] == 1]
    lines += [*document["problems"], ""]
    lines.append(f"{'stage':<10}{'ok':>6}{'wrong':>8}{'not checked':>14}{'left':>6}")
    for stage, row in document["table"].items():
        lines.append(f"{stage:<10}{row['ok']:>6}{row['wrong']:>8}{row['skipped']:>14}{row['left']:>6}")
    checked = f"{document['packs'] - document['left']} packs verified"
    lines.append(f"{checked}, {document['left']} are left: the same command goes on" if document["left"] else checked)
    return "\n".join(lines)


def parse_arguments() -> argparse.Namespace:
    mine = argparse.ArgumentParser(add_help=False)
    mine.add_argument("--mutate", action="store_true")
    mine.add_argument("--force", action="store_true")
    mine.add_argument("--journal")
    mine.add_argument("--rendered")
    mine.add_argument("--seconds", type=float, default=1e9)
    first, words = mine.parse_known_args()
    options = runner.parse_arguments([*([str(pathlib.Path(first.rendered).parent)] if first.rendered else []), *words])
    return argparse.Namespace(**vars(options), **vars(first))


def main() -> int:
    options = parse_arguments()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    rendered = json.loads(pathlib.Path(options.rendered).read_text()) if options.rendered else None
    if rendered is None:
        packs = runner.find_packs(options.packs)
    else:
        packs = [pathlib.Path(row["folder"]) for row in rendered["types"]]
    journal = Journal(options.journal, options.force)
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(options.journal).resolve().parent / ".mypy_cache" if options.journal else None
        verifier = Verifier(options, kept or pathlib.Path(folder))
        say_missing(verifier)
        rows, left = verify(verifier, packs, journal, options.seconds)
    problems = [f"{row['type']}: render: {row['reason']}" for row in (rendered or {}).get("failed", [])]
    document: dict[str, Any] = {"packs": len(packs), "left": left, "table": table_of(rows, left, rendered)}
    document["problems"] = problems + lines_of(rows, "wrong")
    document["skipped"] = [f"{r['type']}: render: {r['reason']}" for r in (rendered or {}).get("skipped", [])]
    document["skipped"] += lines_of(rows, "skipped")
    if options.mutate:
        document["faults"] = mutate(packs, options)
        cells = [(pack, name, text) for pack, row in document["faults"].items() for name, text in row.items()]
        document["problems"] += [f"{pack}: {name} is not found" for pack, name, text in cells if text == "not found"]
    print(json.dumps(document, indent=1) if options.json else text_of(document))
    return int(bool(document["problems"]))


if __name__ == "__main__":
    sys.exit(main())
