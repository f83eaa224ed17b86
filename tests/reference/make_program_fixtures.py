#!/usr/bin/env python3
"""Writes tests/data/ops/torch_programs.json.gz: small random programs over the public functions, with their results.

A program is stored with its inputs, its calls, and PyTorch's results in the program's dtypes and in float64, with a
tolerance for each element (python/tests/compare_torch/compare.py). python/tests/test_compare_torch.py runs them. Each
function of the table is in two of them at least. Needs torch and an importable gabbro.
Usage: make_program_fixtures.py [--seed 0]
"""

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))

from compare_torch import recorded
from compare_torch.check import checked
from compare_torch.compare import MANY, reference_of
from compare_torch.generate import Generator
from compare_torch.operations import OPERATIONS

MOST_ELEMENTS = 400  # of inputs and results of a program


def is_small(program, reference):
    size = sum(x.array.size for x in program.inputs) + sum(array.size for _, array in reference.exact.arrays())
    return size <= MOST_ELEMENTS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    torch.set_num_threads(1)
    pairs, missing, refused = [], dict.fromkeys(OPERATIONS, 2), 0
    while any(missing.values()) or refused < 20:
        seed += 1
        wanted = [name for name, count in missing.items() if count > 0] or None
        if refused < 20 and seed % 6 == 0:
            program = Generator(seed).make_refused()
            if program is not None and not checked(program)[1]:
                pairs.append((program, None))
                refused += 1
            continue
        program, found = checked(Generator(seed).make(wanted))
        calls = {call.op for call in program.calls}
        if len(program.calls) > 8 or not calls & set(wanted or []) or found:
            continue
        reference = reference_of(program, MANY)
        if is_small(program, reference):
            pairs.append((program, reference))
            for name in calls:
                missing[name] -= missing[name] > 0
    recorded.save(pairs)
    print(f"{len(pairs)} programs, {recorded.FILE.stat().st_size} bytes")


main()
