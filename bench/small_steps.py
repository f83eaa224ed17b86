#!/usr/bin/env python3
"""Cost of small steps of Python programs in two builds: training, inference, chains of ops, loops.

    small_steps.py BEFORE AFTER [--cases adamw,sgd] [--steps 50] [--time] [--rounds 9] [--least 0.97]

BEFORE and AFTER are build folders (build/release of two checkouts) with the target gabbro_python. Valgrind counts the
instructions, which a busy machine does not change: two runs of a case differ by --steps steps, so that their difference
has neither imports nor first steps. --time measures processor time instead, both builds in turns, on one processor.
A ratio is AFTER's speed divided by BEFORE's. Exits 1 if one is below --least.
"""

import argparse
import gc
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

WARM_UP = 20


def perceptron(gb):
    gb.seed(0)
    return gb.nn.Sequential(gb.nn.Linear(16, 32), gb.nn.ReLU(), gb.nn.Linear(32, 4))


def training(gb, name, **options):
    model = perceptron(gb)
    optimizer = getattr(gb.optim, name)(model.parameters(), lr=1e-3, **options)
    x, y = gb.randn(32, 16).eval(), gb.randn(32, 4).eval()

    def step():
        optimizer.zero_grad()
        gb.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    return step


def inference(gb, is_compiled=False):
    model = perceptron(gb).eval()
    x = gb.randn(32, 16).eval()
    function = gb.compile(lambda value: model(value)) if is_compiled else model

    def step():
        with gb.no_grad():
            function(x).eval()

    return step


def chain(gb, dtype):
    a = gb.ones(64, dtype=dtype).eval()

    def step():
        b = a * 0.5 + 1.0
        c = gb.exp(b) - a
        gb.tanh(c * c + b).eval()

    return step


def in_place(gb):
    x = gb.zeros(8).eval()

    def step():
        nonlocal x
        x += 1
        x.eval()

    return step


def held(gb):
    """Both intermediates have a variable, so that they are computed and stored, too."""
    a = gb.ones(8).eval()

    def step():
        x = a * 2
        y = x + 1
        (y * x).eval()

    return step


CASES = {
    "adamw": lambda gb: training(gb, "AdamW"),
    "adam": lambda gb: training(gb, "Adam"),
    "sgd": lambda gb: training(gb, "SGD"),
    "momentum": lambda gb: training(gb, "SGD", momentum=0.9),
    "inference": inference,
    "compiled": lambda gb: inference(gb, is_compiled=True),
    "chain f32": lambda gb: chain(gb, gb.float32),
    "chain f16": lambda gb: chain(gb, gb.float16),
    "chain bf16": lambda gb: chain(gb, gb.bfloat16),
    "in place": in_place,
    "held": held,
}


def seconds_of(step, steps):
    before = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - before) / steps


def work(case, steps, is_timed):
    """What a separate process does: prints the seconds of a step, the best of seven, or only makes the steps."""
    import gabbro as gb

    gc.disable()
    step = CASES[case](gb)
    if not is_timed:
        return seconds_of(step, steps)
    seconds_of(step, 300)
    print(min(seconds_of(step, steps) for _ in range(7)))


def run(build, tool, case, steps, kind):
    command = ["taskset", "-c", "0", *tool, sys.executable, __file__, "--work", case, str(steps), kind]
    environment = {"PYTHONPATH": str(build / "python"), "GABBRO_DEVICE": "cpu", "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"small_steps: error: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done


def instructions(build, case, steps):
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    counts = []
    for number in (WARM_UP, WARM_UP + steps):
        counts.append(int(re.search(r"Collected : (\d+)", run(build, tool, case, number, "count").stderr)[1]))
    return (counts[1] - counts[0]) / steps


def microseconds(builds, case, rounds):
    """The medians over the rounds."""
    measured = {build: [] for build in builds}
    for number in range(rounds):
        for build in builds if number % 2 == 0 else reversed(builds):
            measured[build].append(1e6 * float(run(build, [], case, 1000, "time").stdout))
    return [statistics.median(measured[build]) for build in builds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--time", action="store_true", help="processor time instead of instructions")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--least", type=float, default=0.97)
    args = parser.parse_args()
    builds = [args.before.resolve(), args.after.resolve()]
    unit = "µs" if args.time else "instructions"
    print(f"| case | before, {unit} | after, {unit} | after / before |\n| --- | --- | --- | --- |")
    slower = 0
    for case in args.cases.split(","):
        if args.time:
            before, after = microseconds(builds, case, args.rounds)
        else:
            before, after = (instructions(build, case, args.steps) for build in builds)
        slower += before / after < args.least
        print(f"| {case} | {before:,.1f} | {after:,.1f} | {before / after:.3f} |", flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "time")
    else:
        sys.exit(main())
