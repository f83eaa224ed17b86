"""Where Gabbro differs from PyTorch by intention: each row has its reason. Where the Python array API standard and
PyTorch agree there is no row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .compare import Difference
from .program import Program


@dataclass(frozen=True)
class Intended:
    name: str
    covers: Callable[[Program, Difference], bool]
    reason: str


def meets_bool(program: Program) -> bool:
    return any("scalar" in call.op for call in program.calls)


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
    Intended(
        "derivatives at NaN",
        lambda program, d: d.kind == "value" and "gradient" in d.where and has_nan(program),
        "A function has no derivative at NaN. PyTorch gives 0, 1 or NaN there, by function (relu6 1, hardtanh 0, "
        "softplus NaN); the values themselves are compared and NaN.",
    ),
    Intended(
        "copysign at 0",
        lambda program, d: "second gradient" in d.where and "copysign" in calls(program),
        "The second derivative of copysign is 0; PyTorch divides 0 by 0 where the magnitude is 0.",
    ),
    Intended(
        "an int with a bool",
        lambda program, d: d.kind == "dtype" and d.text == "int32 instead of int64" and meets_bool(program),
        "A Python int with a tensor of bool makes the default integer dtype, which is int32 here and int64 in "
        "PyTorch; the standard leaves it open.",
    ),
    Intended(
        "outer takes any shape",
        lambda program, d: d.kind == "answered" and "outer" in calls(program),
        "outer flattens its arguments, as numpy.outer.",
    ),
    Intended(
        "infinity times 0 in a gradient",
        lambda program, d: (
            d.kind == "value"
            and "gradient" in d.where
            and "PyTorch np.float64(nan), exact" in d.text
            and "exact np.float64(nan)" in d.text
            and "np.float64(nan)" not in d.text.split("PyTorch")[0]
        ),
        "Where a derivative is infinite and the one before it 0, PyTorch's gradient is NaN; here some rules give 0.",
    ),
    Intended(
        "squares beyond float32",
        lambda program, d: "np.float64(inf), PyTorch" in d.text and "std" in calls(program),
        "std is the root of var, which float32 holds up to 3.4e38; PyTorch keeps the square in float64.",
    ),
    Intended(
        "no variance",
        lambda program, d: (
            "np.float64(nan), PyTorch np.float64(inf)" in d.text and bool({"var", "std"} & calls(program))
        ),
        "With a correction that is not less than the number of elements, the standard's var and std are NaN.",
    ),
    Intended(
        "a weight of 0 times infinity or NaN",
        lambda program, d: (
            d.kind == "value"
            and "np.float64(nan), PyTorch" in d.text
            and "interpolate" in calls(program)
            and has_infinity(program)
        ),
        "A pixel between two others is a weighted mean of both, also where a weight is 0.",
    ),
    Intended(
        "integers and bool are taken",
        lambda program, d: d.kind == "answered" and ("floating point" in d.text or "support bool" in d.text),
        "Functions of floats take integers and bool, as float32, and argmax takes bool, where PyTorch's refuse them.",
    ),
    Intended(
        "no axis of shape ()",
        lambda program, d: d.kind == "refused" and "out of range for shape ()" in d.text,
        "A tensor of shape () has no axes, as in NumPy and the standard; PyTorch takes 0 and -1 for it.",
    ),
]


def floats_of(program: Program) -> list[np.ndarray]:
    """Inputs and results of floats, as PyTorch has them."""
    from .torch_side import Run, to_numpy

    run = Run(program)
    run.forward()
    return [to_numpy(value) for value in [*run.inputs, *run.results] if value.is_floating_point()]


def has_nan(program: Program) -> bool:
    return any(np.isnan(array).any() for array in floats_of(program))


def has_infinity(program: Program) -> bool:
    return any((~np.isfinite(array)).any() for array in floats_of(program))


def intended(program: Program, difference: Difference) -> Intended | None:
    return next((row for row in INTENDED if row.covers(program, difference)), None)
