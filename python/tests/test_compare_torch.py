"""Random programs against PyTorch: recorded ones everywhere, new ones where it is installed; and planted faults."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gabbro as gb
from compare_torch import check, our_side, recorded
from compare_torch.compare import Difference, compare
from compare_torch.differences import intended
from compare_torch.operations import OPERATIONS
from compare_torch.program import Call, Input, Program, Ref

RUN = Path(__file__).with_name("compare_torch") / "run.py"


@pytest.fixture(scope="module")
def programs():
    return recorded.load()


def differing(pairs, device="cpu", intended=intended):
    """Numbers of the programs that differ from PyTorch's recorded results, with the first difference of each."""
    found = {}
    for number, (program, reference) in enumerate(pairs):
        if reference is None:
            continue
        ours = check.run_ours(program, device)
        differences = [d for d in compare(program, reference, ours) if not intended(program, d)]
        if differences:
            found[number] = (differences[0], [call.op for call in program.calls])
    return found


def test_recorded_programs_give_what_pytorch_gave(programs):
    assert {call.op for program, _ in programs for call in program.calls} == set(OPERATIONS), "each function is in one"
    assert differing(programs) == {}


def test_recorded_programs_that_pytorch_refuses_are_refused(programs):
    refused = [program for program, reference in programs if reference is None]
    assert len(refused) >= 20
    for program in refused:
        with pytest.raises(check.ORDINARY):
            check.run_ours(program)


def wrong_gelu(x, approximate="none"):
    return 0.5 * x * (1 + gb.erf(x * 0.7072))  # 0.70710678


def wrong_take(x, indices, *, axis=None):
    length = x.size if axis is None else x.shape[axis]
    return gb.take(x, (indices + 1) % length, axis=axis)


def wrong_softmax(x, axis=-1):
    shifted = gb.exp(x - gb.max(x, axis=axis, keepdims=True))
    return shifted / gb.detach(gb.sum(shifted, axis, True))  # its gradient lacks the term of the sum


def wrong_sum(x, axis=None, keepdims=False, **rest):
    return gb.sum(x, axis, keepdims, **rest) * (1 + 2e-5 * (x.dtype == gb.float32))


@pytest.mark.parametrize(
    ("function", "fault", "at_least"),
    [("gelu", wrong_gelu, 1), ("take", wrong_take, 1), ("softmax", wrong_softmax, 1), ("sum", wrong_sum, 1)],
)
def test_a_planted_fault_is_found(programs, monkeypatch, function, fault, at_least):
    before = differing(programs, intended=lambda program, d: False)  # whether one is intended needs PyTorch
    names = {**vars(gb.array_api), function: fault}
    monkeypatch.setitem(
        our_side.NAMES, "gb", type("Faulty", (), {k: staticmethod(v) if callable(v) else v for k, v in names.items()})
    )
    found = differing(programs, intended=lambda program, d: False)
    found = {number: difference for number, difference in found.items() if number not in before}
    assert len(found) >= at_least
    assert all(function in calls for _, calls in found.values()), "others are as before"


def test_smaller_programs_are_found(programs, monkeypatch):
    """Of a program that fails because of one call, that call stays."""
    pytest.importorskip("torch")
    program = next(program for program, reference in programs if reference and len(program.calls) >= 4)
    kept = program.calls[program.outputs[0]].op
    small = check.shrunk(program, lambda p: any(call.op == kept for call in p.calls))
    assert [call.op for call in small.calls] == [kept]
    assert all(x.layout == "plain" for x in small.inputs)


def test_values_computed_from_an_intended_difference_are_not_told():
    """NaN times the padding of a transposed convolution is NaN here alone, and isnan tells them apart."""
    pytest.importorskip("torch")
    x, w = np.ones((1, 1, 2, 2)), np.array([[[[np.nan, 1.0], [1.0, 1.0]]]])
    options = {"bias": None, "stride": 1, "padding": 0, "more": 0, "groups": 1, "dilation": 1}
    calls = [
        Call("conv_transpose2d", {"a": Ref("x", 0), "w": Ref("x", 1), **options}),
        Call("isnan", {"a": Ref("v", 0)}),
        Call("isnan", {"a": Ref("x", 1)}),
    ]
    program = Program([Input("float32", x), Input("float32", w)], calls, outputs=[1, 2])
    assert check.differences_of(program) == []
    every = [Difference("value", f"output {number}", "") for number in range(2)]
    assert check.unexplained(program, every, "cpu") == every[1:]


def test_programs_are_stored_and_read(programs, tmp_path):
    recorded.save(programs[:5], tmp_path / "some.gz")
    for (program, _), (again, _) in zip(programs[:5], recorded.load(tmp_path / "some.gz"), strict=True):
        for x, y in zip(program.inputs, again.inputs, strict=True):
            np.testing.assert_array_equal(x.array, y.array)
        assert dataclasses.replace(program, inputs=[]) == dataclasses.replace(again, inputs=[])


def test_new_programs_agree_with_pytorch():
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, str(RUN), "--programs", "200", "--seed", "7000000", "--jobs", "1"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "200 programs" in done.stdout
