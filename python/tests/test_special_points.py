"""Values and derivatives at special points equal PyTorch's (tests/reference/make_special_point_fixtures.py)."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gabbro as gb
import special_points

CASES = dict(special_points.cases())
EXPECTED = np.load(Path(__file__).parent / "data" / "special_points.npz")


def _library() -> types.SimpleNamespace:
    def prelu(x: gb.Tensor, slope: float) -> gb.Tensor:
        layer = gb.nn.PReLU(init=slope, dtype=x.dtype)
        return layer(x)

    own = {
        "F": gb.nn.functional,
        "prelu": prelu,
        "amax": gb.max,
        "amin": gb.min,
        "cumprod": lambda x: gb.cumulative_prod(x, axis=-1),
        "topk": lambda x, k: gb.topk(x, k)[0],
    }
    return types.SimpleNamespace(**{**vars(gb), **own})


def derivatives(case: special_points.Case, dtype: Any) -> list[list[np.ndarray]]:
    """The values, then of each order the derivatives by each input."""
    library, inputs = _library(), [gb.tensor(x.tolist(), dtype=dtype) for x in case.inputs]
    numbers = list(range(len(inputs)))

    def total(order: int) -> Any:
        if order == 0:
            return lambda *x: case.function(library, *x).sum()
        below = gb.grad(total(order - 1), numbers)

        def weighted(*x: gb.Tensor) -> gb.Tensor:
            parts = [(g * gb.tensor(special_points.weights(g.shape).tolist(), dtype=dtype)).sum() for g in below(*x)]
            return sum(parts[1:], parts[0])

        return weighted

    result = [[case.function(library, *inputs).numpy()]]
    for order in range(case.order):
        result.append([g.numpy() for g in gb.grad(total(order), numbers)(*inputs)])
    return result


class Difference(NamedTuple):
    """One that is intended: of the derivatives of an order, where the inputs and PyTorch's result are such."""

    order: int
    where: Callable[[list[np.ndarray], np.ndarray], np.ndarray]


AT_NAN = Difference(1, lambda x, expected: np.isnan(x[0]))
INTENDED: dict[str, list[Difference]] = {
    # The array API standard: the sign of NaN is NaN.
    "sign": [Difference(0, lambda x, expected: np.isnan(x[0]))],
    # IEEE 754's power; PyTorch takes the square root.
    "pow_half": [
        Difference(0, lambda x, expected: x[0] == -np.inf),
        Difference(1, lambda x, expected: (x[0] == -np.inf) | (x[0] == 0)),
    ],
    # PyTorch gives 1 for some of these and 0 for others.
    **{name: [AT_NAN] for name in ("relu6", "hardtanh", "hardswish", "clamp_min", "clamp_max")},
    # PyTorch multiplies float64 by a sixth of float32.
    "hardsigmoid": [Difference(1, lambda x, expected: np.abs(expected - np.float32(1 / 6)) < 1e-9)],
    # PyTorch divides first, which overflows.
    "remainder": [Difference(0, lambda x, expected: np.isnan(expected))],
    # As the logarithms, which are not below -100.
    "binary_cross_entropy": [Difference(order, lambda x, expected: np.isinf(expected)) for order in (1, 2)],
    # The limit of the derivative of t · log(t) is left out where t is 0.
    "kl_div": [Difference(1, lambda x, expected: x[1] == 0)],
    # 1 - sigmoid(x) has few digits left, in PyTorch too.
    "silu": [Difference(2, lambda x, expected: np.abs(x[0]) > 20)],
    # Two terms of 1e40 cancel: what is left of them is their rounding.
    "pow": [Difference(2, lambda x, expected: (np.abs(x[0]) < 1e-30) & (np.abs(x[1]) < 1e-30))],
    # NaN, as the variance is.
    **{name: [Difference(1, lambda x, expected: np.isinf(x[0]).any(-1, keepdims=True))] for name in ("var_0", "var_1")},
}
WITHOUT_F64 = [
    "smooth_l1_loss",
    "smooth_l1_loss_half",
    "huber_loss",
    "l1_loss",
    "mse_loss",
    "layer_norm",
    "rms_norm",
    "group_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_special_points(name, dtype):
    """NaN where PyTorch has NaN; but a number may stand where PyTorch has NaN for a derivative of second order."""
    if dtype == "float64" and name in WITHOUT_F64:
        pytest.skip("not for float64")
    case = CASES[name]
    single = dtype == "float32"
    for order, results in enumerate(derivatives(case, getattr(gb, dtype))):
        for number, actual in enumerate(results):
            key = f"{name}/{dtype}/{order}" + (f"/{number}" if order else "")
            if key not in EXPECTED:
                continue  # PyTorch has no such derivative
            expected = EXPECTED[key]
            assert actual.shape == expected.shape
            absolute = case.absolute if single else 1e-12 * (case.absolute > 0)
            if expected.ndim > 1:  # elements of a row are sums of terms of one size
                finite = np.where(np.isfinite(expected), np.abs(expected), 0)
                absolute = absolute * np.maximum(1, finite.max(-1, keepdims=True))
            same = np.isclose(actual, expected, 1e-5 if single else 1e-10, absolute + 1e-43, equal_nan=True)
            if order > 1:
                same |= np.isnan(expected) & ~np.isnan(actual)
            inputs = [x.astype(dtype) for x in case.inputs]
            for intended in INTENDED.get(name, []):
                if intended.order == order:
                    same |= intended.where(inputs, expected)
            wrong = [
                f"at {[x[place[: x.ndim]] for x in inputs]} {place}: {actual[place]}, PyTorch {expected[place]}"
                for place in zip(*np.nonzero(~same), strict=True)
            ]
            assert not wrong, f"derivative {order} of {name} by input {number}:\n" + "\n".join(wrong)
