#!/usr/bin/env python3
"""What one small op costs in Python, evaluated, next to PyTorch: medians of timeit, both in turn so that a busy machine
slows both.

  GABBRO_DEVICE=cpu PYTHONPATH=build/release/python python3 bench/small_op.py [THREADS]
"""

import statistics
import sys
import time
import timeit

import torch

import gabbro as gb

CALLS = 5000
ROUNDS = 31


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    a, b = gb.ones(8).eval(), gb.full(8, 2.0).eval()
    x, y = torch.ones(8), torch.full((8,), 2.0)
    cases = {
        "a + b": (lambda: (a + b).eval(), lambda: x + y),
        "a + 1.0": (lambda: (a + 1.0).eval(), lambda: x + 1.0),
        "a * b + a": (lambda: (a * b + a).eval(), lambda: x * y + x),
        "exp(a)": (lambda: gb.exp(a).eval(), lambda: torch.exp(x)),
        "a.sum()": (lambda: a.sum().eval(), lambda: x.sum()),
    }
    print(f"{'8 elements':12} {'gabbro µs':>10} {'PyTorch µs':>11} {'ratio':>6}   of processor time: ratio")
    for name, functions in cases.items():
        wall: list[list[float]] = [[], []]
        used: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for i, function in enumerate(functions):
                before = time.thread_time()
                wall[i].append(timeit.timeit(function, number=CALLS) / CALLS * 1e6)
                used[i].append(time.thread_time() - before)
        ours, theirs = map(statistics.median, wall)
        ratio = statistics.median(used[0]) / statistics.median(used[1])
        print(f"{name:12} {ours:10.2f} {theirs:11.2f} {ours / theirs:6.2f}   {ratio:.2f}")


if __name__ == "__main__":
    main()
