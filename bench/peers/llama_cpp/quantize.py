#!/usr/bin/env python3
"""`gabbro convert` and llama.cpp's llama-quantize in turns, on SmolLM2 in F16; prints a Markdown table.

    quantize.py [--types q8_0,q4_0,q4_k_m,q6_k,iq4_xs,iq3_s] [--rounds 3] [--threads 2] [--gabbro PROGRAM]
                [--llama-bin DIR] [--models DIR] [--folder DIR]

Each type without and with an importance matrix (gabbro imatrix of tests/data/english.txt). Seconds of processor time
and of wall time of the whole process, medians over the rounds; ratios above 1: gabbro is faster. `disk` is the wall time
of writing as many bytes with one sync, as gabbro does; llama-quantize does not sync. --folder is where files are written.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import llama_tools
from llama_tools import life_of


def disk_seconds(path, size):
    block = os.urandom(1 << 20)
    started = time.perf_counter()
    with open(path, "wb") as file:
        for _ in range(size >> 20):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    seconds = time.perf_counter() - started
    path.unlink()
    return seconds


def measure(args, folder, source, name, importance):
    options = ["--imatrix", importance] if importance else []
    theirs, ours, disk = [], [], []
    for _ in range(args.rounds):
        written = folder / "llama.gguf"
        theirs.append(life_of([args.llama_bin / "llama-quantize", *options, source, written, name.upper(),
                               args.threads]))
        written.unlink()
        written = folder / "gabbro.gguf"
        ours.append(life_of([args.gabbro, "convert", source, "--type", name, *options, "--threads", args.threads,
                             "-o", written]))
        size = written.stat().st_size
        written.unlink()
        disk.append(disk_seconds(folder / "disk", size))
    wall = [statistics.median(run.wall for run in runs) for runs in (theirs, ours)]
    work = [statistics.median(run.work for run in runs) for runs in (theirs, ours)]
    print(f"| {name} | {'yes' if importance else 'no'} | {work[0]:.2f} | {work[1]:.2f} | {work[0] / work[1]:.2f} "
          f"| {wall[0]:.2f} | {wall[1]:.2f} | {wall[0] / wall[1]:.2f} | {statistics.median(disk):.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    llama_tools.add_arguments(parser)
    parser.add_argument("--gabbro", type=pathlib.Path, default=llama_tools.ROOT / "build/release/bin/gabbro")
    parser.add_argument("--types", default="q8_0,q4_0,q4_k_m,q6_k,iq4_xs,iq3_s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path)
    args = parser.parse_args()
    llama_tools.prepare(args)
    source = llama_tools.model_in("F16", args.models, args.llama_bin)
    importance = args.models / "smollm2-imatrix.gguf"
    if not importance.exists():
        llama_tools.must([args.gabbro, "imatrix", source, "--text", llama_tools.ROOT / "tests/data/english.txt", "-o",
                          importance], stdout=subprocess.DEVNULL)
    print("| type | importance | llama.cpp CPU s | gabbro CPU s | ratio | llama.cpp wall s | gabbro wall s | ratio "
          "| disk s |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        for name in args.types.split(","):
            for weights in (None, importance):
                measure(args, pathlib.Path(scratch), source, name, weights)


if __name__ == "__main__":
    main()
