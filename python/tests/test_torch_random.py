"""Random programs over PyTorch's functions, with gradients, views and in-place forms: results are PyTorch's."""

import pytest

from torch_random import ours, recorded


def test_recorded_programs_give_what_pytorch_gave():
    programs = recorded.load()
    found = {ours.text_of(program): ours.difference(program) for program in programs}
    assert {text: difference for text, difference in found.items() if difference is not None} == {}


def test_each_mode_is_recorded():
    programs = recorded.load()
    for mode in ("plain", "printed", "compiled"):
        assert sum(program["mode"] == mode for program in programs) >= 20
    assert sum(bool(program["gradients"]) for program in programs) >= 100


def test_new_programs_give_what_pytorch_gives():
    pytest.importorskip("torch")
    from torch_random import generate

    differences = {seed: ours.difference(generate.drawn(seed)) for seed in range(5000, 5300)}
    assert {seed: text for seed, text in differences.items() if text is not None} == {}
