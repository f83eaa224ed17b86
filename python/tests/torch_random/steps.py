"""Lines of random programs with holes, by the number of axes that they need: lines/*.txt.

{x} is the chosen tensor, of floats ({i}: of integers), {y} one that broadcasts with it, {same} one of its shape, {d}
and {e} are axes, {n} is a length up to that of axis d, {c} a number, {p} a positive number, {k} a small integer, {keep}
a bool, {m} a mask of its shape, {rows} are indices of axis d ({rows0}: of the first one, {row}: one index), {index} are
indices for `gather` along axis d, {classes} are numbers of columns, {reps} are numbers of repetitions, {order} is an
order of the axes, {weight}, {filter1}, {filter2}, {transposed1} and {transposed2} are weights of layers.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "lines"
TABLES = {file.stem: file.read_text(encoding="utf-8").splitlines() for file in sorted(_FOLDER.glob("*.txt"))}
WEIGHTS = {
    "elementwise": 8, "reduce": 4, "shapes": 5, "matrices": 2, "matrix": 2, "losses": 1, "windows3": 2, "windows4": 3,
    "in_place": 5, "integers": 2,
}  # fmt: skip
# The fewest and the most axes of the chosen tensor.
AXES = {
    "elementwise": (0, 4), "reduce": (1, 4), "shapes": (1, 3), "matrices": (2, 3), "matrix": (2, 2), "losses": (1, 3),
    "windows3": (3, 3), "windows4": (4, 4), "in_place": (1, 4), "integers": (1, 4),
}  # fmt: skip
