"""Functions with vector kernels on the CPU: accuracy against 80-bit arithmetic, special values against
NumPy, and that an element's value does not depend on where it is."""

import math
from fractions import Fraction

import numpy as np
import pytest

import gabbro as gb

INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, INF, -INF, NAN, 1e30, -1e30, 5e-324, -5e-324, 2.3e-308, 1.7e308, -1.7e308]
# The function, NumPy's, arguments from and to, units in the last place.
F64 = [
    ("exp", "exp", (-745, 709), 2),
    ("log", "log", (1e-300, 1e3), 2),
    ("log", "log", (0.5, 2), 2),
    ("sin", "sin", (-1e5, 1e5), 2),
    ("cos", "cos", (-1e5, 1e5), 2),
    ("tan", "tan", (-1e5, 1e5), 2.3),
    ("sin", "sin", (-1e9, 1e9), 2),
    ("tanh", "tanh", (-20, 20), 2),
    ("tanh", "tanh", (-0.5, 0.5), 2),
    ("expm1", "expm1", (-40, 700), 2),
    ("expm1", "expm1", (-0.7, 0.7), 2),
    ("log1p", "log1p", (-0.99, 5), 2),
    ("log2", "log2", (1e-3, 1e3), 2),
    ("log10", "log10", (1e-3, 1e3), 2),
    ("sinh", "sinh", (-20, 20), 2),
    ("cosh", "cosh", (-20, 20), 2),
    ("asin", "arcsin", (-1, 1), 2.5),
    ("acos", "arccos", (-1, 1), 2),
    ("atan", "arctan", (-50, 50), 2),
    ("asinh", "arcsinh", (-50, 50), 2),
    ("acosh", "arccosh", (1, 50), 2.5),
    ("atanh", "arctanh", (-1, 1), 2.1),
]


def units_off(actual, exact):
    """How far it is, in units in the last place of the result."""
    spacing = np.spacing(np.abs(exact.astype(actual.dtype)))
    return float(np.max(np.abs(actual.astype(np.longdouble) - exact) / spacing))


@pytest.mark.parametrize(("name", "numpy_name", "ends", "units"), F64)
def test_f64_is_within_two_units(rng, name, numpy_name, ends, units):
    x = rng.uniform(*ends, 20_011)
    actual = getattr(gb, name)(gb.tensor(x)).numpy()
    assert units_off(actual, getattr(np, numpy_name)(x.astype(np.longdouble))) <= units


def test_f64_sigmoid_is_within_two_units(rng):
    x = rng.uniform(-700, 40, 20_011)
    assert units_off(gb.sigmoid(gb.tensor(x)).numpy(), 1 / (1 + np.exp(-x.astype(np.longdouble)))) <= 2


@pytest.mark.parametrize(("name", "numpy_name"), sorted({row[:2] for row in F64}))
def test_special_values_are_numpys(name, numpy_name):
    x = np.array(SPECIAL)
    with np.errstate(all="ignore"):
        expected = getattr(np, numpy_name)(x)
    actual = getattr(gb, name)(gb.tensor(x)).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-15, atol=0)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("name", [*sorted({row[0] for row in F64}), "sigmoid", "erf"])
@pytest.mark.parametrize("dtype", [gb.float32, gb.float64])
def test_a_value_does_not_depend_on_its_index(name, dtype):
    x = gb.astype(gb.full(37, 0.73), dtype)
    function = getattr(gb, name)
    if name == "acosh":
        x = x + 1
    assert len(set(function(x.contiguous() if hasattr(x, "contiguous") else x + 0).numpy().tolist())) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_and_angles(rng, dtype):
    a, b = rng.uniform(0.01, 30, 10_007).astype(dtype), rng.uniform(-8, 8, 10_007).astype(dtype)
    for function, reference, units in ((gb.pow, np.power, 2), (gb.atan2, np.arctan2, 3), (gb.hypot, np.hypot, 2)):
        actual = function(gb.tensor(a), gb.tensor(b)).numpy()
        assert units_off(actual, reference(a.astype(np.longdouble), b.astype(np.longdouble))) <= units


def test_special_powers():
    values = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, INF, -INF, NAN, 0.5, 3.0, -3.0])
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        for dtype in ("float32", "float64"):
            x, y = a.astype(dtype), b.astype(dtype)
            actual, expected = gb.pow(gb.tensor(x), gb.tensor(y)).numpy(), np.power(x, y)
            np.testing.assert_allclose(actual, expected, rtol=2 * np.finfo(dtype).eps, atol=0)
            np.testing.assert_array_equal(np.signbit(actual[expected == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floor_division_and_remainder_of_floats(rng, dtype):
    a = (rng.uniform(-1, 1, 4099) * 10.0 ** rng.integers(-6, 12, 4099)).astype(dtype)
    b = (rng.uniform(-1, 1, 4099) * 10.0 ** rng.integers(-6, 6, 4099)).astype(dtype)
    a[:200] = np.round(b[:200] * 16) * 3  # whole quotients among them
    b[:200] = np.round(b[:200] * 16)
    values = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 7.5, -7.5, 1e30], dtype)
    specials = np.meshgrid(values, values)
    a, b = np.concatenate([a, specials[0].ravel()]), np.concatenate([b, specials[1].ravel()])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((gb.tensor(a) % gb.tensor(b)).numpy(), np.remainder(a, b))
        whole, expected = (gb.tensor(a) // gb.tensor(b)).numpy(), np.floor_divide(a, b)
        exact = np.isfinite(a) & (b != 0) & np.isfinite(b) & (np.abs(a / b) < (2**23 if dtype == "float32" else 2**50))
    # NumPy divides a rounded difference, and is one off where the quotient has nearly all bits.
    floors = [math.floor(Fraction(float(x)) / Fraction(float(y))) for x, y in zip(a[exact], b[exact], strict=True)]
    assert whole[exact].tolist() == floors
    np.testing.assert_allclose(whole, expected, rtol=2 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.signbit(whole[expected == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_floor_division_and_remainder_of_integers(rng, dtype):
    info = np.iinfo(dtype)
    a = rng.integers(info.min, info.max, 4099, dtype=dtype, endpoint=True)
    b = rng.integers(info.min, info.max, 4099, dtype=dtype, endpoint=True)
    b[:2000] //= max(1, info.max // 9)
    ends = np.array([info.min, info.max, 0, 1, *([-1] if info.min < 0 else [])], dtype)
    specials = np.meshgrid(ends, ends)
    a, b = np.concatenate([a, specials[0].ravel()]), np.concatenate([b, specials[1].ravel()])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((gb.tensor(a) // gb.tensor(b)).numpy(), np.floor_divide(a, b))
        np.testing.assert_array_equal((gb.tensor(a) % gb.tensor(b)).numpy(), np.remainder(a, b))


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(1,), (37,), (5, 37), (3, 1, 19), (2, 3, 4, 33)])
def test_reversed_copies(rng, dtype, shape):
    x = (rng.standard_normal(shape) * 9).astype(dtype)
    y = gb.tensor(x)
    for bits in range(1, 2 ** len(shape)):
        axes = tuple(axis for axis in range(len(shape)) if bits >> axis & 1)
        np.testing.assert_array_equal(gb.flip(y, axes).numpy(), np.flip(x, axes))
        np.testing.assert_array_equal(
            gb.flip(y.mT if y.ndim > 1 else y, axes).numpy(), np.flip(x.swapaxes(-1, -2) if x.ndim > 1 else x, axes)
        )
    np.testing.assert_array_equal(y[..., ::-2].numpy(), x[..., ::-2])


def test_the_gradient_of_a_reversed_copy_is_reversed():
    weights = gb.tensor(np.arange(12.0, dtype="float32").reshape(3, 4))
    gradient = gb.grad(lambda x: gb.sum(x[::-1, ::-1] * weights))(gb.zeros((3, 4)))
    np.testing.assert_array_equal(gradient.numpy(), weights.numpy()[::-1, ::-1])
