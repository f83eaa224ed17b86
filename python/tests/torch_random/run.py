"""Random programs over PyTorch's functions, in Gabbro and in PyTorch.

    python python/tests/torch_random/run.py --programs 60000 [--seed 0]    draws programs with PyTorch and compares
    python python/tests/torch_random/run.py --program SEED                 prints a program and what differs
    python python/tests/torch_random/run.py --record 300                   stores programs for machines without PyTorch

Exits 1 if a program differs.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from torch_random import generate, ours, recorded


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--program", type=int)
    parser.add_argument("--record", type=int)
    parser.add_argument("--all", action="store_true", help="print all programs that differ")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.record is not None:
        recorded.save([generate.drawn(options.seed + number) for number in range(options.record)])
        return 0
    if options.program is not None:
        program = generate.drawn(options.program)
        print(ours.text_of(program))
        text = ours.difference(program)
        print(text or "no difference")
        return int(text is not None)
    found: dict[int, tuple[str, str]] = {}
    modes: collections.Counter[str] = collections.Counter()
    for seed in range(options.seed, options.seed + options.programs):
        program = generate.drawn(seed)
        modes[program["mode"]] += 1
        modes["with gradients"] += bool(program["gradients"])
        text = ours.difference(program)
        if text is not None:
            found[seed] = (text, ours.text_of(program))
    kinds = collections.Counter(re.sub(r"[-\d.e]+", "#", text)[:90] for text, _ in found.values())
    for kind, count in kinds.most_common():
        print(f"{count} times: {kind}")
    for seed, (text, lines) in list(found.items())[: None if options.all else 10]:
        print(f"program {seed}: {text}\n{lines}\n")
    print(f"{options.programs - len(found)} programs agree, {len(found)} differ; {dict(modes)}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
