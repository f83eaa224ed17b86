"""Random programs over the public functions of Gabbro, with gradients, compared with PyTorch.

    python python/tests/compare_torch/run.py --programs 60000 --seed 0 [--device cpu|sim:0] [--dtype float32 ...]
    python python/tests/compare_torch/run.py --program SEED     one program: what differs, as a script

Program n is made of seed + n alone. Every chunk runs in a separate process, so that a crash is reported as that of the
program in which it happened. A program that differs is reduced to the smallest one found and printed as a script. Exits
1 where something differs that differences.py does not list.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import os
import queue
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # PyTorch has a thread for each card, which a forked process lacks

REFUSED_SHARE = 0.04  # of programs whose last call PyTorch refuses
PROGRAM_SECONDS = 60  # of processor time: the machine may do other work
SHRINK_SECONDS = 10


def made(seed: int, options: argparse.Namespace):
    from compare_torch.generate import Generator

    generator = Generator(seed, options.dtype)
    if generator.chance(REFUSED_SHARE):
        program = generator.make_refused(options.ops)
        if program is not None:
            return program
        generator = Generator(seed + (1 << 40), options.dtype)
    return generator.make(options.ops)


class TooLong(Exception):
    pass


def too_long(*_: Any) -> None:
    raise TooLong


def checked(seed: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """What differs in this program, or None."""
    from compare_torch import check
    from compare_torch.program import to_json

    program, found = check.checked(made(seed, options), options.device)
    if not found:
        return None
    deadline = time.monotonic() + SHRINK_SECONDS

    def fails(smaller) -> bool:
        if time.monotonic() > deadline:
            return False
        try:
            return any(d.kind == found[0].kind for d in check.differences_of(smaller, options.device))
        except Exception:  # a smaller program that nothing can compute
            return False

    small = check.shrunk(program, fails)
    found = check.differences_of(small, options.device) or found
    return {
        "seed": seed,
        "signature": check.signature(small, found),
        "program": to_json(small),
        "text": as_text(small),
        "found": [f"{d.kind} of {d.where}: {d.text}" for d in found],
    }


def as_text(program: Any) -> str:
    from compare_torch.show import script
    from compare_torch.torch_side import Run

    try:
        outcome = Run(program).outcome()
    except Exception:
        return script(program, [], [])
    return script(program, [y.shape for y in outcome.values], ["float" in name for name in outcome.dtypes])


def work(chunk: range, options: argparse.Namespace, results: Any) -> None:
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, too_long)
    parent = os.getppid()
    for seed in chunk:
        if os.getppid() != parent:  # it was ended
            return
        results.put(("begun", seed, None))
        signal.setitimer(signal.ITIMER_PROF, PROGRAM_SECONDS)
        try:
            results.put(("done", seed, checked(seed, options)))
        except TooLong:
            results.put(("done", seed, {"seed": seed, "signature": "takes too long", "text": "", "found": []}))
        except Exception:
            text = traceback.format_exc()
            results.put(("done", seed, {"seed": seed, "signature": "tool", "text": text, "found": []}))
        signal.setitimer(signal.ITIMER_PROF, 0)
    results.put(("end", chunk.stop, None))


class Worker:
    """A process that works on one chunk after the other; after a crash another one goes on with the next program."""

    def __init__(self, chunk: range, options: argparse.Namespace):
        self.chunk, self.options, self.at = chunk, options, chunk.start
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("fork")
        self.results = context.SimpleQueue()
        rest = range(self.at, self.chunk.stop)
        self.process = context.Process(target=work, args=(rest, self.options, self.results), daemon=True)
        self.process.start()

    def poll(self) -> tuple[int, list[dict[str, Any]], bool]:
        """Programs done since the last call, what differs in them, and whether the chunk is finished."""
        done, found = 0, []
        while not self.results.empty():
            kind, seed, report = self.results.get()
            if kind == "end":
                self.process.join()
                return done, found, True
            self.at = seed + (kind == "done")
            done += kind == "done"
            found += [report] if report else []
        if not self.process.is_alive() and self.results.empty():
            text = f"exit code {self.process.exitcode}; again: --program {self.at}"
            found.append({"seed": self.at, "signature": "crashed", "text": text, "found": []})
            self.at += 1
            if self.at >= self.chunk.stop:
                return done + 1, found, True
            self.start()
            return done + 1, found, False
        return done, found, False


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    chunks: queue.SimpleQueue[range] = queue.SimpleQueue()
    end = options.seed + options.programs
    for first in range(options.seed, end, options.chunk):
        chunks.put(range(first, min(first + options.chunk, end)))
    workers, reports, done, started = [], [], 0, time.monotonic()
    told = started
    while workers or not chunks.empty():
        while len(workers) < options.jobs and not chunks.empty():
            workers.append(Worker(chunks.get(), options))
        time.sleep(0.05)
        for worker in list(workers):
            count, found, ended = worker.poll()
            done += count
            reports += found
            for report in found:
                note(report, options)
            if ended:
                workers.remove(worker)
        if time.monotonic() - told > 30:
            told = time.monotonic()
            print(f"{done} programs, {len(reports)} that differ, {told - started:.0f} s", file=sys.stderr, flush=True)
    print(f"{done} programs in {time.monotonic() - started:.0f} s: {len(reports)} differ")
    return reports


def note(report: dict[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        with options.json.open("a") as file:
            file.write(json.dumps(report) + "\n")


def summary(reports: list[dict[str, Any]], shown: int) -> None:
    """Groups differences by cause, with one script for each group."""
    kinds = collections.defaultdict(list)
    for report in reports:
        kinds[report["signature"]].append(report)
    for name, group in sorted(kinds.items(), key=lambda item: -len(item[1])):
        smallest = min(group, key=lambda report: len(report["text"]))
        print(f"\n== {len(group)} x {name}; seeds {[report['seed'] for report in group[:5]]}")
        for line in smallest["found"][:3]:
            print(f"   {line}")
        if shown > 0:
            print(smallest["text"])
            shown -= 1


def load_everything() -> None:
    """Imports before processes are forked, PyTorch's own too: its first gradient and broadcast load many modules."""
    import torch

    from compare_torch import check, generate  # noqa: F401

    torch.set_num_threads(1)
    torch.broadcast_shapes((1,), (2,))
    x = torch.ones(2, requires_grad=True)
    (gradient,) = torch.autograd.grad((torch.softmax(x, 0) ** 3).sum(), x, create_graph=True)
    gradient.sum().backward()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", nargs="+", default=["float32", "float64", "float16", "bfloat16"])
    parser.add_argument("--ops", nargs="+", help="names of operations.py, instead of all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--chunk", type=int, default=250, help="programs of one process")
    parser.add_argument("--show", type=int, default=20, help="how many scripts are printed")
    parser.add_argument("--json", type=Path, help="a file to which reports are added, one a line")
    parser.add_argument("--program", type=int, metavar="SEED", help="this program alone, in this process")
    options = parser.parse_args()
    load_everything()

    if options.program is not None:
        report = checked(options.program, options)
        print("no difference" if report is None else "\n".join([report["text"], *report["found"]]))
        return 1 if report else 0
    reports = run(options)
    summary(reports, options.show)
    return 1 if reports else 0


if __name__ == "__main__":
    sys.exit(main())
