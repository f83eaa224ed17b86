"""Runs packs: each in a fork of this process, which has imported torch once and touches no device.

    runner.py PACK... [--device NAME] [--limit SECONDS] [--jobs N] [--report DIR] [--require rocm|cuda] [--json]

A pack is a folder that `gabbro testgen` wrote, or a folder of such folders. Exit codes: 0 where something was tested
and nothing failed, 1 where a test failed, 2 for a folder without a pack and where nothing was tested, 3 where the
device or torch is missing that --require asks for, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import io
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
Result = dict[str, Any]
PR_SET_PDEATHSIG = 1
FAILED = ("failed", "crashed", "timeout")
SHARED = "gabbro_testgen"  # the folder of the code that packs share: in a pack, or next to several


def shared_of(pack: pathlib.Path) -> pathlib.Path:
    """The folder of the code that a pack shares with others; the pack itself if it has no such folder."""
    return next((place for place in (pack / SHARED, pack.parent / SHARED) if place.is_dir()), pack)


def enter(pack: pathlib.Path) -> None:
    """Makes the modules of a pack importable. They read the files of the working directory's pack."""
    os.chdir(pack)
    sys.path[:0] = [str(pack), str(shared_of(pack))]


class Collector:
    """A plugin of pytest that keeps the outcome of each test."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.results: list[Result] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        properties = dict(report.user_properties)
        measure = properties.get("measure", {})
        status = properties.get("status") or report.outcome
        words = report.longrepr[2] if isinstance(report.longrepr, (tuple, list)) else report.longreprtext
        reason = str(words).removeprefix("Skipped: ") if status == "skipped" else first_words(str(words))
        reason = "\n".join([reason, *properties.get("known", [])])
        self.results.append(
            {
                "type": self.kind,
                **parts_of(report.nodeid),
                "status": status,
                "reason": reason,
                "error": measure.get("error"),
                "reference_error": measure.get("reference_error"),
                "limit": measure.get("limit"),
                "factor": measure.get("factor"),
                "ratio": measure.get("ratio"),
                "block": measure.get("block"),
                "seconds": round(report.duration, 4),
            }
        )

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            reason = first_words(report.longreprtext)
            self.results.append({"type": self.kind, **parts_of(report.nodeid), "status": "failed", "reason": reason})


def first_words(text: str) -> str:
    """The lines "E ..." of a failure, at most 12, else its last lines."""
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return "\n".join(lines[:12] or text.splitlines()[-12:])


def parts_of(nodeid: str) -> Result:
    """{"test", "check", "device", "dtype", "size"} of "test_layers.py::test_layers[cpu-f32-tiny-lively]"."""
    name = nodeid.split("::")[-1]
    words = re.split(r"[\[\]-]", name)
    dtype = next((word for word in words if word in ("f32", "bf16", "f16")), "")
    size = next((word for word in words if word in ("tiny", "heads", "true", "full")), "")
    device = next((word for word in words[1:] if word.startswith(("cpu", "cuda"))), "")
    return {"test": name, "check": words[0].removeprefix("test_"), "device": device, "dtype": dtype, "size": size}


def is_of_check(test: str, checks: tuple[str, ...]) -> bool:
    """Whether "test_memory_leak[cpu-tiny]" is a test of one of the checks."""
    name = test.removeprefix("test_").partition("[")[0]
    return any(name == check or name.startswith(f"{check}_") for check in checks)


def find_packs(folders: list[str]) -> list[pathlib.Path]:
    """The packs of the folders, sorted; exits with 2 where a folder has none."""
    packs: list[pathlib.Path] = []
    for name in folders:
        folder = pathlib.Path(name)
        found = [folder] if (folder / "case.py").is_file() else sorted(path.parent for path in folder.glob("*/case.py"))
        if not found:
            print(f"gabbro: error: {name}: holds no pack", file=sys.stderr)
            sys.exit(2)
        packs += found
    return packs


def run_pytest(pack: pathlib.Path, words: list[str], plugins: list[Any]) -> tuple[list[Result], str]:
    """Runs pytest in the pack's folder; its results, and the error of pytest itself, if any."""
    import pytest

    enter(pack)
    collector = Collector(pack.name)
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):  # usage errors of pytest are in the second
        code = pytest.main([".", "-q", "-p", "no:cacheprovider", *words], plugins=[collector, *plugins])
    ended = code not in (0, 1, 5)
    return collector.results, (first_words(said.getvalue()) or f"pytest ended with code {int(code)}") if ended else ""


def run_pack(pack: pathlib.Path, options: argparse.Namespace, out: str) -> None:
    """In a child: runs the tests of a pack and writes their results to the file `out`."""
    words = ["--device", options.device, "--limit", str(options.limit), *(["-k", options.k] if options.k else [])]
    results, ending = run_pytest(pack, words, options.plugins)
    if ending and not results:
        results.append({"type": pack.name, **parts_of("pytest"), "status": "failed", "reason": ending})
    pathlib.Path(out).write_text(json.dumps(results, default=str))


def read_results(pack: pathlib.Path, out: str, status: int) -> list[Result]:
    """The results of a child that has ended; one failure where it wrote none."""
    try:
        return list(json.loads(pathlib.Path(out).read_text()))
    except (OSError, ValueError):
        ending = f"pytest itself ended with status {status}"
        return [{"type": pack.name, **parts_of("pytest"), "status": "crashed", "reason": ending}]


def end_with_parent() -> None:
    """Lets the system end this process as soon as the one that started it is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run_packs(packs: list[pathlib.Path], options: argparse.Namespace) -> Iterator[tuple[pathlib.Path, list[Result]]]:
    """Runs up to --jobs packs at a time and yields each when it is done."""
    waiting, running = list(reversed(packs)), dict[int, tuple[pathlib.Path, str]]()
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < options.jobs:
                pack = waiting.pop().resolve()
                out = os.path.join(folder, f"{len(waiting)}.json")
                process = os.fork()
                if process == 0:
                    code = 1
                    try:
                        end_with_parent()
                        run_pack(pack, options, out)
                        code = 0
                    finally:
                        os._exit(code)
                running[process] = (pack, out)
            process, status = os.wait()
            if process in running:
                pack, out = running.pop(process)
                yield pack, read_results(pack, out, status)


def counts_of(results: list[Result]) -> str:
    """ "12 passed, 3 skipped"."""
    order = ("passed", "failed", "crashed", "timeout", "skipped")
    counts = {status: sum(r["status"] == status for r in results) for status in order}
    return ", ".join(f"{number} {status}" for status, number in counts.items() if number) or "no tests"


def machine_facts() -> Result:
    """What machine.py of the packs finds out about this machine."""
    spec = importlib.util.spec_from_file_location("gabbro_machine", HERE / "machine.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return dict(module.detect())


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("packs", nargs="+")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report")
    parser.add_argument("--require", choices=["rocm", "cuda"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-k", help="pytest's expression")
    options = parser.parse_args(words)
    options.plugins = []
    return options


def warm_up() -> None:
    """Imports what every pack imports, so that the forks need not. Nothing is computed here."""
    for name in ("modeling_utils", "generation.utils", "models.auto.modeling_auto", "cache_utils", "masking_utils"):
        importlib.import_module(f"transformers.{name}")
    for name in ("pytest", "_pytest.runner", "_pytest.assertion.rewrite", "safetensors.torch", "torch._dynamo"):
        importlib.import_module(name)


def run_all(options: argparse.Namespace, say: bool = True) -> Result:
    """The document: versions, machine, results, seconds."""
    import torch
    import transformers

    warm_up()
    started = time.monotonic()
    facts = (
        machine_facts() if options.device != "cpu" or options.require else {"verdict": "cpu", "reason": "not asked for"}
    )
    document: Result = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "machine": facts,
    }
    document["results"] = []
    if options.require and facts["verdict"] != options.require:
        document["missing"] = f"{options.require}: {facts['reason'] or 'the GPU is ' + facts['verdict']}"
        return document
    for pack, results in run_packs(find_packs(options.packs), options):
        document["results"] += results
        if say:
            print(f"{pack.name}: {counts_of(results)}", flush=True)
            for result in results:
                if result["status"] in FAILED:
                    first = (result["reason"].splitlines() or [""])[0]
                    print(f"  {result['status']} {result['test']}: {first}")
    document["seconds"] = round(time.monotonic() - started, 2)
    return document


def main() -> int:
    options = parse_arguments()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    find_packs(options.packs)
    missing = [name for name in ("torch", "transformers", "pytest") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"gabbro: error: {sys.executable} has no {', '.join(missing)} (--python names another)", file=sys.stderr)
        return 3 if options.require else 1
    document = run_all(options, say=not options.json)
    if "missing" in document:
        print(f"gabbro: error: {document['missing']}", file=sys.stderr)
        return 3
    if options.report:
        sys.path.insert(0, str(HERE))
        import report

        report.write(document, pathlib.Path(options.report))
    if options.json:
        print(json.dumps(document, indent=1, default=str))
    else:
        print(f"{counts_of(document['results'])} in {document['seconds']} s")
    return code_of(document["results"])


def code_of(results: list[Result]) -> int:
    """1 where a test failed; 2, with a line, where nothing was tested."""
    if any(r["status"] in FAILED for r in results):
        return 1
    if any(r["status"] == "passed" for r in results):
        return 0
    reasons = [str(r["reason"]).splitlines()[0] for r in results if r.get("reason")]
    why = f"{len(results)} tests are skipped: {reasons[0]}" if reasons else "there are no tests"
    print(f"gabbro: error: nothing was tested: {why}", file=sys.stderr)
    return 2


def stop(number: int, _frame: Any) -> None:
    """Ends this process without a traceback; its children end with it, and temporary files are removed."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader of the output has seen enough
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        sys.exit(main())
    except OSError as problem:  # such as a full disk
        print(f"gabbro: error: {problem.filename or 'output'}: {problem.strerror}", file=sys.stderr)
        sys.exit(1)
