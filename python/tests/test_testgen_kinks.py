"""kinks.py and draws.py of packs: derivatives at the oracle's side of a kink, random numbers that no device changes."""

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "testgen" / "templates"))
choices, draws, kinks = (pytest.importorskip(name) for name in ("choices", "draws", "kinks"))
functional = torch.nn.functional


def run(x: Any, mode: Any) -> tuple[Any, Any]:
    """relu(x) and its gradient in a mode."""
    x = x.clone().requires_grad_()
    with mode:
        y = functional.relu(x)
    return y.detach(), torch.autograd.grad(y.sum(), x)[0]


EXACT = torch.tensor([1e-9, -1e-4, 0.5, -0.5], dtype=torch.float64)
ROUNDED = torch.tensor([-2e-4, 1e-4, -0.5, -0.5])  # the first two are on the other side, the third is wrong


def recorded() -> list[Any]:
    with choices.Choices() as exact:
        functional.relu(EXACT.clone().requires_grad_())
    return exact.made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_slopes_are_the_oracles_within_rounding_alone(dtype: Any) -> None:
    x = ROUNDED.to(dtype)
    value, slope = run(x, choices.Choices(recorded(), [3e-4]))
    assert torch.equal(value, x.clamp_min(0))
    assert slope.tolist() == [1, 0, 0, 0]
    assert run(x, choices.Choices())[1].tolist() == [0, 1, 0, 0]


def test_a_wrong_derivative_of_the_device_stays_wrong() -> None:
    class Wrong(torch.overrides.TorchFunctionMode):  # type: ignore[misc,unused-ignore]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result + 0.5 * (args[0] - args[0].detach()) if func is functional.relu else result

    with Wrong():
        slope = run(ROUNDED, choices.Choices(recorded(), [3e-4]))[1]
    assert slope.tolist() == [1.5, 0.5, 0.5, 0.5]


def test_the_tolerance_of_a_kink_is_that_of_its_argument() -> None:
    exact, close = choices.Choice(torch.tensor([1.0, -2.0])), choices.Choice(torch.tensor([1.0, -2.25]))
    assert choices.tolerance(close, exact, 4.0, 0.5) == 4 * 0.25 + 0.5 * 2
    assert not choices.fits(exact, choices.Choice(exact.scores, torch.tensor([0, 1])))


def test_nothing_is_recorded_where_no_gradient_is_taken() -> None:
    with choices.Choices() as mode, torch.no_grad():
        functional.relu(EXACT.clone().requires_grad_())
    assert mode.made == []


@pytest.mark.parametrize(
    "draw",
    [lambda x: torch.empty_like(x).uniform_(-1, 2), torch.rand_like, lambda x: torch.randn(3, 2, dtype=x.dtype),
     lambda x: torch.rand(size=(3, 2), dtype=x.dtype), torch.bernoulli, lambda x: torch.empty_like(x).bernoulli_(x),
     lambda x: torch.randint(0, 9, (3, 2)), lambda x: torch.randperm(6).view(3, 2)],
)  # fmt: skip
def test_numbers_are_the_same_in_every_data_type(draw: Any) -> None:
    found = []
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(5)
        with draws.SameDraws():
            found.append(draw(torch.full((3, 2), 0.5, dtype=dtype)))
        assert found[-1].dtype in (dtype, torch.long)
    torch.manual_seed(5)
    assert torch.equal(found[0].double(), found[1].double())
    assert torch.equal(found[0], draw(torch.full((3, 2), 0.5)))  # those that the CPU draws in f32


def test_numbers_of_a_device_come_from_the_cpu() -> None:
    torch.manual_seed(5)
    with draws.SameDraws():
        torch.empty(8, device="meta").uniform_()
        assert torch.rand(2, device="meta").device.type == "meta"
        after = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal([torch.rand(count) for count in (8, 2, 3)][-1], after)


def test_a_generator_of_the_caller_is_used() -> None:
    with draws.SameDraws():
        found = torch.rand(4, generator=torch.Generator().manual_seed(3))
    assert torch.equal(found, torch.rand(4, generator=torch.Generator().manual_seed(3)))
