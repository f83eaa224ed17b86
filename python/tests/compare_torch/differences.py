"""Where Gabbro differs from PyTorch by intention: each row has its reason. Where the Python array API standard and
PyTorch agree there is no row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .compare import Difference
from .program import Program


@dataclass(frozen=True)
class Intended:
    name: str
    covers: Callable[[Program, Difference], bool]
    reason: str


def calls(program: Program) -> set[str]:
    return {call.op for call in program.calls}


# Functions whose results are places or counts: int32 here, int64 in PyTorch.
PLACES = {"argmax", "argmin", "argsort", "count_nonzero", "searchsorted", "nonzero", "one_hot"}

INTENDED = [
    Intended(
        "places are int32",
        lambda program, d: d.kind == "dtype" and d.text == "int32 instead of int64" and bool(PLACES & calls(program)),
        "Places and counts are int32, the default integer and index dtype that the namespace declares "
        "(__array_namespace_info__); the standard leaves the choice to the library.",
    ),
]


def intended(program: Program, difference: Difference) -> Intended | None:
    return next((row for row in INTENDED if row.covers(program, difference)), None)
