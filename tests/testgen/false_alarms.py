#!/usr/bin/env python3
"""Runs packs without a fault over seeds, numbers of threads and versions of transformers: none may be red.

    false_alarms.py GABBRO [--python NAME=PROGRAM ...] [--types TYPE,...] [--seeds 0,1] [--threads 1,2] [--dtypes f32]
                    [--json FILE] [--seconds S] [-k EXPRESSION]

NAME is of an interpreter with other versions. --json FILE keeps the rows; runs that it has are not run again. A test
that is red with a known fault of these versions is counted apart. Exit code 1 where a test is red without one.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

TYPES = "bert,clip,deepseek_v3,falcon,gemma2,gpt2,llama,mamba,qwen3_moe,t5"
WITHOUT = "speed,memory,probe,detect,oom,compile"
FAILED = ("failed", "crashed", "timeout")
RUNNER = pathlib.Path(__file__).resolve().parents[2] / "python" / "gabbro" / "testgen" / "runner.py"


def make_packs(options, folder, seed):
    """The folder with the packs of a seed."""
    out = pathlib.Path(folder) / f"seed{seed}"
    if not out.exists():
        words = ["--dtypes", options.dtypes, "--without", WITHOUT, "--lengths", "1,31", "--seed", str(seed)]
        subprocess.run([options.program, "testgen", *options.types.split(","), *words, "-o", out], check=True,
                       stdout=subprocess.DEVNULL)
    return out


def run(options, pack, program, threads):
    """The results of a pack with an interpreter."""
    words = [program, "-B", RUNNER, pack, "--device", "cpu", "--json", *(["-k", options.k] if options.k else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "GABBRO_PROGRAM": options.program}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode not in (0, 1):
        return [{"test": "pytest", "status": "failed", "reason": done.stderr.strip()[-400:]}], {}
    document = json.loads(done.stdout)
    return document["results"], document["versions"]


def row_of(options, folder, name, program, seed, threads, kind):
    started = time.monotonic()
    results, versions = run(options, make_packs(options, folder, seed) / kind, program, threads)
    red = [row for row in results if row["status"] in FAILED]
    known = [row["test"] for row in red if "\nknown: " in row["reason"]]
    alarms = [[row["test"], row["reason"]] for row in red if row["test"] not in known]
    passed = sum(row["status"] == "passed" for row in results)
    return {"python": name, "seed": seed, "threads": threads, "type": kind, "passed": passed, "known": known,
            "alarms": alarms, "versions": versions, "seconds": round(time.monotonic() - started, 1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--python", nargs="+", default=[f"own={sys.executable}"])
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--dtypes", default="f32")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("-k")
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    rows = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    done = {(row["python"], row["seed"], row["threads"], row["type"]) for row in rows}
    started = time.monotonic()
    jobs = [(name, program, seed, threads, kind) for seed in options.seeds.split(",")
            for threads in options.threads.split(",") for kind in options.types.split(",")
            for name, program in (pair.split("=", 1) for pair in options.python)]
    with tempfile.TemporaryDirectory() as folder:
        for name, program, seed, threads, kind in jobs:
            if (name, seed, threads, kind) in done or time.monotonic() - started > options.seconds:
                continue
            row = row_of(options, folder, name, program, seed, threads, kind)
            rows.append(row)
            print(f"{name} seed {seed} threads {threads} {kind}: {row['passed']} passed, {len(row['known'])} known, "
                  f"{len(row['alarms'])} alarms, {row['seconds']} s", flush=True)
            for test, reason in row["alarms"]:
                print(f"    {test}: {reason.splitlines()[0] if reason else ''}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
    alarms = sum(len(row["alarms"]) for row in rows)
    tests = sum(row["passed"] for row in rows)
    print(f"{len(rows)} runs, {tests} tests passed, {sum(len(row['known']) for row in rows)} known, {alarms} alarms")
    return int(alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
