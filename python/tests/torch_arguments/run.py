#!/usr/bin/env python3
"""Compares Gabbro's arguments with PyTorch's: layers, optimizers and schedulers with arguments set after construction,
and prefixes of positional arguments of functions. `--record` writes PyTorch's results for the tests that have no
PyTorch. Needs torch and an importable gabbro. Usage: run.py [--record] [WORD ...], of keys that have one of the
words."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from torch_arguments import cases, recorded
from torch_arguments.sides import Side, difference


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    ours, theirs = Side("gabbro"), Side("torch")
    ours.library.set_device("cpu")
    counts = {"equal": 0, "refused": 0, "PyTorch refuses": 0, "intended": 0}
    wrong, stored = 0, {}
    for case in cases.all_cases():
        if options.words and not any(word in case.key for word in options.words):
            continue
        expected = case.run(theirs)
        stored[case.key] = expected
        got = case.run(ours)
        found = difference(got, expected)
        if found is None:
            kind = "PyTorch refuses" if "error" in expected else "refused" if "error" in got else "equal"
            if options.words:
                print(f"{case.key}: {kind} {got.get('error', '')}")
        elif case.intended:
            kind = "intended"
        else:
            kind = ""
            wrong += 1
            print(f"{case.key}: {found}")
        if kind:
            counts[kind] += 1
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()) + f", {wrong} differ")
    if options.record:
        recorded.save(stored)
        print(f"{len(stored)} results, {recorded.FILE.stat().st_size} bytes")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
