#!/usr/bin/env python3
"""Runs packs against planted faults, and prints for each fault whether the default run is red, with the first message.

    planted_faults.py --program GABBRO [--cases DIR] [--only NAME,...] [--types TYPE,...] [--json FILE] [--first]
                      [--aimed] [--table FILE] [--packs DIR [--write]] [--device cuda:0 [--faults-alone]]

A fault is a file `fault_NAME.py` of DIR, which plants itself when it is imported, or a function of faults/*.py. Each
runs in a fork of this process, before the pack's tests do. A fault names its packs in TYPES, else it has `--types`.
Without a fault every pack has to be green. Exit code 1 if one is red, or if a fault is not found. --json FILE keeps the
rows; faults that have one there do not run again. --aimed runs the tests that are to find a fault, and the whole pack
only where they are green: they are part of it, so that what they find the pack finds. --table FILE writes the list of
the faults. --device runs them on a card, where a device's fault leaves the CPU right: at least 99 % of these have to be
found. --faults-alone runs no pack without a fault. --packs DIR keeps the packs; --write ends after writing them.
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "gabbro" / "testgen"))
import planted
import runner

FAILED = ("failed", "crashed", "timeout")
WITHOUT = "speed,memory,probe,detect,oom,compile"
SLOWEST = 90  # seconds of the default run of a pack on two cores
SHARE = 0.99  # of a card's faults that have to be found


class Fault:
    """A file of --cases, or a function of faults/.

    `types`: the packs that have to be red, `block`: what one of the messages names.
    """

    def __init__(self, name, types, plant, dtypes="", block="", check="", report="", of_device=False):
        self.name, self.types, self.plant, self.dtypes, self.block = name, types, plant, dtypes, block
        self.check, self.report, self.of_device = check, report, of_device


def faults_of(folder, types):
    faults = [Fault(name, row.types, row.plant, row.dtypes, row.block, row.check, row.report,
                    planted.is_of_device(row.plant))
              for name, row in planted.load().items()]
    for path in sorted(pathlib.Path(folder).glob("fault_*.py")) if folder else []:
        line = next((x for x in path.read_text().splitlines() if x.startswith("TYPES")), "")
        named = tuple(word for word in line.replace('"', "'").split("'")[1::2])
        kinds = named or planted.TYPES_OF_CASES.get(path.stem, types)
        faults.append(Fault(path.stem, kinds, importer(path), check=planted.CHECKS_OF_CASES.get(path.stem, ""),
                            report="issue 55", of_device="float64" in path.read_text()))
    return faults


def importer(path):
    def plant():
        sys.path.insert(0, str(path.parent))
        __import__(path.stem)
    return plant


def make_pack(program, kind, folder, dtypes):
    out = pathlib.Path(folder) / f"{kind}-{dtypes.replace(',', '-')}"
    if not out.exists():
        subprocess.run([program, "testgen", kind, "-o", out, "--dtypes", dtypes, "--without", WITHOUT, "--seed", "0"],
                       check=True, stdout=subprocess.DEVNULL)
    return out


class StopAtFirst:
    """A plugin of pytest that ends the run with the first failure."""

    session = None

    def pytest_sessionstart(self, session):
        self.session = session

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.session.shouldfail = "the fault is found"


def run(pack, plant, out, k, plugins, options):
    """In a fork: plants the fault and runs the pack; returns the process."""
    process = os.fork()
    if process == 0:
        try:
            plant()
            facts = options.facts
            if facts:  # torch is asked for its devices once in the run
                runner.enter(pack)
                __import__("machine").detect = lambda: facts
            options = argparse.Namespace(device=options.device, limit=120.0, k=k, plugins=plugins)
            with contextlib.suppress(SystemExit):
                runner.run_pack(pack, options, str(out))
        finally:
            os._exit(0)
    return process


def verdict(out):
    """(tests that failed, all tests, why the pack did not run: empty where it did).

    A pack whose tests cannot be collected has found nothing: only a test says that numbers are wrong.
    """
    nothing = [{"status": "crashed", "test": "pytest", "reason": "no results"}]
    rows = json.loads(out.read_text()) if out.exists() else nothing
    failed = [row for row in rows if row["status"] in FAILED]
    broken = [row for row in failed if not row["test"].startswith("test_") or row["test"].endswith(".py")]
    return [row for row in failed if row not in broken], rows, broken[0]["reason"] if broken else ""


def jobs_of(options):
    kinds = options.types.split(",")
    only = options.only.split(",") if options.only else []
    chosen = [f for f in faults_of(options.cases, tuple(kinds)) if not only or f.name in only]
    needed = sorted({kind for fault in chosen for kind in fault.types})
    if not options.faults_alone and (not only or "none" in only):
        yield from ((Fault("none", (), lambda: None), kind) for kind in sorted({*needed, *kinds}))
    for fault in chosen:
        yield from ((fault, kind) for kind in fault.types)


def message_of(red, block):
    """The first failure whose message names the block, else the first."""
    named = [row for row in red if block and block in row["reason"]]
    return next(iter(named or red), {"reason": "", "test": ""})


def run_all(options, folder):
    """Yields a row for each fault and pack when it is done."""
    waiting = [(*job, options.aimed and job[0].check) for job in jobs_of(options)
               if (job[0].name, job[1]) not in options.done]
    running = {}
    number = 0
    while waiting or running:
        while waiting and len(running) < options.jobs:
            fault, kind, aim = waiting.pop(0)
            pack = make_pack(options.program, kind, options.packs or folder, fault.dtypes or options.dtypes)
            number += 1
            out = pathlib.Path(folder) / f"{number}.json"
            plugins = [StopAtFirst()] if options.first and fault.name != "none" else []
            process = run(pack.resolve(), fault.plant, out, aim or options.k, plugins, options)
            running[process] = (fault, kind, aim, out, time.monotonic())
        process, _ = os.wait()
        fault, kind, aim, out, started = running.pop(process)
        red, rows, broken = verdict(out)
        if aim and not red and not broken:
            waiting.insert(0, (fault, kind, ""))
            continue
        message = message_of(red, fault.block)
        yield {"fault": fault.name, "pack": kind, "red": [row["test"] for row in red], "tests": len(rows),
               "block": fault.block, "message": message["reason"], "test": message["test"], "aimed": bool(aim),
               "report": fault.report, "of_device": fault.of_device, "broken": broken,
               "named": not fault.block or fault.block in message["reason"],
               "seconds": round(time.monotonic() - started, 1)}


def summarize(rows, on_card):
    """Prints what is not as it has to be; returns the exit code."""
    faults = [row for row in rows if row["fault"] != "none"]
    plain = [row for row in rows if row["fault"] == "none"]
    names = {"not found": [f"{row['fault']} ({row['pack']})" for row in faults if not row["red"]],
             "found, another block named": [row["fault"] for row in faults if row["red"] and not row["named"]],
             "did not run": [f"{row['fault']} ({row['pack']}): {row['broken']}" for row in rows if row.get("broken")],
             "red without a fault": [row["pack"] for row in plain if row["red"] or row.get("broken")],
             "too slow": [f"{row['pack']} {row['seconds']} s" for row in plain if row["seconds"] > SLOWEST]}
    print(f"{len(faults) - len(names['not found'])} of {len(faults)} found")
    for title, those in names.items():
        if those:
            print(f"{title}: {', '.join(those)}")
    of_device = [row for row in faults if row.get("of_device")]
    missed = sum(not row["red"] for row in of_device)
    print(f"{len(of_device) - missed} of {len(of_device)} faults of the device found")
    if on_card:
        return int(missed > (1 - SHARE) * len(of_device) or bool(names["red without a fault"] or names["did not run"]))
    return int(bool(names["not found"] or names["red without a fault"] or names["did not run"]))


def table_of(rows):
    """The list of the faults, columns separated by tabs."""
    lines = [("fault", "pack", "report", "found by", "block named")]
    for row in rows:
        if row["fault"] != "none":
            named = "" if not row["block"] else row["block"] if row["named"] else "another"
            report = row["report"].removeprefix("github.com/") or "own"
            lines.append((row["fault"], row["pack"], report, row["test"] if row["red"] else "not found", named))
    return "\n".join("\t".join(line) for line in lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--cases")
    parser.add_argument("--only", default="")
    parser.add_argument("--types", default="llama")
    parser.add_argument("--dtypes", default="f32")
    parser.add_argument("--packs", help="keep the packs in this folder, and use those that are there")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--faults-alone", action="store_true", help="run no pack without a fault")
    parser.add_argument("-k", help="pytest's expression")
    parser.add_argument("--first", action="store_true", help="a fault's run ends with the first failure")
    parser.add_argument("--aimed", action="store_true", help="first the tests that are to find a fault")
    parser.add_argument("--table", type=pathlib.Path, help="write the list of the faults, separated by tabs")
    options = parser.parse_args()
    if options.write:
        for fault, kind in jobs_of(options):
            make_pack(options.program, kind, options.packs, fault.dtypes or options.dtypes)
        return 0
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    os.environ["PLANTED_DEVICE"] = options.device
    if options.device == "cpu":
        os.environ.update(CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    options.facts = runner.machine_facts() if options.device != "cpu" else {}
    runner.warm_up()
    kept = pathlib.Path(options.json) if options.json else None
    rows = json.loads(kept.read_text()) if kept and kept.exists() else []
    options.done = {(row["fault"], row["pack"]) for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        for row in run_all(options, folder):
            rows.append(row)
            state = f"red, {len(row['red'])} of {row['tests']}" if row["red"] else f"green, {row['tests']} tests"
            print(f"{row['fault']} {row['pack']}: {state}, {row['seconds']} s", flush=True)
            if row["red"]:
                print(f"    {row['test']}: {row['message'].splitlines()[0] if row['message'] else ''}", flush=True)
            if kept:
                kept.write_text(json.dumps(rows, indent=1))
            if options.table:
                options.table.write_text(table_of(rows))
    return summarize(rows, options.device != "cpu")


if __name__ == "__main__":
    sys.exit(main())
