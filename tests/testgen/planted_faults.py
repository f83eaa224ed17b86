#!/usr/bin/env python3
"""Runs packs against planted faults, and prints for each fault whether the default run is red, with the first message.

    planted_faults.py --program GABBRO [--cases DIR] [--only NAME,...] [--types TYPE,...] [--json FILE] [--jobs N]

A fault is a file `fault_NAME.py` of DIR, which plants itself when it is imported, or a function of planted.py. Each runs
in a fork of this process, before the pack's tests do. A fault names its packs in TYPES, else it runs with `--types`.
Without a fault every pack has to be green. Exit code 1 where one is red, or where a fault is not found.
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
import planted  # noqa: E402
import runner  # noqa: E402

FAILED = ("failed", "crashed", "timeout")
WITHOUT = "speed,memory,probe,detect,oom,compile"
SLOWEST = 90  # seconds of the default run of a pack on two cores


class Fault:
    """A file of --cases, or a function of planted.py. `types`: the packs that have to be red."""

    def __init__(self, name, types, plant):
        self.name, self.types, self.plant = name, types, plant


def faults_of(folder, types):
    faults = [Fault(name, row.types, row.plant) for name, row in planted.FAULTS.items()]
    for path in sorted(pathlib.Path(folder).glob("fault_*.py")) if folder else []:
        line = next((x for x in path.read_text().splitlines() if x.startswith("TYPES")), "")
        named = tuple(word for word in line.replace('"', "'").split("'")[1::2])
        faults.append(Fault(path.stem, named or planted.TYPES_OF_CASES.get(path.stem, types), importer(path)))
    return faults


def importer(path):
    def plant():
        sys.path.insert(0, str(path.parent))
        __import__(path.stem)
    return plant


def make_pack(program, kind, folder, dtypes):
    out = pathlib.Path(folder) / kind
    if not out.exists():
        subprocess.run([program, "testgen", kind, "-o", out, "--dtypes", dtypes, "--without", WITHOUT, "--seed", "0"],
                       check=True, stdout=subprocess.DEVNULL)
    return out


def run(pack, plant, out, k):
    """In a fork: plants the fault and runs the pack; returns the process."""
    process = os.fork()
    if process == 0:
        try:
            plant()
            options = argparse.Namespace(device="cpu", limit=120.0, k=k, plugins=[])
            with contextlib.suppress(SystemExit):
                runner.run_pack(pack, options, str(out))
        finally:
            os._exit(0)
    return process


def verdict(out):
    """(tests that failed, all tests)"""
    rows = json.loads(out.read_text()) if out.exists() else [{"status": "crashed", "test": "pytest", "reason": "no results"}]
    return [row for row in rows if row["status"] in FAILED], rows


def jobs_of(options):
    kinds = options.types.split(",")
    chosen = [f for f in faults_of(options.cases, tuple(kinds)) if not options.only or f.name in options.only.split(",")]
    needed = sorted({kind for fault in chosen for kind in fault.types})
    if not options.only or "none" in options.only.split(","):
        yield from ((Fault("none", (), lambda: None), kind) for kind in sorted({*needed, *kinds}))
    for fault in chosen:
        yield from ((fault, kind) for kind in fault.types)


def run_all(options, folder):
    """Yields a row for each fault and pack when it is done."""
    waiting, running = list(jobs_of(options)), {}
    number = 0
    while waiting or running:
        while waiting and len(running) < options.jobs:
            fault, kind = waiting.pop(0)
            pack = make_pack(options.program, kind, options.packs or folder, options.dtypes)
            number += 1
            out = pathlib.Path(folder) / f"{number}.json"
            running[run(pack.resolve(), fault.plant, out, options.k)] = (fault, kind, out, time.monotonic())
        process, _ = os.wait()
        fault, kind, out, started = running.pop(process)
        red, rows = verdict(out)
        yield {"fault": fault.name, "pack": kind, "red": [row["test"] for row in red], "tests": len(rows),
               "message": (red[0]["reason"] if red else ""), "seconds": round(time.monotonic() - started, 1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--cases")
    parser.add_argument("--only", default="")
    parser.add_argument("--types", default="llama")
    parser.add_argument("--dtypes", default="f32")
    parser.add_argument("--packs", help="keep the packs in this folder, and use those that are there")
    parser.add_argument("--json")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-k", help="pytest's expression")
    options = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    runner.warm_up()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for row in run_all(options, folder):
            rows.append(row)
            state = f"red, {len(row['red'])} of {row['tests']}" if row["red"] else f"green, {row['tests']} tests"
            print(f"{row['fault']} {row['pack']}: {state}, {row['seconds']} s", flush=True)
            if row["red"]:
                print(f"    {row['red'][0]}: {row['message'].splitlines()[0] if row['message'] else ''}", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    planted_rows = [row for row in rows if row["fault"] != "none"]
    alarms = [row["pack"] for row in rows if row["fault"] == "none" and row["red"]]
    missed = [f"{row['fault']} ({row['pack']})" for row in planted_rows if not row["red"]]
    slow = [f"{row['pack']} {row['seconds']} s" for row in rows if row["fault"] == "none" and row["seconds"] > SLOWEST]
    print(f"{len(planted_rows) - len(missed)} of {len(planted_rows)} found")
    for title, names in (("not found", missed), ("red without a fault", alarms), ("too slow", slow)):
        if names:
            print(f"{title}: {', '.join(names)}")
    return int(bool(missed or alarms))


if __name__ == "__main__":
    sys.exit(main())
