"""The programs of examples/ run, and do what they say."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import gabbro as gb

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def example(name):
    gb.set_device("cpu")
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_digits_are_learned():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    assert example("digits").train(epochs=12) >= 0.98


def test_a_language_model_learns_a_text():
    text = "the quick brown fox jumps over the lazy dog. " * 20
    loss, written = example("char_lm").train(text, steps=12, length=5)
    assert loss < 2.9  # it begins with log(28) = 3.3
    assert len(written) == 13 and set(written) <= set(text)


def test_tensors_are_handed_over(capsys):
    example("dlpack").main()
    assert "seen by NumPy: [1. 1.]" in capsys.readouterr().out


def test_an_op_of_ones_own_has_its_gradient():
    assert example("custom_op").largest_error() < np.float32(1e-2)
