"""attention.py of packs: the gradient of attention as kernels compute it is the gradient, with rounding errors."""

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "testgen" / "templates"))
attention = pytest.importorskip("attention")
sdpa = torch.nn.functional.scaled_dot_product_attention


def drawn(dtype: Any, heads: int = 4, gain: float = 1.0) -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    shapes = [(2, 4, 5, 8), (2, heads, 7, 8), (2, heads, 7, 6)]
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [(x * g).to(dtype).requires_grad_() for x, g in zip(drawn, (gain, gain, 1.0), strict=True)]


def gradients(tensors: list[Any], **options: Any) -> list[Any]:
    result = sdpa(*tensors[:3], **options)
    numbers = torch.randn(result.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return [result.detach(), *torch.autograd.grad(result, tensors, numbers.to(result.dtype))]


@pytest.mark.parametrize("form", ["plain", "scale", "causal", "hidden", "added", "grouped"])
def test_in_f64_results_and_gradients_are_those_of_attention(form: str) -> None:
    tensors = drawn(torch.float64, heads=2 if form == "grouped" else 4)
    simple: dict[str, Any] = {"scale": {"scale": 0.3}, "causal": {"is_causal": True}, "grouped": {"enable_gqa": True}}
    options = simple.get(form, {})
    if form == "hidden":
        options = {"attn_mask": torch.ones(2, 1, 5, 7, dtype=torch.bool).tril(1)}
    if form == "added":
        bias = torch.randn(1, 4, 5, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64).requires_grad_()
        tensors, options = [*tensors, bias], {"attn_mask": bias}
    expected = gradients(tensors, **options)
    with attention.Recomputed() as mode:
        found = gradients(tensors, **options)
    assert mode.used
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-10)


def error(gain: float) -> float:
    """Of the gradient of values in f32, relative to f64."""
    exact = gradients([x.detach().double().requires_grad_() for x in drawn(torch.float32, gain=gain)])[3]
    with attention.Recomputed():
        found = gradients(drawn(torch.float32, gain=gain))[3]
    return float((found.double() - exact).norm() / exact.norm())


def test_large_scores_have_the_error_of_probabilities_that_are_computed_again() -> None:
    assert error(1.0) < 1e-6
    assert 10 * error(1.0) < error(100.0) < 1e-2


def test_mixed_precision_rounds_what_attention_takes() -> None:
    tensors = drawn(torch.float32)
    with attention.Recomputed(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert sdpa(*tensors).dtype == torch.bfloat16


def test_dropout_is_left_to_the_library() -> None:
    with attention.Recomputed() as mode:
        sdpa(*drawn(torch.float32), dropout_p=0.5)
    assert not mode.used
