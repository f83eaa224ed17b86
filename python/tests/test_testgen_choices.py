"""The CPU's error with the device's attention, in choices.py of packs: a measure only where it is the same function."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "testgen" / "templates"))
choices = pytest.importorskip("choices")


class Attention(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """Eager attention returns x; SDPA a value that is `wrong` more, and in f32 an error of rounding."""

    def __init__(self, implementation: str, wrong: float = 0.0, dtype: Any = None) -> None:
        super().__init__()
        self.config = types.SimpleNamespace(_attn_implementation=implementation)
        self.wrong, self.dtype = wrong, dtype or torch.float32

    def forward(self, x: Any) -> Any:
        if self.config._attn_implementation == "eager":
            return x.to(self.dtype)
        return (x + self.wrong).to(self.dtype) + (1e-3 if self.dtype == torch.float32 else 0.0)


def measures(implementation: str, wrong: float = 0.0) -> list[float]:
    x = torch.ones(1, dtype=torch.float64)
    oracle, reference = Attention("eager", wrong, torch.float64), Attention("eager", wrong)
    again = choices.Again(lambda model: model(x), reference, oracle, Attention(implementation, wrong))
    found = again.with_the_subjects_attention(lambda value: bool((value - x).abs() < 1e-9))
    assert oracle.config._attn_implementation == reference.config._attn_implementation == "eager"
    return [float(value) for value in found]


def test_the_devices_attention_is_a_measure() -> None:
    assert measures("sdpa") == [pytest.approx(1.001)]


def test_another_function_is_no_measure() -> None:
    assert measures("sdpa", wrong=0.5) == []


def test_equal_attention_is_not_measured_again() -> None:
    assert measures("eager") == []
