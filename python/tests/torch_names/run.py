"""Runs the lines in Gabbro and shows where they differ; with --record in PyTorch, whose results it stores.

python torch_names/run.py [--record] [WORD]     WORD: lines that contain it
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from torch_names import cases, recorded
from torch_names.sides import Library, difference


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--record"]
    if "--record" in sys.argv:
        side = Library("torch")
        recorded.save({line: side.run(line) for line in cases.lines()})
        return 0
    theirs, side, found = recorded.load(), Library("gabbro"), 0
    for line in cases.lines():
        if words and not any(word in line for word in words):
            continue
        text = difference(side.run(line), theirs[line])
        if text is not None and line not in cases.INTENDED:
            found += 1
            print(f"{line}\n    {text}")
    print(f"{len(theirs)} lines, {found} differ")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
