#!/usr/bin/env python3
"""Speed of two builds of Gabbro in turns: does a change keep prompts, generation and single ops as fast?

    compare_builds.py BEFORE AFTER [--formats q4_0,q8_0] [--shape SHAPE] [--rounds 5] [--threads 2]
                      [--device cpu] [--python PYTHON] [--ops] [--least 0.97] [--json FILE]

BEFORE and AFTER are build folders (build/release of two checkouts). Language models have random weights of --shape, so
that nothing is fetched. --ops also runs `python -m gabbro.bench` of both, which need their target gabbro_python.
Each round measures both, the first of the two changing from round to round. A ratio is AFTER's speed divided by
BEFORE's within a round; the tables show medians over the rounds. Exits 1 if a median is below --least.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

SMOLLM2 = "layers=30,embedding=576,heads=9,kv-heads=3,feed-forward=1536,vocabulary=49152,context=8192"


def output_of(command, **environment):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"compare_builds: error: {' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def model_speed(args, build, kind):
    document = output_of([build / "bin/gabbro", "bench", "llm", "--shape", args.shape, "--type", kind, "--threads",
                          args.threads, "--device", args.device, "--json"])
    return {f"{kind} {row['test']}": row["tokens_per_second"]["median"] for row in document["results"]}


def op_speed(args, build):
    document = output_of([args.python, "-m", "gabbro.bench", "--peer", "none", "--threads", args.threads, "--device",
                          args.device, "--json"], PYTHONPATH=str(build / "python"))
    return {f"{row['name']} {row['dtype']}": 1 / row["seconds"]["median"] for row in document["results"] if row["seconds"]}


def in_turns(args, measure):
    """For each test the ratios AFTER / BEFORE, one per round."""
    ratios = {}
    for number in range(args.rounds):
        builds = [args.before, args.after] if number % 2 == 0 else [args.after, args.before]
        speeds = {build: measure(build) for build in builds}
        for test, before in speeds[args.before].items():
            if test in speeds[args.after]:
                ratios.setdefault(test, []).append(speeds[args.after][test] / before)
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--formats", default="q4_0,q4_1,q4_k_m,q6_k,q8_0,f16")
    parser.add_argument("--shape", default=SMOLLM2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--ops", action="store_true", help="single ops too")
    parser.add_argument("--least", type=float, default=0.97)
    parser.add_argument("--json", type=pathlib.Path, help="keep all ratios here")
    args = parser.parse_args()
    args.before, args.after = args.before.resolve(), args.after.resolve()
    ratios = {}
    for kind in filter(None, args.formats.split(",")):
        ratios |= in_turns(args, lambda build, kind=kind: model_speed(args, build, kind))
    if args.ops:
        ratios |= in_turns(args, lambda build: op_speed(args, build))
    if args.json:
        args.json.write_text(json.dumps(ratios, indent=1) + "\n")
    print("| test | after / before | range |\n| --- | --- | --- |")
    slower = 0
    for test, values in ratios.items():
        median = statistics.median(values)
        slower += median < args.least
        print(f"| {test} | {'**' if median < args.least else ''}{median:.3f}{'**' if median < args.least else ''} | "
              f"{min(values):.2f} to {max(values):.2f} |")
    print(f"\n{len(ratios)} tests, {slower} below {args.least}")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
