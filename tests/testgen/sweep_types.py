#!/usr/bin/env python3
"""How far every model type gets on the CPU, offline: its small model is built, runs, and agrees with f64.

    sweep_types.py GABBRO|FOLDER [--task base|causal-lm] [--out FILE] [--jobs N] [--seconds S] [TYPE...]

FOLDER has a folder packs/ that generate() has written (make_card_archive.py does it), for a machine without Gabbro.
For the task base each type is one process that builds the model, runs it in f64 and in f32, and compares its outputs
and its blocks (lively weights). For causal-lm all checks of the pack run in f32, but for those that depend on the
machine: green is a type without a failed test. FILE has a line of JSON for each type, written when the type has
ended, and types that it has already are not run again. After S seconds no type starts, and those that run are ended
without a row. Printed are the counts, the reasons, and the CPU time.
"""
import argparse
import collections
import contextlib
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "python" / "gabbro" / "testgen"
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(SOURCES)]
import runner  # noqa: E402
import sweep_cards  # noqa: E402

WITHOUT = "probe,compile,memory,speed,detect,oom"
STAGES = ("config", "build", "forward", "end_to_end", "layers")
LIMIT = 120  # seconds of one type


def generate(program, task, names, folder, without=WITHOUT):
    """({type: pack}, types without one with the reason)"""
    folder.mkdir(exist_ok=True)
    (folder / "types").write_text("\n".join(names) + "\n")
    which = ["--from", folder / "types"] if names else ["--all"]
    words = [program, "testgen", *which, "--task", task, "--dtypes", "f32", "--lengths", "1,31",
             "--without", without, "-o", folder / "packs", "--json"]
    document = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return {row["type"]: pathlib.Path(row["folder"]) for row in document["types"]}, document["skipped"]


def packs_of(options, temporary):
    """The packs of a folder, or those that the program writes now."""
    there = pathlib.Path(options.program).resolve()
    if not there.is_dir():
        return generate(options.program, options.task, options.types, temporary)
    packs = sorted(path.parent for path in there.glob("packs/*/case.py"))
    return {pack.name: pack for pack in packs if not options.types or pack.name in options.types}, []


def climb(pack, say):
    """Says each stage that a pack's model reaches."""
    runner.enter(pack)
    import torch

    torch.set_num_threads(1)
    import locate
    import support
    from inputs import make_inputs

    support.load_config()
    say(stage="config")
    model = support.initial_model("tiny")
    say(stage="build", parameters=sum(p.numel() for p in model.parameters()))
    oracle = support.make_oracle()
    found = support.outputs(oracle, make_inputs(oracle))
    if not found:
        raise AssertionError("no floating-point output")
    broken = [name for name, value in found.items() if value.isnan().any()]
    say(stage="forward", nan=broken)
    test = locate.Test.parse("test_layers[cpu-f32-tiny-lively]")
    whole = locate.wrong_whole(test, "lively")
    if whole is not None:
        raise AssertionError(f"end to end: {whole[2]}")
    say(stage="end_to_end")
    wrong = next(locate.wrong_blocks(test, "lively"), None)
    if wrong is not None:
        raise AssertionError(f"block {wrong[0].block}: {wrong[2]}")
    say(stage="layers")


class Job:
    """A process that runs work(say) and keeps what it said."""

    def __init__(self, name, work, limit=LIMIT):
        self.name, self.limit, self.started = name, limit, time.monotonic()
        self.file = tempfile.NamedTemporaryFile("r")  # noqa: SIM115
        self.process = os.fork()
        if self.process == 0:
            self.run(work)

    def run(self, work):
        os.setsid()
        told, sink = {}, os.open("/dev/null", os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)

        def say(**facts):
            told.update(facts)
            pathlib.Path(self.file.name).write_text(json.dumps(told, default=str))

        try:
            work(say)
        except BaseException as error:  # the row has it
            words = str(error).strip().splitlines() or [""]
            say(reason=f"{type(error).__name__}: {' '.join(words[:3])}"[:400])
        finally:
            os._exit(0)

    def kill(self):
        for process in [*sweep_cards.descendants(self.process), self.process]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return os.wait4(self.process, 0)

    def row(self):
        """{"type", what work(say) said, "reason", "seconds" of CPU}; None while the process runs."""
        done, status, usage = os.wait4(self.process, os.WNOHANG)
        late = not done and time.monotonic() > self.started + self.limit
        if not done and not late:
            return None
        if late:
            _, status, usage = self.kill()
        text = self.file.read()
        row = {"type": self.name, **(json.loads(text) if text else {})}
        if status:
            row["reason"] = f"did not end in {self.limit} s" if late else f"ended by signal {status & 127}"
        return {**row, "seconds": round(usage.ru_utime + usage.ru_stime, 2)}


def run_jobs(works, count, until):
    """Yields the row of each (name, work) that has ended, at most `count` at a time."""
    waiting, running = list(reversed(works)), []
    while (waiting or running) and time.monotonic() < until:
        while waiting and len(running) < count:
            running.append(Job(*waiting.pop()))
        time.sleep(0.01)
        for job in list(running):
            row = job.row()
            if row is not None:
                running.remove(job)
                yield row
    for job in running:
        job.kill()


def causal(pack, say):
    """Says the outcome of all tests of a pack."""
    options = argparse.Namespace(device="cpu", limit=60.0, k=None, plugins=[])
    with tempfile.NamedTemporaryFile() as file:
        runner.run_pack(pack, options, file.name)
        results = json.loads(pathlib.Path(file.name).read_text())
    counts = collections.Counter(result["status"] for result in results)
    failures = [{k: result[k] for k in ("test", "status", "reason")} for result in results
                if result["status"] in ("failed", "crashed", "timeout")]
    green = counts["passed"] > 0 and not failures
    say(stage="green" if green else "red", **counts, failures=failures)
    if failures:
        raise AssertionError(f"{failures[0]['test']}: {failures[0]['reason'][:300]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", help="gabbro, or a folder of packs")
    parser.add_argument("types", nargs="*")
    parser.add_argument("--task", default="base", choices=["base", "causal-lm"])
    parser.add_argument("--out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_intermixed_args()
    until = time.monotonic() + options.seconds
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1")
    path = pathlib.Path(options.out) if options.out else None
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path and path.is_file() else []
    have, runner_of = {row["type"] for row in rows}, climb if options.task == "base" else causal
    with tempfile.TemporaryDirectory() as temporary:
        packs, without = packs_of(options, pathlib.Path(temporary))
        runner.warm_up()
        works = [(name, functools.partial(runner_of, pack)) for name, pack in packs.items() if name not in have]
        for row in run_jobs(works, options.jobs, until):
            rows.append(row)
            print(f"{row['type']}: {row.get('stage')}, {row['seconds']} s {row.get('reason', '')[:200]}", flush=True)
            if path:
                with open(path, "a") as file:
                    file.write(json.dumps(row) + "\n")
    missing = sorted(set(packs) - {row["type"] for row in rows})
    if missing:
        print(f"not run or cut off: {', '.join(missing)}")
    return conclude(rows, without, options.task)


def conclude(rows, without, task):
    seconds = sum(row["seconds"] for row in rows)
    print(f"\n{len(rows)} types with a pack, {len(without)} without, {seconds:.0f} s of CPU time")
    if task == "base":
        reached = {stage: sum(row.get("stage") in STAGES[STAGES.index(stage):] for row in rows) for stage in STAGES}
        print(reached)
        return int(reached["build"] < 510 or reached["forward"] < 460)
    green = sum(row.get("stage") == "green" for row in rows)
    print(f"{green} of {len(rows)} are green")
    return int(green < 170)


if __name__ == "__main__":
    sys.exit(main())
