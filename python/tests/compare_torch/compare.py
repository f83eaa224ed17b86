"""Whether what Gabbro computes is what PyTorch computes, within errors that rounding explains.

The reference is PyTorch in float64. A tolerance for each element is how far the reference moves when every rounding
error that the program's dtypes may make is put into it at random (`Run` with noise): so it knows the dtypes, the number
of operations and how ill-conditioned they are. Where PyTorch's own result is further away, that error counts too; and
before a difference is believed, its error for inputs that differ from the program's in the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .outcome import Outcome
from .program import FLOATS, Program


@dataclass(frozen=True)
class Effort:
    runs: int  # perturbed ones
    neighbors: int = 0  # inputs next to the program's


FEW, MANY, ALL = Effort(2), Effort(16), Effort(128, 32)  # at first, and before a difference is believed
FACTOR = 8.0  # from the movement that was seen to the tolerance
# Numbers below the normal ones may be taken as 0, but for float16, where they are common.
SPACING = {"float32": 2.0**-126, "float64": 2.0**-1022, "float16": 2.0**-24, "bfloat16": 2.0**-126}
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}
LARGEST = {"float32": 3.4e38, "float64": 1.79e308, "float16": 65504.0, "bfloat16": 3.38e38}


@dataclass
class Difference:
    kind: str  # "value", "dtype", "shape", "refused", "answered", "crashed"
    where: str
    text: str


@dataclass
class Reference:
    """What PyTorch knows of a program: results in its dtypes, exact ones, and for each a tolerance (inf: not known)."""

    native: Outcome
    exact: Outcome
    tolerances: list[np.ndarray]


def same_class(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Both NaN, the same infinity, or both finite."""
    return (np.isnan(a) & np.isnan(b)) | (np.isfinite(a) & np.isfinite(b)) | (a == b)


def movement(exact: np.ndarray, moved: list[np.ndarray]) -> np.ndarray:
    """How far perturbed results are from the exact ones at most; inf where they are of another kind."""
    spread = np.zeros(exact.shape)
    for other in moved:
        if other.shape != exact.shape:
            return np.full(exact.shape, np.inf)
        with np.errstate(invalid="ignore"):
            distance = np.abs(np.asarray(other, np.float64) - exact)
        distance = np.where(np.isfinite(distance), distance, np.where(same_class(other, exact), 0, np.inf))
        spread = np.maximum(spread, distance)
    return spread


def errors_of_neighbors(program: Program, count: int) -> list[list[np.ndarray]]:
    """PyTorch's errors for inputs whose floats are moved by one bit: the errors at the inputs are one sample."""
    from .torch_side import Run, dtype_name, to_torch

    generator = np.random.default_rng(0)
    errors = []
    for _ in range(count):
        inputs = []
        for x in program.inputs:
            if x.dtype in FLOATS:
                factor = 1 + EPSILON[x.dtype] * generator.integers(-1, 2, x.array.shape)
                with np.errstate(all="ignore"):
                    x = replace(x, array=x.array * factor)
                x = replace(x, array=to_torch(x).double().numpy())
            inputs.append(x)
        moved = replace(program, inputs=inputs)
        run = Run(moved)
        native = run.outcome()
        exact = Run(moved, [dtype_name(y) for y in run.results]).outcome()
        pairs = zip(native.arrays(), exact.arrays(), strict=True)
        errors.append([movement(np.asarray(right, np.float64), [found]) for (_, found), (_, right) in pairs])
    return errors


def reference_of(program: Program, effort: Effort = FEW, run: Any = None) -> Reference:
    """`run`: the program's run in its own dtypes, if any."""
    from .torch_side import Run, dtype_name

    run = Run(program) if run is None else run
    native = run.outcome()
    dtypes = [dtype_name(y) for y in run.results]
    exact = Run(program, dtypes).outcome()
    moved = []
    for noise in range(effort.runs):
        moved.append([array for _, array in Run(program, dtypes, noise).outcome().arrays()])
    tolerances = []
    for at, (_, array) in enumerate(exact.arrays()):
        spread = movement(np.asarray(array, np.float64), [arrays[at] for arrays in moved])
        tolerances.append(np.where(spread > 0, FACTOR * spread, 0))
    # Second derivatives are differences of first ones, also of those by inputs that are constants here.
    firsts = exact.gradients
    if exact.seconds and effort is ALL:
        inputs = [replace(x, grad=x.grad or x.dtype in FLOATS) for x in program.inputs]
        firsts = Run(replace(program, inputs=inputs, order=1), dtypes).outcome().gradients
    sizes = [np.abs(array[np.isfinite(array)]).max(initial=0) for array in firsts]
    for at in range(len(exact.seconds)):
        epsilon = EPSILON[native.gradient_dtypes[at]]
        tolerances[len(tolerances) - len(exact.seconds) + at] += 8 * epsilon * max(sizes)
    for errors in errors_of_neighbors(program, effort.neighbors):
        tolerances = [
            np.maximum(allowed, 4 * error) if error.shape == allowed.shape else allowed
            for allowed, error in zip(tolerances, errors, strict=True)
        ]
    return Reference(native, exact, tolerances)


def dtypes_of(outcome: Outcome) -> list[str]:
    return outcome.dtypes + outcome.gradient_dtypes * (2 if outcome.seconds else 1)


def wrong_floats(
    ours: np.ndarray, native: np.ndarray, exact: np.ndarray, tolerance: np.ndarray, dtype: str
) -> np.ndarray:
    """Which elements rounding does not explain."""
    with np.errstate(all="ignore"):
        epsilon, spacing = EPSILON[dtype], 2 * SPACING[dtype]
        error, theirs = np.abs(ours - exact), np.abs(native - exact)
        known = theirs[np.isfinite(theirs)]
        usual = np.sqrt(np.mean(known**2)) if known.size else 0.0  # PyTorch's error of a typical element
        allowed = tolerance + spacing + 4 * epsilon * np.abs(exact) + 4 * usual
        right = (error <= allowed) | (error <= 4 * theirs) | (same_class(ours, exact) & ~np.isfinite(exact))
        right |= np.abs(ours - native) <= 4 * epsilon * np.abs(native) + spacing
        right |= same_class(ours, native) & ~np.isfinite(native)
        right |= np.isfinite(exact) & ~np.isfinite(native)  # beyond the dtype's range, in PyTorch too
        # Terms of this size are near the limit: by their order, a sum of them may be beyond it.
        limit, sums = LARGEST[dtype], 16 if dtype != "float16" else 1  # float16 is summed in float32
        right |= ~np.isfinite(ours) & ((tolerance > 4 * epsilon * limit) | (np.abs(exact) > limit / sums))
        right |= (theirs > 0.1 * np.abs(exact)) & (np.abs(exact) > 0) & ~np.isfinite(ours)  # on the way, too
        return ~(right | np.isinf(tolerance))


def wrong_elements(
    ours: np.ndarray, native: np.ndarray, exact: np.ndarray, tolerance: np.ndarray, dtype: str
) -> np.ndarray:
    if dtype in FLOATS:
        return wrong_floats(ours, native, exact, tolerance, dtype)
    return ~((ours == native) | (ours == exact) | (tolerance > 0))


def compare(program: Program, reference: Reference, ours: Outcome) -> list[Difference]:
    """Every output and gradient that differs."""
    found = []
    names = dtypes_of(reference.native)
    for at, ((name, exact), (_, native), (_, own)) in enumerate(
        zip(reference.exact.arrays(), reference.native.arrays(), ours.arrays(), strict=True)
    ):
        dtype, our_dtype = names[at], dtypes_of(ours)[at]
        if our_dtype != dtype:
            found.append(Difference("dtype", name, f"{our_dtype} instead of {dtype}"))
        if own.shape != native.shape:
            found.append(Difference("shape", name, f"{own.shape} instead of {native.shape}"))
            continue
        wrong = wrong_elements(own, native, exact, reference.tolerances[at], dtype)
        if wrong.any():
            found.append(Difference("value", name, worst(own, native, exact, reference.tolerances[at], wrong)))
    return found


def worst(ours: Any, native: Any, exact: Any, tolerance: np.ndarray, wrong: np.ndarray) -> str:
    with np.errstate(all="ignore"):
        size = np.where(wrong, np.abs(np.asarray(ours, np.float64) - exact) / (tolerance + 1e-300), -1)
    at = np.unravel_index(np.argmax(np.where(np.isnan(size), np.inf, size)), size.shape)
    place = ", ".join(str(int(i)) for i in at)
    return (
        f"{int(wrong.sum())} of {wrong.size} elements; [{place}]: {ours[at]!r}, PyTorch {native[at]!r}, "
        f"exact {exact[at]!r} ± {tolerance[at]:.2g}"
    )


def undetermined(reference: Reference) -> tuple[int, int]:
    """How many elements nothing can be said about, of how many."""
    bad = sum(int(np.isinf(tolerance).sum()) for tolerance in reference.tolerances)
    return bad, sum(tolerance.size for tolerance in reference.tolerances)
