"""The stages of checking a pack itself: its files parse, type-check, are collected, and run on the CPU.

Each stage returns an Outcome. What takes an interpreter for itself runs in a fork with a limit of time, so that a pack
that crashes or hangs is one wrong line.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import runner

LONGEST = 40  # lines of a function
SHOWN = 3  # wrong lines of a stage; the others are counted
FORBIDDEN = re.compile(r"\bmock|except:|hasattr\(torch\.version|trust_remote_code=True", re.IGNORECASE)
# Checks whose outcome is the machine's, and Gabbro's: one pack runs them for all that have the same file.
OF_MACHINE = ("probe", "compile", "memory", "oom", "speed", "detect", "devices", "parity")
NOT_SMALL = re.compile(
    r"[\[-](bf16|f16|true|full)\b"
)  # in names of tests: other sizes and data types than tiny and f32
LIBRARY = re.compile(r"requires the (\S+) library|No module named '([^']+)'")
Outcome = dict[str, Any]  # "status": "ok", "wrong" or "skipped"; "lines": why


def outcome(status: str, lines: list[str] | tuple[str, ...] = ()) -> Outcome:
    return {"status": status, "lines": list(lines)}


def wrong_if(lines: list[str]) -> Outcome:
    """ "wrong" with the first lines, "ok" without any."""
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return outcome("wrong" if lines else "ok", lines[:SHOWN] + more)


def in_child(work: Callable[[], Any], limit: float) -> Any:
    """What work() returns in a fork, as JSON. RuntimeError where it raises, crashes, or exceeds `limit` seconds."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        os.close(reading)
        os.setsid()
        with contextlib.suppress(BaseException):
            try:
                said: dict[str, Any] = {"result": work()}
            except BaseException as error:
                said = {"error": f"{type(error).__name__}: {error}"}
            with os.fdopen(writing, "w") as pipe:
                json.dump(said, pipe, default=str)
        os._exit(0)
    os.close(writing)
    text, end = b"", time.monotonic() + limit
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            piece = pipe.read(65536)
            if not piece:
                break
            text += piece
        late = time.monotonic() >= end
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    if not text:
        ending = f"did not end in {limit:.0f} s" if late else f"ended by signal {status & 127}"
        raise RuntimeError(ending)
    document = json.loads(text)
    if "error" in document:
        raise RuntimeError(document["error"])
    return document["result"]


class Essence:
    """Hashes of files without docstrings and the values of case.py: packs that are equal in them are checked once."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], str] = {}

    def of_text(self, name: str, text: str) -> str:
        """A hash; files that do not parse have that of their text."""
        if (name, text) not in self.known:
            try:
                words = ast.dump(self.reduced(ast.parse(text), name == "case.py"))
            except SyntaxError:
                words = text
            self.known[name, text] = hashlib.sha256(words.encode()).hexdigest()
        return self.known[name, text]

    @staticmethod
    def reduced(tree: ast.Module, drop_values: bool) -> ast.Module:
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                head = node.body[0] if node.body else None
                if isinstance(head, ast.Expr) and isinstance(head.value, ast.Constant):
                    head.value.value = ""
            if drop_values and isinstance(node, ast.Constant) and node.value is not None:
                node.value = type(node.value)()
        return tree

    def of_pack(self, pack: pathlib.Path) -> dict[str, str]:
        """{file: hash} of the Python files."""
        return {path.name: self.of_text(path.name, path.read_text()) for path in python_files(pack)}


def python_files(pack: pathlib.Path) -> list[pathlib.Path]:
    """The files of a pack and of the code that it shares with others."""
    shared = runner.shared_of(pack)
    return sorted([*pack.glob("*.py"), *(shared.glob("*.py") if shared != pack else [])])


def parse(pack: pathlib.Path) -> Outcome:
    """Every file is Python with short functions, and without what hides a failure."""
    lines = []
    for path in python_files(pack):
        text = path.read_text()
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            lines.append(f"{path.name}: {error}")
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > LONGEST:
                lines.append(f"{path.name}: {node.name} is longer than {LONGEST} lines")
        if found := FORBIDDEN.search(text):
            lines.append(f"{path.name}: has {found[0]!r}")
    return wrong_if(lines)


def type_check(pack: pathlib.Path, cache: pathlib.Path, limit: float) -> Outcome:
    """mypy --strict of the whole pack."""

    def work() -> Any:
        from mypy import api

        os.chdir(pack)
        shared = runner.shared_of(pack)
        os.environ["MYPYPATH"] = str(shared)
        files = [str(path.relative_to(pack)) if path.parent == pack else str(path) for path in python_files(pack)]
        return api.run(["--strict", "--no-error-summary", "--no-color-output", "--cache-dir", str(cache), *files])

    try:
        said, complaints, code = in_child(work, limit)
    except RuntimeError as error:
        return outcome("wrong", [f"mypy: {error}"])
    lines = [line for line in (said + complaints).splitlines() if "error:" in line]
    return wrong_if(lines or ([f"mypy ended with code {code}"] if code else []))


class Keep:
    """A plugin of pytest that counts the tests, and where asked to leaves those that run on any CPU in short time."""

    def __init__(self, machine_files: list[str] | None) -> None:
        self.machine_files = machine_files
        self.count = 0

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.machine_files is not None:
            items[:] = [item for item in items if self.is_wanted(item)]
        self.count = len(items)

    def is_wanted(self, item: Any) -> bool:
        of_machine = runner.is_of_check(item.name, OF_MACHINE)
        return not NOT_SMALL.search(item.name) and (not of_machine or item.path.name in (self.machine_files or []))


def collect(pack: pathlib.Path, limit: float) -> Outcome:
    """pytest --collect-only: all files are imported, and there are tests."""

    def work() -> Any:
        keep = Keep(None)
        return [runner.run_pytest(pack, ["--collect-only", "--device", "cpu"], [keep]), keep.count]

    try:
        (results, ending), count = in_child(work, limit)
    except RuntimeError as error:
        return outcome("wrong", [f"pytest --collect-only: {error}"])
    lines = [f"{result['test']}: {last_line(result['reason'])}" for result in results]
    lines += [ending] if ending and not lines else []
    return wrong_if(lines or ([] if count else ["no test is collected"]))


def last_line(reason: str) -> str:
    """The line of a reason that names the error."""
    lines = [line for line in reason.splitlines() if line.strip()] or [""]
    return next((line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)), lines[0])[:300]


def run(pack: pathlib.Path, machine_files: list[str], limit: float) -> Outcome:
    """A run on the CPU in f32 and size tiny. machine_files: files whose checks of the machine run, too."""
    options = runner.parse_arguments([str(pack), "--device", "cpu", "--limit", str(limit)])
    options.plugins = [Keep(machine_files)]
    [(_, results)] = runner.run_packs([pack], options)
    bad = [r for r in results if r["status"] in ("failed", "crashed", "timeout")]
    # A slow machine, or one on which torch cannot compile, is not the pack's fault; a test that cannot run is.
    about_machine = [r for r in bad if runner.is_of_check(r["test"], OF_MACHINE) and "AssertionError" in r["reason"]]
    missing = sorted({name for r in bad for pair in LIBRARY.findall(r["reason"]) for name in pair if name})
    if missing:
        return outcome("skipped", [f"needs {', '.join(missing)}"])
    lines = [f"{r['test']}: {last_line(r['reason'])}" for r in bad if r not in about_machine]
    passed = sum(r["status"] == "passed" for r in results)
    if not lines and not passed:
        reasons = sorted({last_line(r["reason"]) for r in results if r["status"] == "skipped"})
        return outcome("skipped", reasons[:1] or ["it has no test for a CPU"])
    return {
        **wrong_if(lines),
        "counts": runner.counts_of(results),
        "machine": [last_line(r["reason"]) for r in about_machine],
    }


def key_of(pack: pathlib.Path, versions: Mapping[str, str]) -> str:
    """A hash of all files of a pack and of the versions that check it."""
    digest = hashlib.sha256(json.dumps(versions, sort_keys=True).encode())
    shared = runner.shared_of(pack)
    files = [path for folder in {pack, shared} for path in folder.iterdir() if path.is_file()]
    for path in sorted(files, key=lambda path: (path.parent != pack, path.name)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def missing_tools(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is None]
