"""Runs the tests of packs in a child process, so that a crash or a hang ends one test and not the others.

The child is a fork of this process, which has imported torch and has not touched a device. It runs one test after the other
and reports each through a pipe. Where it dies or exceeds a limit, the test that ran has failed, and a new child goes on.

Several packs may run together, each with its own instances of all modules but this one: enter() exchanges them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pathlib
import re
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Generator
from typing import Any, BinaryIO

import pytest
import torch
import transformers
from _pytest.runner import runtestprotocol

CRASHES_OF_A_LOST_DEVICE = 3
RUNS: dict[tuple[str, str], bool] = {}  # by pack and size: whether the model can be built and run
PACKS: dict[pathlib.Path, dict[str, Any]] = {}  # by folder: modules of packs that were left
ENTERED: list[pathlib.Path] = []  # the folder of the pack whose modules are imported now
DEVICE_ERROR = re.compile(r"(CUDA|HIP) error: ")
PR_SET_PDEATHSIG = 1
RESTART = 77  # exit code of a child that wants a clean one to go on
MEANINGS = {  # of codes of AMD's runtime in its last words
    "Memory access fault by GPU": "a kernel read or wrote memory that is not mapped",
    "HSA_STATUS_ERROR_OUT_OF_RESOURCES": "the device ran out of memory or of queues",
    "HSA_STATUS_ERROR_EXCEPTION": "a kernel trapped",
    "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION": "a kernel accessed memory beyond an aperture",
    "device-side assert": "an index was out of range",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-isolate", action="store_true", help="run the tests in this process")
    parser.addoption("--device", help="auto, all, cpu, cuda:N, rocm:N; without it what the pack names")
    parser.addoption("--size", help="sizes; without it what the pack names")
    parser.addoption("--limit", type=float, default=120.0, help="seconds a test may take")
    parser.addoption("--require", choices=["rocm", "cuda"], help="exit code 3 where no such device can be used")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "opt_in: can freeze a desktop; runs with -m opt_in alone")


def shared_of(folder: pathlib.Path) -> pathlib.Path:
    """The code that packs share: in the pack's folder, or next to it. case.py has the same rule."""
    inside = folder / pathlib.Path(__file__).resolve().parent.name
    return inside if inside.is_dir() else folder.parent / inside.name


def enter(path: pathlib.Path) -> bool:
    """Imports of this process find the modules of the pack that has the file `path`; False if it is in no pack."""
    folder = path.resolve().parent
    if not (folder / "case.py").is_file():
        return False
    if [folder] != ENTERED:
        leave()
        sys.path[:0] = [str(folder), str(shared_of(folder))]
        sys.modules.update(PACKS.pop(folder, {}))
        ENTERED[:] = [folder]
    return True


def leave() -> None:
    """Keeps the modules of the pack that is entered for later, and takes them out of the way of another one's."""
    for folder in ENTERED:
        places = (folder, shared_of(folder))
        files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
        names = [name for name, file in files.items() if pathlib.Path(file).resolve().parent in places]
        PACKS[folder] = {name: sys.modules.pop(name) for name in names if name not in ("conftest", __name__)}
        sys.path[:] = [place for place in sys.path if place not in map(str, places)]
    ENTERED.clear()


def own(name: str) -> Any:
    """A module of the pack that is entered."""
    return importlib.import_module(name)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    if isinstance(collector, pytest.Module):
        enter(collector.path)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    enter(item.path)


FOUND = pytest.StashKey[dict[str, Any]]()


def option(config: pytest.Config, name: str, default: Any) -> Any:
    """An option; the default if the plugin was registered after the command line was read."""
    value = config.getoption(name, default)
    return default if value is None else value


def found_of(config: pytest.Config) -> dict[str, Any]:
    """What machine.py finds; nothing is looked for if only the CPU is tested."""
    if FOUND not in config.stash:
        needs = option(config, "--require", "") or option(config, "--device", own("case").DEVICES) != "cpu"
        config.stash[FOUND] = own("machine").detect() if needs else {}
    return config.stash[FOUND]


def devices_of(config: pytest.Config) -> list[tuple[str, str]]:
    """(device of torch, reason to skip) for each device that --device names."""
    wanted, found = str(option(config, "--device", own("case").DEVICES)), found_of(config)
    usable = [f"cuda:{card['index']}" for card in found.get("cards", []) if card["link"] == "none"]
    if wanted == "auto":
        return [(name, "") for name in usable[:1] or ["cpu"]]
    if wanted == "all":
        return [(name, "") for name in ["cpu", *usable]]
    result = []
    for name in wanted.split(","):
        kind, _, number = name.partition(":")
        index = f"cuda:{number or 0}"
        fits = name == "cpu" or (index in usable and found["verdict"] == kind)
        result.append(("cpu" if name == "cpu" else index, "" if fits else f"{name}: {found['reason'] or 'not usable'}"))
    return result


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if not enter(metafunc.definition.path):
        return
    case, support = own("case"), own("support")
    devices = devices_of(metafunc.config) if "device" in metafunc.fixturenames else []
    if devices:
        marked = [pytest.param(name, marks=pytest.mark.skip(reason=why)) if why else name for name, why in devices]
        metafunc.parametrize("device", marked)
    if "dtype" in metafunc.fixturenames:
        metafunc.parametrize("dtype", [support.DTYPES[name] for name in case.DTYPES], ids=case.DTYPES)
    if "size" in metafunc.fixturenames:
        on_card = any(name != "cpu" for name, _ in devices)
        given = option(metafunc.config, "--size", "")
        metafunc.parametrize("size", own("sizes").of_test(metafunc.function.__name__, given, on_card))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Checks that this architecture does not promise are skipped with the reason; dangerous ones unless asked for."""
    given = option(config, "--size", "")
    items[:] = [item for item in items if not enter(item.path) or not own("sizes").is_extra(item, given)]
    for item in items:
        if not enter(item.path):
            continue
        own("versions").require()
        own("sizes").require_known(given)
        promise = own("support").require_promise(item.name)
        asked = not item.get_closest_marker("opt_in") or "opt_in" in str(config.getoption("-m"))
        reasons = [own("versions").missing(), f"not promised: {promise}" if promise else ""]
        for reason in filter(None, [*reasons, "" if asked else "opt-in: run with -m opt_in"]):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_report_collectionfinish(items: list[pytest.Item]) -> list[str]:
    """The versions that each pack is for, and those that run."""
    first = {item.path.parent: item.path for item in items}
    return [line for path in first.values() if enter(path) for line in own("versions").lines()]


@pytest.fixture(autouse=True)
def fail_once_without_a_model(request: pytest.FixtureRequest) -> None:
    """A configuration that gives no model, or a model that refuses the inputs, is one failure; the rest are skipped."""
    callspec = getattr(request.node, "callspec", None)
    size = str(callspec.params["size"]) if callspec and "size" in callspec.params else ""
    if not size or not enter(request.path):
        return
    key = (str(request.path.parent), size)
    if not RUNS.get(key, True):
        pytest.skip(f"no model can be built from {size}.json, or it does not run: see the first failure")
    if key not in RUNS:
        RUNS[key] = False
        own("sizes").require(size)
        RUNS[key] = True


@pytest.fixture(autouse=True)
def skip_what_the_cpu_refuses(request: pytest.FixtureRequest, fail_once_without_a_model: None) -> None:
    """A half that the model's own code, or the CPU, does not take has no reference."""
    callspec = getattr(request.node, "callspec", None)
    given = callspec.params if callspec else {}
    if given.get("dtype", torch.float32) != torch.float32 and enter(request.path):
        reason = own("support").refusal(given["dtype"], given.get("size", own("case").SIZES[0]))
        if reason:
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and enter(item.path):
        measured = own("support").MEASURED
        worst = sorted(measured, key=lambda entry: -entry["ratio"])[:1]
        report.user_properties += [("measure", entry) for entry in worst]
        measured.clear()
        if report.failed:
            name_known(item, report)
    return report


def name_known(item: pytest.Item, report: pytest.TestReport) -> None:
    """Adds the known faults that can be behind a failure; it stays one."""
    if not enter(item.path):
        return
    cards = found_of(item.config).get("cards", [])
    index = device_of(item).partition(":")[2]
    gfx = next((card["gfx"] for card in cards if str(card["index"]) == index), "")
    facts = {"gfx": gfx, "hip": torch.version.hip, "transformers": transformers.__version__}
    known = own("known")
    lines = known.matching(known.load(item.path.parent), item.name, {**facts, "type": own("case").MODEL_TYPE})
    if lines:
        report.user_properties.append(("known", lines))
        report.sections.append(("known faults", "\n".join(lines)))


def run_items(items: list[pytest.Item], pipe: BinaryIO, log: BinaryIO) -> int:
    """The child: runs the items and writes one line of JSON for each; returns its exit code."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # Ctrl-C ends the parent: nothing is left running
    plugins = items[0].config.pluginmanager
    capture = plugins.unregister(name="capturemanager")
    if capture is not None:
        capture.stop_global_capturing()
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    if all(own("case").SIZES == ["tiny"] for item in items if enter(item.path)):
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))  # more threads than work
    torch.backends.cuda.matmul.allow_tf32 = False  # f32 is f32: convolutions default to 10 bits of mantissa
    torch.backends.cudnn.allow_tf32 = False
    gc.freeze()  # imported objects live on: scanning them takes milliseconds per collection
    with contextlib.suppress(OSError):  # a test that takes all memory is what the system ends first
        pathlib.Path("/proc/self/oom_score_adj").write_text("1000")
    process = os.getpid()
    for item, following in zip(items, [*items[1:], None], strict=True):
        enter(item.path)
        reports = runtestprotocol(item, nextitem=following, log=False)
        if os.getpid() != process:  # a test has forked: its copy of the runner ends here
            os._exit(0)
        data = [item.config.hook.pytest_report_to_serializable(config=item.config, report=r) for r in reports]
        pipe.write(json.dumps(data, default=str).encode() + b"\n")
        pipe.flush()
        if any(report.failed and DEVICE_ERROR.search(str(report.longrepr)) for report in reports):
            return RESTART  # after such an error every call on the device fails
    return 0


def start_child(items: list[pytest.Item]) -> tuple[int, BinaryIO, BinaryIO]:
    """(process, reading end of its pipe, file with its output)"""
    log = tempfile.TemporaryFile()  # noqa: SIM115
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        os.close(reading)
        code = 1
        try:
            with os.fdopen(writing, "wb") as pipe:
                code = run_items(items, pipe, log)
        finally:
            if sys.exc_info()[0] is not None:
                traceback.print_exc(file=sys.__stderr__)  # into the log
            os._exit(code)
    os.close(writing)
    return process, os.fdopen(reading, "rb", buffering=0), log


class Lines:
    """Lines of the pipe of a process, with a limit of time for each."""

    def __init__(self, pipe: BinaryIO, process: int) -> None:
        self.pipe, self.rest = pipe.fileno(), b""
        self.ended = os.pidfd_open(process)  # processes that a test has left keep the pipe open

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *ending: Any) -> None:
        os.close(self.ended)

    def next(self, seconds: float) -> bytes | None:
        """One line; empty where the process has ended, None after `seconds`."""
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.pipe, self.ended], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            piece = os.read(self.pipe, 65536) if self.pipe in ready else b""
            if not piece:
                return b""
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        return line


def ending_of(process: int, timed_out: bool, limit: float) -> str:
    """How the child ended. Kills its whole process group."""
    done, status = os.waitpid(process, os.WNOHANG if timed_out else 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    if not done:
        os.waitpid(process, 0)
    if timed_out:
        return f"did not end in {limit:.0f} s and was killed"
    if os.WIFSIGNALED(status):
        ended_by = signal.Signals(os.WTERMSIG(status))
        cause = ", which the system sends where memory is exhausted" if ended_by == signal.SIGKILL else ""
        return f"crashed: signal {int(ended_by)} ({ended_by.name}){cause}"
    return f"ended the process with exit code {os.WEXITSTATUS(status)}"


def failure(item: pytest.Item, ending: str, log: BinaryIO, seconds: float) -> pytest.TestReport:
    """The report of a test whose process died."""
    log.seek(0)
    words = log.read().decode(errors="replace")
    meaning = next((f": {text}" for words_of, text in MEANINGS.items() if words_of in words), "")
    text = f"{item.name} {ending}{meaning}\n" + "\n".join(words.splitlines()[-30:])
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call", duration=seconds)
    report.user_properties.append(("status", "timeout" if "killed" in ending else "crashed"))
    name_known(item, report)
    return report


def device_of(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("device", "cpu")) if callspec else "cpu"


def announce(item: pytest.Item, reports: list[Any]) -> None:
    """Passes the reports on to pytest, as if the test had run here."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def run_child(session: pytest.Session, items: list[pytest.Item], limit: float) -> str:
    """Runs items in one child and takes those that were reported out of the list; returns how the child failed."""
    process, pipe, log = start_child(items)
    with pipe, log, Lines(pipe, process) as lines:
        line: bytes | None = None
        while items and not session.shouldstop and not session.shouldfail:  # -x
            started = time.monotonic()
            line = lines.next(limit)
            if not line:
                break
            make = session.config.hook.pytest_report_from_serializable
            announce(items.pop(0), [make(config=session.config, data=data) for data in json.loads(line)])
        stop = session.shouldstop or session.shouldfail
        ending = ending_of(process, line is None or bool(stop), limit)
        if stop or not items or (line == b"" and ending.endswith(f"code {RESTART}")):
            return ""
        announce(items[0], [failure(items[0], ending, log, time.monotonic() - started)])
        return ending


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Takes the place of pytest's own loop: children run the tests; a device that three tests lose is lost."""
    if option(session.config, "--no-isolate", False) or session.config.option.collectonly or session.testsfailed:
        return None
    items, crashes = list(session.items), dict[str, int]()
    while items:
        if crashes.get(device_of(items[0]), 0) >= CRASHES_OF_A_LOST_DEVICE:
            item = items.pop(0)
            lost = f"device lost: {device_of(item)} crashed in {CRASHES_OF_A_LOST_DEVICE} tests"
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", lost, "setup")
            announce(item, [report])
        elif run_child(session, items, float(option(session.config, "--limit", 120.0))):
            device = device_of(items.pop(0))
            crashes[device] = crashes.get(device, 0) + (device != "cpu")
        if session.shouldstop or session.shouldfail:
            break
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    wanted = option(session.config, "--require", "")
    if wanted and FOUND in session.config.stash and session.config.stash[FOUND].get("verdict") != wanted:
        session.exitstatus = 3
