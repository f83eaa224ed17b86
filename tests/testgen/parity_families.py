#!/usr/bin/env python3
"""Gabbro as the engine for every family of tests/data/families: each layer against transformers in f64.

    parity_families.py GABBRO [NAME...]

The packs have the configurations of the fixtures, and seeded weights in f32 of two regimes. $GABBRO_DEVICE names the
device. Exit code 1 where a block, a step through the cache or a repeated run exceeds its limit.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

FAMILIES = pathlib.Path(__file__).resolve().parents[1] / "data" / "families"


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    names = sys.argv[2:] or sorted(path.name for path in FAMILIES.iterdir())
    os.environ["GABBRO_PROGRAM"] = program
    with tempfile.TemporaryDirectory() as out:
        for name in names:
            words = ["--engine", "gabbro", "--size", "full", "--checks", "parity", "-o", os.path.join(out, name)]
            subprocess.run([program, "testgen", FAMILIES / name, *words], check=True, stdout=subprocess.DEVNULL)
        words = ["--run", out, "--devices", "cpu", "--python", sys.executable]
        return subprocess.run([program, "testgen", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
