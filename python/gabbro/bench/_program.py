"""The program: its arguments, what it measures, and what it says."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from typing import Any, NoReturn

import gabbro as gb
from gabbro import _core

from . import _cases, _measure, _peer, _report
from ._cases import Case

FAILED, BAD_INPUT, NO_DEVICE, INTERRUPTED = 1, 2, 3, 130
MOST_COUNT = 100000


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: error: {message}\n")


def count(most: int) -> Any:
    def parsed(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) <= most):
            raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to {most}")
        return int(text)

    return parsed


def parser() -> Parser:
    description = "Measures single ops, next to PyTorch where it is installed."
    p = Parser("python -m gabbro.bench", description=description, allow_abbrev=False)
    p.add_argument("--all", action="store_true", help="measure all groups (the default)")
    for group in _cases.groups():
        p.add_argument(
            f"--{group}", action="append_const", dest="groups", const=group, help=f"measure the group {group}"
        )
    p.add_argument("--filter", default="", metavar="TEXT", help="measure only cases with this text in their names")
    p.add_argument("--dtype", action="append", choices=_cases.DTYPES, help="measure this dtype; may be repeated "
                   "(default: all three)")  # fmt: skip
    p.add_argument("--size", choices=_cases.SIZES, help="size of the shapes (default: small on a CPU, large on a GPU, "
                   "tiny on the simulator)")  # fmt: skip
    p.add_argument("--iterations", type=count(MOST_COUNT), default=0, metavar="N", help="samples to take of each case; "
                   "0: as many as fit in a quarter of a second, 5 to 200 (default: 0)")  # fmt: skip
    p.add_argument("--warmup", type=count(MOST_COUNT), default=3, metavar="N",
                   help="runs of each case before it is measured (default: 3)")  # fmt: skip
    p.add_argument("--peer", choices=("auto", "none", "pytorch"), default="auto", help="what to compare with: "
                   "PyTorch where it is installed (auto), nothing, or PyTorch, else fail (default: auto)")  # fmt: skip
    p.add_argument("--device", default="auto", metavar="NAME", help="device to run on: auto, cpu, rocm, cuda:0, ...")
    p.add_argument("--threads", type=count(1024), default=0, metavar="N", help="threads of a CPU device; 0: one per "
                   "physical core")  # fmt: skip
    p.add_argument("--json", action="store_true", help="write one JSON document to standard output, and nothing else")
    p.add_argument("--html", metavar="FILE", help="write a page with plots to this file")
    return p


def chosen(options: argparse.Namespace, size: str) -> list[tuple[Case, str]]:
    """The requested cases and dtypes. Raises ValueError if there is none."""
    groups = _cases.groups() if options.all or not options.groups else options.groups
    rows = [
        (case, dtype)
        for case in _cases.cases(size)
        if case.group in groups and options.filter in case.name
        for dtype in case.dtypes
        if not options.dtype or dtype in options.dtype
    ]
    if not rows:
        raise ValueError("there is no case of these groups, dtypes and names")
    return rows


def measured(
    case: Case, dtype: str, device: gb.Device, peer: _peer.PyTorch | None, options: argparse.Namespace
) -> dict[str, Any]:
    """What the document says about a case."""
    row: dict[str, Any] = {
        "name": case.name,
        "group": case.group,
        "op": case.op,
        "shapes": case.shapes,
        "dtype": dtype,
    }
    try:
        tensors = _cases.inputs(case, dtype, device)
        compiled = _core._CompiledFunction(lambda *x: _cases.results(case, x), tensors, [], [])
        ours = _measure.Subject(lambda: compiled(tensors), lambda: gb.synchronize(device))
        ours.prepare(options.iterations, options.warmup)
    except MemoryError as error:
        return row | {"seconds": None, "skipped": str(error)}
    subjects = [ours]
    refusal = None
    if peer is not None:
        try:
            theirs = _measure.Subject(peer.function(case, tensors), peer.synchronize)
            theirs.prepare(options.iterations, options.warmup)
            subjects.append(theirs)
        except (RuntimeError, MemoryError) as error:  # no kernel for this dtype, or not enough memory
            refusal = str(error).partition("\n")[0]
    _measure.measure(subjects)

    launches = compiled.launches()
    known = all(launch[2] > 0 for launch in launches)  # each says how many bytes it moves
    moved = sum(launch[2] for launch in launches) if known else 0
    flops = sum(launch[3] for launch in launches) if known else 0
    seconds = ours.facts()
    return row | {
        "seconds": seconds,
        "samples": ours.samples,
        "runs_per_sample": ours.runs,
        "bytes": moved or None,
        "flops": flops or None,
        "bytes_per_second": moved / seconds["median"] or None,
        "flops_per_second": flops / seconds["median"] or None,
        "launches": len(launches),
        "kernels": [kernel for _, kernel, _, _ in launches],
        "peer_seconds": subjects[1].facts() if len(subjects) > 1 else None,
        "peer_skipped": refusal,
        "ratio": seconds["median"] / subjects[1].facts()["median"] if len(subjects) > 1 else None,
    }


def default_size(device: str) -> str:
    if device.startswith("sim"):  # simulated GPUs are slow
        return "tiny"
    return "small" if device in ("cpu", "null") else "large"


def document(options: argparse.Namespace) -> dict[str, Any]:
    """Measures what was asked for."""
    device = gb.Device(options.device, threads=options.threads)
    facts = gb.device_info(device)
    threads = (options.threads or facts["compute_units"]) if device == "cpu" else None
    rows = chosen(options, options.size or default_size(str(device)))
    peer, reason = (None, "") if options.peer == "none" else _peer.find(str(device), threads)
    if reason and options.peer == "pytorch":
        raise ValueError(f"--peer: {reason}")
    if reason:
        print(f"gabbro.bench: note: {reason}", file=sys.stderr)
    results = []
    for number, (case, dtype) in enumerate(rows):
        if sys.stderr.isatty():
            print(f"\r\x1b[Kmeasuring {number + 1} of {len(rows)}", end="", file=sys.stderr, flush=True)
        results.append(measured(case, dtype, device, peer, options))
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return {
        "version": gb.__version__,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "device": str(device),
        "device_name": facts["name"],
        "architecture": facts["architecture"],
        "driver": facts["driver"],
        "runtime": facts["runtime"],
        "threads": threads,
        "size": options.size or default_size(str(device)),
        "warmup": options.warmup,
        "peer": {"name": peer.name, "version": peer.version, "device": peer.device} if peer else None,
        "results": results,
    }


def main(arguments: list[str] | None = None) -> int:
    """Runs the program, and returns its exit code: 0, 1 failed, 2 bad usage, 3 no usable device, 130 interrupted.

    Parameters
    ----------
    arguments : list of str, optional
        The default is the command line.
    """
    p = parser()
    options = p.parse_args(arguments)
    try:
        if options.html is not None:
            _report.require_path(options.html)
        made = document(options)
        print(json.dumps(made, indent=2) if options.json else _report.table(made))
        if options.html is not None:
            _report.write_page(options.html, made)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ValueError, RuntimeError, OSError) as error:
        print(f"{p.prog}: error: {error}", file=sys.stderr)
        if isinstance(error, gb.DeviceError):
            return NO_DEVICE
        return BAD_INPUT if isinstance(error, ValueError) else FAILED
    return 0
