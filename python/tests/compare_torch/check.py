"""Checks one program; and finds the smallest that still differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from .compare import ALL, FEW, MANY, Difference, Reference, compare, reference_of
from .differences import intended
from .our_side import OurRun, gb
from .outcome import Outcome
from .program import FLOATS, Call, Input, Program, Ref, refs_of, substituted, without_unused

ORDINARY = (TypeError, ValueError, LookupError, OverflowError, RuntimeError, NotImplementedError)


def run_ours(program: Program, device: str = "cpu"):
    gb.set_device(device)
    return OurRun(program).outcome()


def differences_of(program: Program, device: str = "cpu") -> list[Difference]:
    """What differs and is not intended."""
    from .torch_side import Run

    if program.refused:
        try:
            ours = run_ours(program, device)
        except ORDINARY:
            return []
        if not refusal(program) or not has_equal_arguments(program, device):
            return []
        text = f"answers {ours.values[-1].tolist()!r:.60}; PyTorch refuses: {refusal(program):.100}"
        return [d for d in [Difference("answered", "last call", text)] if not intended(program, d)]
    native = Run(program)
    expected = native.outcome()
    try:
        ours = run_ours(program, device)
    except ORDINARY as error:
        found = [Difference("refused", "the program", f"{type(error).__name__}: {error}")]
        return [d for d in found if not intended(program, d)]
    # Most results are as near as PyTorch's own; the others need the reference, and few of them one of more runs.
    for reference in (near(expected), *(partial(reference_of, program, effort, native) for effort in (FEW, MANY, ALL))):
        found = [d for d in compare(program, reference(), ours) if not intended(program, d)]
        if not all(d.kind == "value" for d in found) or not found:
            break
    return unexplained(program, found, device)


def unexplained(program: Program, found: list[Difference], device: str) -> list[Difference]:
    """Without values that are computed from a result that differs by intention, and their gradients."""
    if len(program.calls) == 1 or not all(d.kind == "value" for d in found) or not found:
        return found
    every = replace(program, outputs=list(range(len(program.calls))), order=0)
    results = compare(every, reference_of(every, FEW), run_ours(every, device))
    different = {int(d.where.split()[1]) for d in results if d.where.startswith("output") and intended(every, d)}
    for at, call in enumerate(program.calls):
        if any(ref.kind == "v" and ref.number in different for ref in refs_of(call.args)):
            different.add(at)
    explained = {f"output {number}" for number, at in enumerate(program.outputs) if at in different}
    return [d for d in found if d.where not in explained and not (explained and "gradient" in d.where)]


def checked(program: Program, device: str = "cpu") -> tuple[Program, list[Difference]]:
    """With gradients of the highest order, up to the program's, for which PyTorch has all derivatives."""
    while True:
        try:
            return program, differences_of(program, device)
        except RuntimeError as error:  # NotImplementedError is one
            if program.order == 0 or ("implement" not in str(error) and "differentiable" not in str(error)):
                raise
            program = replace(program, order=program.order - 1)


def near(expected: Outcome) -> Callable[[], Reference]:
    """PyTorch's results in the program's dtypes as if they were exact."""
    return lambda: Reference(expected, expected, [np.zeros(array.shape) for _, array in expected.arrays()])


def has_equal_arguments(program: Program, device: str) -> bool:
    """Whether the last call has the same integers in both: an argmax of nearly equal numbers may be another."""
    from .torch_side import Run

    made = [ref.number for ref in refs_of(program.calls[-1].args) if ref.kind == "v"]
    before = replace(program, calls=program.calls[:-1], outputs=made, order=0, refused=False)
    expected, ours = Run(before).outcome(), run_ours(before, device)
    return all(
        dtype in FLOATS or np.array_equal(x, y)
        for x, y, dtype in zip(expected.values, ours.values, expected.dtypes, strict=True)
    )


def refusal(program: Program) -> str:
    from .torch_side import Run

    try:
        Run(program).outcome()
    except Exception as error:
        return " ".join(str(error).split())
    return ""


def signature(program: Program, found: list[Difference]) -> str:
    """What differences have in common that have one cause: kind, place, the last call, dtypes."""
    first = found[0]
    last = program.calls[program.outputs[0]]
    dtypes = sorted({x.dtype for x in program.inputs})
    where = " ".join(word for word in first.where.split() if not word.isdigit())
    return f"{first.kind}, {where} of {last.op} ({', '.join(dtypes)})"


# Smaller programs.
def shrunk(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The smallest program found that fails."""
    progress = True
    while progress:
        progress = False
        for smaller in candidates(program):
            if fails(smaller):
                program, progress = smaller, True
                break
    return program


def candidates(program: Program) -> Iterator[Program]:
    yield from fewer_calls(program)
    yield from simpler_inputs(program)


def fewer_calls(program: Program) -> Iterator[Program]:
    last = len(program.calls) - 1
    if not program.refused:
        for at in range(last + 1):
            if program.outputs != [at]:
                yield without_unused(replace(program, outputs=[at]))
    for order in range(program.order):
        yield replace(program, order=order)
    if program.mode != "lazy":
        yield replace(program, mode="lazy")
    if last >= 1:
        for at in range(last + 1):
            made = with_input_for(program, at)
            if made is not None:
                yield made


def with_input_for(program: Program, at: int) -> Program | None:
    """The result of a call as an input."""
    from .torch_side import Run, dtype_name, to_numpy

    if at in program.outputs or at == len(program.calls) - 1:
        return None
    run = Run(replace(program, calls=program.calls[: at + 1], order=0))
    try:
        run.forward()
    except Exception:  # of a program that PyTorch refuses
        return None
    value = run.results[at]
    x = Input(dtype_name(value), to_numpy(value), "plain", dtype_name(value) in FLOATS)
    place = Ref("x", len(program.inputs))
    change = lambda item: place if item == Ref("v", at) else item  # noqa: E731
    calls = [Call(call.op, substituted(call.args, change)) for call in program.calls]
    return without_unused(replace(program, inputs=[*program.inputs, x], calls=calls))


def simpler_inputs(program: Program) -> Iterator[Program]:
    for at, x in enumerate(program.inputs):
        changes = []
        if x.layout != "plain":
            changes.append(replace(x, layout="plain"))
        if x.grad and program.order:
            changes.append(replace(x, grad=False))
        if x.dtype in FLOATS:
            for array in (np.ones_like(x.array), np.round(x.array), np.round(x.array, 1)):
                array = array.astype(np.float32).astype(np.float64) if x.dtype == "float32" else array
                exact = x.dtype in ("float32", "float64") or (
                    array is not None and np.array_equal(array, np.round(array))
                )
                if exact and not np.array_equal(array, x.array, equal_nan=True):
                    changes.append(replace(x, array=array))
        for change in changes:
            yield replace(program, inputs=[*program.inputs[:at], change, *program.inputs[at + 1 :]])
    yield from shorter(program)


def shorter(program: Program) -> Iterator[Program]:
    """All axes of one length to fewer elements, in every input that has them."""
    lengths = {n for x in program.inputs for n in x.array.shape if n > 1}
    constant = any(
        isinstance(value, (list, tuple)) and not refs_of(value)
        for call in program.calls
        for value in call.args.values()
    )
    for length in sorted(lengths, reverse=True) if not constant else []:
        for less in {1, length // 2, length - 1}:
            inputs = [replace(x, array=cut(x.array, length, less)) for x in program.inputs]
            yield replace(program, inputs=inputs)


def cut(array: np.ndarray, length: int, less: int) -> np.ndarray:
    return array[tuple(slice(0, less) if n == length else slice(None) for n in array.shape)]
