#!/usr/bin/env python3
"""Runs many packs on one device against the oracle, with parallel workers, then plants faults in some of them.

    sweep_cards.py FOLDER [--device cuda:0] [--out DIR] [--work DIR] [--jobs N] [--seconds S] [--first N] [--types N]
                   [--parts types,faults,searches,quiet]

FOLDER has what make_card_archive.py writes: packs/, true/ (real widths), plan.json. A test that fails on the device
runs again on the CPU, one of those that fail alike first: where it fails there too the device is not at fault, else
it is an alarm. Phases that do not fit into the seconds are cut, and what did not run is listed; failures whose turn on
the CPU did not come have it before the others are planted. results.jsonl has a line for each test, summary.json and
summary.md what was found; all three are kept up to date, so that a killed run leaves its results.
--first and --types choose types of plan.json, so that several runs cover different ones; --parts what is done with
them. Checks that do not depend on the model run once, with the first type of the plan.
Exit code 1 where there is an alarm, or where fewer than 98 % of the faults that were planted were found.
"""
import argparse
import contextlib
import itertools
import json
import os
import pathlib
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python" / "gabbro" / "testgen")]
import sweep_report  # noqa: E402

# Speed needs a quiet machine; the probe and the table of head sizes are the same in all packs: they have other phases.
USUAL = "not probe and not head_sizes and not compile and not speed and not detect"
PARTS = ("types", "faults", "searches", "quiet")
STARTED = time.monotonic()
RUNNING = {}  # the jobs that run now, by process


class Job:
    """One process: its work, and the file to which it writes a line of JSON for each result."""

    def __init__(self, name, work, limit=120.0):
        self.name, self.work, self.limit = name, work, limit

    def start(self, folder):
        self.path, self.log = folder / f"{self.name}.jsonl", folder / f"{self.name}.log"
        self.started = time.monotonic()
        self.process = os.fork()
        if self.process:
            return
        code = 1
        try:
            os.setsid()
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            with open(self.path, "w", buffering=1) as file:
                self.work(lambda row: file.write(json.dumps(row, default=str) + "\n"))
            code = 0
        except BaseException:  # the parent reads the log
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def rows(self, ending):
        """The results, and one for the process where it did not end by itself."""
        lines = self.path.read_text().splitlines() if self.path.is_file() else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        if ending:
            words = self.log.read_text(errors="replace").splitlines()[-8:] if self.log.is_file() else []
            rows.append({"phase": "process", "job": self.name, "reason": "\n".join([ending, *words])})
        return rows


def descendants(process):
    """The processes that a process has started, also those that left its group."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found, waiting = [], [process]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def kill(job):
    for process in [*descendants(job.process), job.process]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def run_jobs(jobs, count, until, folder, grace=20.0):
    """Yields the rows of each job when it has ended, and a row for each that could not start before `until`."""
    waiting, running = list(reversed(jobs)), RUNNING
    while waiting or running:
        while waiting and len(running) < count and time.monotonic() < until:
            job = waiting.pop()
            job.start(folder)
            running[job.process] = job
        if time.monotonic() >= until:
            yield from ([{"phase": "not run", "job": job.name}] for job in reversed(waiting))
            waiting = []
        for job in list(running.values()):
            # A job that started before the end has the grace.
            if time.monotonic() > min(job.started + job.limit, until + grace):
                kill(job)
                job.killed = f"did not end in {time.monotonic() - job.started:.0f} s"
        if not running:  # all were late
            continue
        process, status = os.waitpid(-1, os.WNOHANG)
        if process == 0:
            time.sleep(0.02)
        elif process in running:
            job = running.pop(process)
            yield job.rows(getattr(job, "killed", "") or (status and f"ended with status {status}") or "")


def enter(pack, facts):
    """Makes the pack's modules importable; torch is asked for its devices once in the run, not once a pack."""
    import runner

    runner.enter(pack)
    import machine

    machine.detect = lambda: facts


def pytest_rows(pack, facts, device, words, emit, limit=60, **extra):
    """Runs pytest in a fork, which emits a row for each test as it ends; returns the rows that failed."""
    import runner

    class Emitter(runner.Collector):
        def pytest_runtest_logreport(self, report):
            before = len(self.results)
            super().pytest_runtest_logreport(report)
            for row in self.results[before:]:
                row = {**row, "file": report.nodeid.split("::")[0], **extra}
                emit(row)
                rows.write(json.dumps(row, default=str) + "\n")

    path = pathlib.Path(f"/tmp/sweep_{os.getpid()}.jsonl")
    process = os.fork()
    if process == 0:
        code = 1
        try:
            enter(pack, facts)
            import pytest

            with open(path, "w", buffering=1) as rows:
                options = ["-q", "-p", "no:cacheprovider", "--device", device, "--limit", str(limit), "--tb=short"]
                code = int(pytest.main([*words, *options], plugins=[Emitter(pack.name)]))
        finally:
            os._exit(code)
    _, status = os.waitpid(process, 0)
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    path.unlink(missing_ok=True)
    if not found and os.waitstatus_to_exitcode(status) != 5:
        found = [{"type": pack.name, "test": "pytest", "check": "pytest", "dtype": "", "status": "crashed", "file": "",
                  "reason": f"pytest ended with status {status}, and no test ran", **extra}]
        emit(found[0])
    return [row for row in found if row["status"] in ("failed", "crashed", "timeout")]


def sweep(pack, facts, device, expression, phase):
    """Job: the pack's tests on the device, and those that failed again on the CPU."""
    def work(emit):
        limit = 110 if phase == "compile" else 60
        failed = pytest_rows(pack, facts, device, [".", "-k", expression], emit, limit, phase=phase)
        if device != "cpu":
            control(pack, facts, device, failed, phase, emit)
    return work


def control(pack, facts, device, failed, phase, emit):
    """Runs failed tests on the CPU: one for each reason, then those whose reason that one did not have there."""
    def turn(chosen):
        chosen = [row for row in chosen if row["file"]]
        words = [f"{row['file']}::{row['test'].replace(device, 'cpu')}" for row in chosen]
        sizes = sorted({row["size"] for row in chosen} - {""})  # the CPU has no tests of a card's sizes by itself
        words += ["--size", ",".join(sizes)] if sizes else []
        rows = pytest_rows(pack, facts, "cpu", words, emit, phase="control", of=phase) if chosen else []
        return {sweep_report.first_line(row) for row in rows}

    first = {sweep_report.first_line(row): row for row in reversed(failed)}
    reasons = turn(list(first.values()))
    turn([row for row in failed if row not in first.values() and sweep_report.first_line(row) not in reasons])


def late_control(pack, facts, device, failed):
    """Job: the turn on the CPU of tests whose process was ended before it."""
    def work(emit):
        for phase in {row["phase"] for row in failed}:
            control(pack, facts, device, [row for row in failed if row["phase"] == phase], phase, emit)
    return work


def plant_faults(pack, facts, device, dtypes):
    """Job: each fault of measure_mutants.py in the pack's model on the device."""
    def work(emit):
        enter(pack, facts)
        import measure_mutants
        import torch

        torch.set_num_threads(1)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        for dtype in dtypes:
            for kind, name in measure_mutants.cases():
                if dtype != "f32" and name not in measure_mutants.GROSS:
                    continue
                row = {"phase": "fault", "type": pack.name, "dtype": dtype, "fault": name}
                try:
                    emit({**row, **measure_mutants.find(kind, name, dtype, device)})
                except Exception as error:  # a fault that the model refuses is reported as that
                    emit({**row, "failed": f"{type(error).__name__}: {error}"})
    return work


def bisect(pack, facts, test, out):
    """Job: block and operation behind an alarm."""
    def work(emit):
        enter(pack, facts)
        import locate

        emit({"phase": "bisect", "type": pack.name, **locate.in_child(test, out, 60.0)})
    return work


def plant_and_search(pack, facts, device, name, out):
    """Job: one fault of measure_bisect.py in the pack's model on the device, and what the search for it names."""
    def work(emit):
        enter(pack, facts)
        import measure_bisect

        kind = next(kind for kind, fault in measure_bisect.CASES if fault == name)
        folder = out / f"{pack.name}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        emit({"phase": "search", "type": pack.name, "fault": name,
              **measure_bisect.outcome(kind, name, folder, device)})
    return work


def started_cuda():
    """Whether this process has touched the device: then no fork of it could use it."""
    import torch

    return torch.cuda.is_initialized() or bool(getattr(torch.cuda, "_is_in_bad_fork", bool)())


class Sweep:
    """The phases, in sequence, within the seconds."""

    def __init__(self, options, facts):
        self.options, self.facts, self.rows = options, facts, []
        self.folder, self.out = pathlib.Path(options.folder).resolve(), pathlib.Path(options.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.work = pathlib.Path(options.work).resolve()
        self.parts = self.work / "parts"
        self.parts.mkdir(parents=True, exist_ok=True)
        self.plan = json.loads((self.folder / "plan.json").read_text())
        self.file = open(self.out / "results.jsonl", "w", buffering=1)  # noqa: SIM115
        self.written, self.parts_asked = 0.0, options.parts.split(",")

    def share(self, part):
        """The moment when `part` of the seconds is over."""
        return STARTED + part * self.options.seconds

    def keep(self, rows):
        self.rows += rows
        for row in rows:
            self.file.write(json.dumps(row, default=str) + "\n")

    def run(self, title, jobs, until, count=None):
        began, grace = time.monotonic(), min(20.0, 0.03 * self.options.seconds)
        for rows in run_jobs(jobs, count or self.options.jobs, until, self.parts, grace):
            self.keep(rows)
            for line in sweep_report.lines_of(rows):
                print(f"{time.monotonic() - STARTED:.0f} s: {line}", flush=True)
            if time.monotonic() > self.written + 10:
                self.write()
        self.write()
        print(f"{title}: {len(jobs)} jobs, {time.monotonic() - began:.0f} s; at {time.monotonic() - STARTED:.0f} s",
              flush=True)

    def write(self):
        self.written = time.monotonic()
        return sweep_report.write(self.rows, self.facts, self.out, self.written - STARTED, "faults" in self.parts_asked)

    def cut_off(self):
        """What was found until now is written; no process is left."""
        for job in list(RUNNING.values()):
            self.keep(job.rows("cut off with the whole run"))
        self.write()
        for process in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        os._exit(4)

    def job(self, name, kind, expression, phase, limit=120.0):
        pack = self.folder / kind / name
        return Job(f"{phase}-{name}", sweep(pack, self.facts, self.options.device, expression, phase), limit)

    def alarms(self):
        return [row for row in sweep_report.alarms(self.rows) if row["check"] in ("layers", "end_to_end", "attention")]

    def late_controls(self):
        """Jobs for the failures that were not compared with the CPU."""
        of_type = {}
        for row in sweep_report.not_compared(self.rows):
            of_type.setdefault(row["type"], []).append(row)
        packs, device = self.folder / "packs", self.options.device
        return [Job(f"control-{name}", late_control(packs / name, self.facts, device, failed))
                for name, failed in of_type.items()]

    def chosen(self):
        """The types of this run."""
        named = self.plan["types"][self.options.first :][: self.options.types]
        return [name for name in named if (self.folder / "packs" / name).is_dir()]

    def phases(self):
        plan, some = self.plan, self.chosen()
        probes = [self.job(name, "packs", "probe or head_sizes", "probe") for name in plan["probe"] if name in some]
        of_faults = [name for name in plan["faults"] if name in some] if "faults" in self.parts_asked else []
        faults = [self.planting("fault", name, ["f32"]) for name in of_faults]
        types = [self.job(name, "packs", USUAL, "sweep", 240.0) for name in some if "types" in self.parts_asked]
        more = len(self.parts_asked) > 1
        self.run("types, faults in f32", [*probes, *types[:12], *faults, *types[12:]], self.share(0.7 if more else 0.9))
        self.run("on the CPU", self.late_controls(), self.share(0.75 if more else 0.95))
        mixed = self.mixed(some, of_faults)
        if mixed:
            self.run("searches, f16 and bf16, compile, real widths", mixed, self.share(0.93))
        if self.options.device != "cpu" and "quiet" in self.parts_asked:
            quiet = [self.job(name, "packs", "speed or memory", "quiet") for name in plan["quiet"] if name in some]
            self.run("speed and memory", quiet, self.share(0.96), count=1)
            self.run("on the CPU", self.late_controls(), self.share(0.98))
        return self.write()

    def planting(self, title, name, dtypes):
        pack = self.folder / "packs" / name
        return Job(f"{title}-{name}", plant_faults(pack, self.facts, self.options.device, dtypes))

    def mixed(self, some, of_faults):
        """Jobs of several kinds in turn, so that a cut leaves some of each."""
        device, plan, there = self.options.device, self.plan, self.folder / "packs"
        narrow = [self.planting("half", name, ["bf16", "f16"]) for name in of_faults]
        if "searches" not in self.parts_asked:
            return narrow
        true = [self.job(name, "true", "layers or end_to_end or attention", "true") for name in plan["true"]
                if (self.folder / "true" / name).is_dir() and self.options.types > 100]
        planted = [Job(f"search-{name}-{fault}", plant_and_search(there / name, self.facts, device, fault,
                                                                  self.work / "planted"), 70.0)
                   for name, faults_of_type in plan["searches"].items() if name in some for fault in faults_of_type]
        compiled = [self.job(name, "packs", "compile", "compile") for name in plan["compile"] if name in some]
        wrong = {(row["type"], row["dtype"]): row for row in self.alarms()}.values()
        searches = [Job(f"bisect-{row['type']}-{row['dtype']}",
                        bisect(there / row["type"], self.facts, row["test"], self.work / "bisect"), 70.0)
                    for row in list(wrong)[:12] if (there / row["type"]).is_dir()]
        in_turn = itertools.zip_longest(searches, planted, narrow, compiled, true)
        return [job for jobs in in_turn for job in jobs if job]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", default="sweep")
    parser.add_argument("--work", default="work", help="folder for reproducers and for the parts of the results")
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1))
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first type, from 0")
    parser.add_argument("--types", type=int, default=1000, help="the number of types")
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args()
    if not set(options.parts.split(",")) <= set(PARTS):
        parser.error(f"--parts: {options.parts}: only {', '.join(PARTS)}")
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1",
                      OMP_NUM_THREADS="1", PYTORCH_NVML_BASED_CUDA_CHECK="1", PYTHONDONTWRITEBYTECODE="1")
    import runner

    facts = runner.machine_facts() if options.device != "cpu" else {"verdict": "cpu", "reason": "", "cards": []}
    if options.device != "cpu" and facts["verdict"] == "cpu":
        print(f"no GPU that torch can use: {facts['reason']}")
        return 3
    runner.warm_up()
    import faults  # noqa: F401  the forks need not import it

    if started_cuda():
        print("importing transformers has touched the device: forks could not use it")
        return 3
    print(f"ready at {time.monotonic() - STARTED:.0f} s: {options.jobs} jobs, {options.seconds:.0f} s", flush=True)
    sweep_of_all = Sweep(options, facts)
    signal.signal(signal.SIGTERM, lambda *_: sweep_of_all.cut_off())
    summary = sweep_of_all.phases()
    print((pathlib.Path(options.out) / "summary.md").read_text()[:4000])
    return int(not summary["good"])


if __name__ == "__main__":
    sys.exit(main())
