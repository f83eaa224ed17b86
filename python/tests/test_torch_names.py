"""The same lines in Gabbro and PyTorch: values, dtypes and gradients of functions, methods, layers and optimizers.

PyTorch's results are recorded (torch_names/run.py --record); where they differ by intention, the reason is named.
"""

import inspect
from pathlib import Path

import pytest

import gabbro as gb
from gabbro import functions
from gabbro.functions import attach
from torch_names import cases, recorded
from torch_names.sides import Library, difference


@pytest.fixture(scope="module")
def results():
    return recorded.load()


TABLES = {
    "functions": cases.FUNCTIONS,
    "methods": cases.METHODS,
    "networks": cases.NETWORKS,
    "training": cases.TRAINING,
}


@pytest.mark.parametrize("table", TABLES)
def test_lines_give_what_pytorch_gave(results, table):
    side, found = Library("gabbro"), {}
    for text in TABLES[table]:
        for line in cases.prefixes(text) if text.startswith("*") else [text]:
            text = difference(side.run(line), results[line])
            if text is not None and line not in cases.INTENDED:
                found[line] = text
    assert found == {}


def test_each_line_is_recorded(results):
    lines = set(cases.lines())
    assert lines == results.keys()
    assert set(cases.INTENDED) <= lines


def test_intended_differences_are_still_there(results):
    side = Library("gabbro")
    assert [line for line in cases.INTENDED if difference(side.run(line), results[line]) is None] == []


def test_recorded_results_are_those_of_pytorch(results):
    pytest.importorskip("torch")
    side = Library("torch")
    for line in list(cases.lines())[::10]:
        assert difference(side.run(line), results[line]) is None, line


def test_the_stubs_have_each_method():
    stubs = (Path(__file__).parents[1] / "stubs.pattern").read_text(encoding="utf-8")
    names = {name for names in attach.METHODS.values() for name in names} | set(attach.OTHER_NAMES) - {"mT"}
    names |= {name for name in vars(gb.Tensor) if name.endswith("_") and not name.startswith("_")} - {"requires_grad_"}
    assert [name for name in sorted(names) if f"gabbro._core.Tensor.{name}$:" not in stubs] == []


def test_signatures_can_be_read():
    for name in functions.__all__:
        value = getattr(gb, name)
        if inspect.isfunction(value):
            assert "args" not in inspect.signature(value).parameters or name in ("flip", "permute"), name
