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


class Router(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """Takes the larger of two scores of each row: 1, and 1 + `gap` with an error of rounding in f32."""

    def __init__(self, dtype: Any, gap: float = 1e-4, rounding: float = 0.0) -> None:
        super().__init__()
        self.dtype, self.gap, self.rounding = dtype, gap, rounding

    def forward(self, x: Any) -> Any:
        scores = torch.stack([torch.ones_like(x), torch.ones_like(x) + self.gap - self.rounding], -1).to(self.dtype)
        chosen = torch.topk(scores, 1).indices[..., 0]
        return x.to(self.dtype) + chosen


def routed(gap: float) -> Any:
    """Values of the device and of the CPU where both choose as the oracle, in steps, against one pass."""
    x = torch.zeros(4, dtype=torch.float64)
    models = [Router(torch.float64, gap), Router(torch.float32, gap, 2e-4), Router(torch.float32, gap, 2e-4)]

    def plain(model: Any) -> Any:
        return model(x)

    def steps(model: Any) -> Any:
        return torch.cat([model(x[:3]), model(x[3:])])

    def once_more(model: Any) -> Any:  # as forms.hold() has it
        return plain(model) if model is models[1] else steps(model)

    again = choices.Again(once_more, models[1], models[0], models[2], forms=(plain, steps))
    return again.with_the_oracles_choices(3.0, 0.0)


def test_choices_are_followed_in_a_form_with_other_calls() -> None:
    got, close = routed(gap=1e-4)
    assert got.tolist() == close.tolist() == [1.0] * 4


def test_choices_between_scores_that_differ_stay() -> None:
    got, _ = routed(gap=-1e-1)
    assert got.tolist() == [0.0] * 4


def test_many_values_are_computed_once() -> None:
    calls: list[Any] = []

    def compute(model: Any) -> Any:
        calls.append(model.config._attn_implementation)
        value = model(torch.ones(1, dtype=torch.float64))
        return {"one": value, "two": 2 * value}

    models = Attention("eager", dtype=torch.float64), Attention("eager"), Attention("sdpa")
    kept: dict[Any, Any] = {}
    for name, size in (("one", 1.0), ("two", 2.0)):
        again = choices.OneOf(compute, models[1], models[0], models[2], name=name, kept=kept)
        assert again.holds(lambda value, size=size: bool((value - size).abs() < 1e-9))
        found = again.with_the_subjects_attention(lambda value, size=size: bool((value - size).abs() < 1e-9))
        assert [float(x) for x in found] == [pytest.approx(1.001 * size)]
        assert float(again.close(0)) == float(again.close(1)) == pytest.approx(size)
        assert again.with_the_oracles_choices(3.0, 0.0) is None  # nothing is chosen
    assert calls.count("sdpa") == 3 and len(calls) == 8
