#!/usr/bin/env python3
"""Writes tests/data/ops/torch_programs.json.gz: small random programs over the public functions, with their results.

A program is stored with its inputs, its calls, and PyTorch's results in the program's dtypes and in float64, with a
tolerance for each element (python/tests/compare_torch/compare.py). python/tests/test_compare_torch.py runs them. Each
function of the table gives a result of one of them at least, with gradients. Needs torch and an importable gabbro.
Usage: make_program_fixtures.py [--seed 0]
"""

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))

from compare_torch import recorded
from compare_torch.check import ORDINARY, checked, run_ours
from compare_torch.compare import MANY, compare, reference_of
from compare_torch.generate import Generator
from compare_torch.operations import OPERATIONS
from compare_torch.program import FLOATS

MOST_ELEMENTS = 400  # of inputs and results of a program


def is_small(program, reference):
    size = sum(x.array.size for x in program.inputs) + sum(array.size for _, array in reference.exact.arrays())
    return size <= MOST_ELEMENTS


def agrees(program, reference):
    """Without differences of values or refusals, also intended ones: whether they are may need PyTorch."""
    try:
        return all(d.kind == "dtype" for d in compare(program, reference, run_ours(program)))
    except ORDINARY:
        return False


def results_of(program, reference):
    """The functions whose results are compared, with gradients if they are floats."""
    floats = [dtype in FLOATS for dtype in reference.native.dtypes]
    pairs = zip(program.outputs, floats, strict=True)
    return {program.calls[at].op for at, is_float in pairs if program.order > 0 or not is_float}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    torch.set_num_threads(1)
    pairs, missing, refused = [], dict.fromkeys(OPERATIONS, 1), 0
    while any(missing.values()) or refused < 20:
        seed += 1
        wanted = [name for name, count in missing.items() if count > 0] or None
        if wanted and seed % 2:  # between others, too
            wanted = [*wanted, *OPERATIONS]
        if refused < 20 and seed % 6 == 0:
            program = Generator(seed).make_refused()
            if program is not None and not checked(program)[1]:
                pairs.append((program, None))
                refused += 1
            continue
        program, found = checked(Generator(seed).make(wanted))
        if len(program.calls) > 8 or found:
            continue
        reference = reference_of(program, MANY)
        if is_small(program, reference) and agrees(program, reference):
            pairs.append((program, reference))
            for name in results_of(program, reference):
                missing[name] -= missing[name] > 0
    recorded.save(pairs)
    print(f"{len(pairs)} programs, {recorded.FILE.stat().st_size} bytes")


main()
