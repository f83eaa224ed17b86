#!/usr/bin/env python3
"""Runs packs without a fault over seeds, numbers of threads and versions of transformers: none may be red.

    false_alarms.py GABBRO [--python NAME=PROGRAM[:FOLDER] ...] [--types TYPE,...] [--seeds 0,1] [--threads 1,2]
                    [--dtypes f32] [--packs DIR [--write]] [--jobs N] [--json FILE] [--seconds S] [-k EXPRESSION]

NAME is of an interpreter with other versions; FOLDER comes first on its PYTHONPATH. --packs keeps the packs, and uses
those that are there, so that GABBRO need not exist; --write ends after writing them. N runs at a time are shared by the
interpreters. --json FILE keeps the rows; runs that it has are not run again. After S seconds no run starts, and those
that run have half a minute more. A test that is red with a known fault of these versions is counted apart. Exit code 1
where a test is red without one.
"""
import argparse
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

TYPES = "bert,clip,deepseek_v3,falcon,gemma2,gpt2,llama,mamba,qwen3_moe,t5"
WITHOUT = "speed,memory,probe,detect,oom,compile"
FAILED = ("failed", "crashed", "timeout")
SOURCES = pathlib.Path(__file__).resolve().parents[2] / "python" / "gabbro" / "testgen"
GRACE = 30  # seconds that runs have after the end of the time; then they are cut off, without a row


def make_packs(options, folder, seed):
    """The folder with the packs of a seed."""
    out = pathlib.Path(folder).resolve() / f"seed{seed}"
    if not out.exists():
        words = ["--dtypes", options.dtypes, "--without", WITHOUT, "--lengths", "1,31", "--seed", str(seed)]
        subprocess.run([options.program, "testgen", *options.types.split(","), *words, "-o", out], check=True,
                       stdout=subprocess.DEVNULL)
    return out


def start(job, options, folder):
    """A fork that runs the job's pack with its number of threads: (process, file of its results)."""
    import runner

    out = os.path.join(folder, "-".join(map(str, job[:3])) + ".json")
    process = os.fork()
    if process == 0:
        code = 1
        try:
            runner.end_with_parent()
            os.environ["OMP_NUM_THREADS"] = str(job[1])
            runner.run_pack(pathlib.Path(job[3]), options, out)
            code = 0
        finally:
            os._exit(code)
    return process, out


def work():
    """The worker of an interpreter: jobs come from stdin, a line of JSON goes to stdout for each that has ended."""
    sys.path.insert(0, str(SOURCES))
    import runner
    import torch
    import transformers

    given = json.load(sys.stdin)
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))  # forks end with their parent
    signal.setitimer(signal.ITIMER_REAL, given["seconds"] + GRACE)
    options = argparse.Namespace(device="cpu", limit=120.0, k=given["k"], plugins=[])
    runner.warm_up()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    waiting, running, until = collections.deque(given["jobs"]), {}, time.monotonic() + given["seconds"]
    with tempfile.TemporaryDirectory() as folder:
        while running or (waiting and time.monotonic() < until):
            while waiting and len(running) < given["count"] and time.monotonic() < until:
                job = waiting.popleft()
                process, out = start(job, options, folder)
                running[process] = (job, out, time.monotonic())
            process, status = os.wait()
            if process in running:
                job, out, started = running.pop(process)
                results = runner.read_results(pathlib.Path(job[3]), out, status)
                print(json.dumps({"job": job[:3], "results": results, "versions": versions,
                                  "seconds": round(time.monotonic() - started, 1)}, default=str), flush=True)


def row_of(name, line):
    """The counts of one run."""
    seed, threads, kind = line["job"]
    red = [row for row in line["results"] if row["status"] in FAILED]
    known = [row["test"] for row in red if "\nknown: " in row["reason"]]
    alarms = [[row["test"], row["reason"]] for row in red if row["test"] not in known]
    passed = sum(row["status"] == "passed" for row in line["results"])
    return {"python": name, "seed": seed, "threads": threads, "type": kind, "passed": passed, "known": known,
            "alarms": alarms, "versions": line["versions"], "seconds": line["seconds"]}


class Runs:
    """The rows of all interpreters, kept in a file."""

    def __init__(self, options):
        self.options, self.lock = options, threading.Lock()
        there = options.json and options.json.exists()
        self.rows = json.loads(options.json.read_text()) if there else []

    def add(self, row):
        with self.lock:
            self.rows.append(row)
            print(f"{row['python']} seed {row['seed']} threads {row['threads']} {row['type']}: {row['passed']} passed, "
                  f"{len(row['known'])} known, {len(row['alarms'])} alarms, {row['seconds']} s", flush=True)
            for test, reason in row["alarms"]:
                print(f"    {test}: {reason.splitlines()[0] if reason else ''}", flush=True)
            if self.options.json:
                self.options.json.write_text(json.dumps(self.rows, indent=1))

    def run(self, name, place, jobs):
        """Runs the jobs that have no row with an interpreter; a worker that ends early is an alarm."""
        program, _, folder = place.partition(":")
        done = {(row["python"], row["seed"], row["threads"], row["type"]) for row in self.rows}
        jobs = [job for job in jobs if (name, *job[:3]) not in done]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        if os.access(self.options.program, os.X_OK):
            environment["GABBRO_PROGRAM"] = self.options.program  # of the check parity
        if folder:
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        worker = subprocess.Popen([program, "-B", __file__, "--worker"], env=environment, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        count = max(1, self.options.jobs // len(self.options.python))
        given = {"jobs": jobs, "count": count, "seconds": self.options.seconds, "k": self.options.k}
        with worker.stdin:
            worker.stdin.write(json.dumps(given))
        for line in worker.stdout:
            self.add(row_of(name, json.loads(line)))
        if worker.wait():
            reason = f"the worker ended with status {worker.returncode}"
            self.add({"python": name, "seed": "-", "threads": "-", "type": "-", "passed": 0, "known": [],
                      "alarms": [["worker", reason]], "versions": {}, "seconds": 0})


def conclude(rows, count):
    """Prints the sums of each interpreter, of `count` runs that were asked for; returns the exit code."""
    for name in dict.fromkeys(row["python"] for row in rows):
        mine = [row for row in rows if row["python"] == name]
        versions = ", ".join(f"{k} {v}" for k, v in mine[0]["versions"].items())
        print(f"{name} ({versions}): {len(mine)} runs, {sum(row['passed'] for row in mine)} tests passed, "
              f"{sum(len(row['known']) for row in mine)} known, {sum(len(row['alarms']) for row in mine)} alarms")
    alarms = sum(len(row["alarms"]) for row in rows)
    print(f"{len(rows)} of {count} runs, {sum(row['passed'] for row in rows)} tests passed, {alarms} alarms")
    return int(alarms > 0 or not rows)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--python", nargs="+", default=[f"own={sys.executable}"])
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--dtypes", default="f32")
    parser.add_argument("--packs")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("-k")
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    return options


def main():
    options = arguments()
    runs = Runs(options)
    with tempfile.TemporaryDirectory() as temporary:
        folders = {seed: make_packs(options, options.packs or temporary, seed) for seed in options.seeds.split(",")}
        if options.write:
            return 0
        jobs = [(seed, threads, kind, str(folders[seed] / kind)) for seed in folders
                for threads in options.threads.split(",") for kind in options.types.split(",")]
        pairs = [pair.split("=", 1) for pair in options.python]
        running = [threading.Thread(target=runs.run, args=(name, place, jobs)) for name, place in pairs]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    return conclude(runs.rows, len(jobs) * len(pairs))


if __name__ == "__main__":
    sys.exit(work() if sys.argv[1:] == ["--worker"] else main())
