#!/usr/bin/env python3
"""Gabbro next to PyTorch on the CPU, for functions that were once much slower: best times of both, in turn. `speed` is
PyTorch's time divided by ours.

  PYTHONPATH=build/release/python python3 bench/peers/torch_cpu/bench.py [--threads 2] [--least 0.8] [PART OF A NAME ...]

On a machine that others use, --threads 1 --cpu-time compares the time that the processor spent.
"""

import argparse
import sys
import time

import torch

import gabbro as gb
from cases import all_cases


def best_times(pair, clock, seconds):
    """Of one call of each, over runs of about 4 ms."""
    for function in pair:
        function()
    start = time.perf_counter()
    for function in pair:
        function()
    calls = max(1, min(1000, int(0.008 / max(time.perf_counter() - start, 1e-7))))
    best, end, rounds = [float("inf")] * 2, time.perf_counter() + seconds, 0
    while rounds < 5 or time.perf_counter() < end:
        rounds += 1
        for i, function in enumerate(pair):
            start = clock()
            for _ in range(calls):
                function()
            best[i] = min(best[i], (clock() - start) / calls)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="processor time of all threads instead of elapsed time")
    parser.add_argument("--least", type=float, default=0.0, help="exit with 1 where a case's speed is below this")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case")
    parser.add_argument("names", nargs="*", metavar="PART OF A NAME")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    gb.set_device(gb.Device("cpu", threads=options.threads))
    slow = 0
    print(f"{'case':44} {'gabbro µs':>11} {'PyTorch µs':>11} {'speed':>6}")
    for name, make in all_cases().items():
        if options.names and not any(part in name for part in options.names):
            continue
        ours, theirs = best_times(make(), time.process_time if options.cpu_time else time.perf_counter, options.seconds)
        is_slow = theirs / ours < options.least
        slow += is_slow
        print(f"{name:44} {ours * 1e6:11.1f} {theirs * 1e6:11.1f} {theirs / ours:6.2f}{' slow' * is_slow}", flush=True)
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
