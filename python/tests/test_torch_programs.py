"""Programs for PyTorch with another import: the losses of their first ten steps are PyTorch's from equal weights."""

import importlib
import json

import pytest

from torch_programs.record import FOLDER, PROGRAMS, with_torch

RECORDED = json.loads((FOLDER / "losses.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_those_of_pytorch(name):
    found = importlib.import_module(f"torch_programs.{name}").losses()
    assert found == pytest.approx(RECORDED[name], rel=1e-4, abs=1e-4)
    assert len(found) == 10


@pytest.mark.parametrize("name", PROGRAMS)
def test_recorded_losses_are_those_of_pytorch(name):
    pytest.importorskip("torch")
    assert with_torch(name) == pytest.approx(RECORDED[name], rel=1e-5, abs=1e-5)
