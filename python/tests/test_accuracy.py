"""Sums of many elements, and compositions of half precision, are as accurate as NumPy's in float64."""

import math

import numpy as np
import pytest

import gabbro as gb
import gabbro.nn.functional as F

EPSILON = 2.0**-24  # of float32, half a unit in the last place


def double(x: gb.Tensor) -> np.ndarray:
    return x.astype(gb.float64).numpy()


def tensor(x: np.ndarray, dtype: object) -> gb.Tensor:
    return gb.tensor(x.astype("f4")).astype(dtype) if dtype in (gb.float16, gb.bfloat16) else gb.tensor(x)


# One axis of many elements; and the forms that the axes of a shape can have: all, leading, middle, last, and apart.
SHAPES = [
    ((100_003,), None),
    ((30_011, 3), 0),
    ((4099, 37), 0),
    ((307, 301), 0),
    ((67, 5, 61), 1),
    ((17, 6001), 1),
    ((40, 3, 700), (0, 2)),
    ((9, 2, 5003), (0, 2)),
    ((400, 5, 7, 3), (0, 2, 3)),
    ((16, 9, 31), (0, 2)),
]


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", [gb.float32, gb.float64, gb.float16, gb.bfloat16], ids=str)
def test_variance_far_from_zero(rng, shape, axis, dtype):
    """Not the mean but the spread of the elements decides what is lost, in blocks as between them."""
    is_half = dtype in (gb.float16, gb.bfloat16)
    mean = 100.0 if is_half else 1e4
    # The blocks of a row have different means.
    x = tensor(
        mean
        + rng.standard_normal(shape) * (4 if is_half else 1)
        + np.linspace(0, 3, shape[0]).reshape(-1, *[1] * (len(shape) - 1)),
        dtype,
    )
    own = double(x)
    result = {gb.float64: 1e-11, gb.float32: 2e-6, gb.float16: 2.0**-10, gb.bfloat16: 2.0**-7}[dtype]
    for correction in (0, 1):
        np.testing.assert_allclose(
            double(gb.var(x, axis, correction=correction)), own.var(axis, ddof=correction), rtol=result
        )
        np.testing.assert_allclose(
            double(gb.std(x, axis, correction=correction)), own.std(axis, ddof=correction), rtol=result
        )
    np.testing.assert_allclose(double(gb.mean(x, axis)), own.mean(axis), rtol=result / 2)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("device", ["cpu", "sim:0", "sim:1"])
def test_equal_elements_have_no_variance_and_no_gradient(device_named, device, shape, axis):
    """Also of a number whose mean is not exact, in float32 and float64."""
    if device != "cpu" and np.prod(shape) > 20_000:
        pytest.skip("much for the simulator")
    device_named(device)
    for dtype in (gb.float32, gb.float64) if device == "cpu" else (gb.float32,):
        x = gb.full(shape, 0.1, dtype=dtype)
        assert not gb.std(x, axis).numpy().any() and not gb.var(x, axis, correction=1).numpy().any()
        for correction in (0, 1):
            gradient = gb.grad(lambda x, c=correction: gb.std(x, axis, correction=c).sum())(x)
            assert not gradient.numpy().any()


@pytest.mark.parametrize("dtype", [gb.float16, gb.bfloat16])
def test_logaddexp_of_halves_is_rounded_once(rng, dtype):
    """Also near 0, where the larger number and the logarithm cancel."""
    a = gb.tensor(-rng.random(999), dtype=dtype)
    b = gb.tensor(np.log(-np.expm1(double(a)) + 1e-3), dtype=dtype)
    exact = np.logaddexp(double(a), double(b))
    one_ulp = 2.0**-10 if dtype == gb.float16 else 2.0**-7
    np.testing.assert_allclose(double(gb.logaddexp(a, b)), exact, rtol=one_ulp, atol=2.0**-22)


def test_long_rows_of_infinities_and_large_numbers():
    rows = np.ones((3, 9000), "f4")
    rows[0, 5000], rows[1, 100] = np.inf, np.nan
    rows[2, ::2] = 3e19  # their squares are not finite in float32
    x = gb.tensor(rows)
    for axis, value in ((1, x), (0, x.T)):
        got = gb.var(value, axis=axis).numpy()
        assert np.isnan(got[:2]).all() and abs(got[2] / 2.25e38 - 1) < 1e-6


@pytest.mark.parametrize("rows", [1, 40])
def test_long_sums(rng, rows):
    """Rounding errors grow with the depth of a tree of sums and not with the number of elements."""
    x = (1 + rng.random((rows, 1_600_000 // rows))).astype("f4")
    wide, t = x.astype("f8"), gb.tensor(x)
    for value, axis in ((t, 1), (t.T, 0)):
        np.testing.assert_allclose(gb.sum(value, axis).numpy(), wide.sum(1), rtol=20 * EPSILON)
        np.testing.assert_allclose(gb.mean(value, axis).numpy(), wide.mean(1), rtol=20 * EPSILON)
        np.testing.assert_allclose(gb.logsumexp(value, axis).numpy(), np.log(np.exp(wide).sum(1)), rtol=20 * EPSILON)
    strided = gb.sum(t[:, ::2], 1)
    np.testing.assert_allclose(strided.numpy(), wide[:, ::2].sum(1), rtol=20 * EPSILON)
    probabilities = double(gb.softmax(t, 1))
    exact = np.exp(wide)
    np.testing.assert_allclose(probabilities, exact / exact.sum(1, keepdims=True), rtol=40 * EPSILON)


def test_means_of_large_windows(rng):
    x = (1 + rng.random((1, 2, 1021, 1019))).astype("f4")
    got = F.adaptive_avg_pool2d(gb.tensor(x), 1).numpy()[..., 0, 0]
    np.testing.assert_allclose(got, x.astype("f8").mean((2, 3)), rtol=4 * EPSILON)


@pytest.mark.parametrize("shape", [(1, 150_001), (3, 40_003), (30, 5000)])
def test_norms_of_long_rows(rng, shape):
    x = (1000 + rng.standard_normal(shape) + np.linspace(0, 2, shape[1])).astype("f4")
    wide, t = x.astype("f8"), gb.tensor(x)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    # The mean is rounded to float32, and so are the distances from it.
    tolerance = 4 * EPSILON * 1000
    np.testing.assert_allclose(gb.layer_norm(t).numpy(), expected, atol=tolerance)
    weight, bias = rng.standard_normal((2, shape[1])).astype("f4")
    np.testing.assert_allclose(
        gb.layer_norm(t, gb.tensor(weight), gb.tensor(bias)).numpy(), expected * weight + bias, atol=5 * tolerance
    )
    channels = gb.reshape(t, (shape[0], 1, shape[1]))
    np.testing.assert_allclose(gb.group_norm(channels, 1).numpy()[:, 0], expected, atol=tolerance)
    root = np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(F.rms_norm(t, shape[1:], eps=1e-5).numpy(), wide / root, rtol=20 * EPSILON)


def normalized(x: np.ndarray, centered: bool = True) -> np.ndarray:
    """The rows of x with a mean of 0 (if `centered`) and a mean square of 1, in float64."""
    x = x.astype("f8")
    distance = x - x.mean(-1, keepdims=True) if centered else x
    return distance / np.sqrt((distance * distance).mean(-1, keepdims=True))


LARGE = -3e38  # a weight whose product with 1 / sqrt(variance) is infinite


def large_norms() -> dict:
    """By name: a norm of [3, 4, C] with large weights, and what it multiplies them by."""

    def flat(x, rows):
        return normalized(x.reshape(*rows, -1)).reshape(x.shape)

    channels = gb.full(4, LARGE)

    def columns(x):
        return gb.full(x.shape[-1], LARGE)

    def batch(x):
        return normalized(x.swapaxes(0, 1).reshape(4, -1)).reshape(4, 3, -1).swapaxes(0, 1)

    return {
        "layer_norm": (lambda x: gb.layer_norm(x, columns(x), None, 1e-20), normalized),
        "rms_norm": (lambda x: F.rms_norm(x, x.shape[-1:], columns(x), 1e-20), lambda x: normalized(x, False)),
        "group_norm": (lambda x: gb.group_norm(x, 2, channels, None, 1e-20), lambda x: flat(x, (3, 2))),
        "batch_norm": (
            lambda x: gb.batch_norm(x, gb.zeros(4), gb.ones(4), channels, training=True, eps=1e-20),
            batch,
        ),
    }


@pytest.mark.parametrize("device", ["cpu", "sim:0", "sim:1"])
@pytest.mark.parametrize("columns", [7, 64])
@pytest.mark.parametrize("name", list(large_norms()))
def test_weights_of_norms_are_multiplied_last(device_named, rng, device, columns, name):
    """A result is finite where it is in float64, though the weight times 1 / sqrt(variance) is not."""
    device_named(device)
    norm, factor = large_norms()[name]
    x = (0.01 * rng.standard_normal((3, 4, columns))).astype("f4")
    expected = factor(x) * LARGE
    finite = np.abs(expected) < 3.4e38
    assert finite.sum() > x.size / 2
    got = norm(gb.tensor(x)).numpy()
    assert not np.isnan(got).any()
    np.testing.assert_allclose(got[finite], expected[finite], rtol=1e-5, atol=3e38 * 1e-5)


@pytest.mark.parametrize("name", list(large_norms()))
def test_gradients_of_norms_with_large_weights(rng, name):
    norm, factor = large_norms()[name]
    x = (0.01 * rng.standard_normal((3, 4, 7))).astype("f4")
    dy = rng.standard_normal(x.shape)

    def loss(x):  # in float64; its values are not used
        return (factor(x) * dy).sum() * -3

    step = 1e-7
    expected = np.empty(x.shape)
    for i in np.ndindex(x.shape):
        above, below = x.astype("f8"), x.astype("f8")
        above[i] += step
        below[i] -= step
        expected[i] = (loss(above) - loss(below)) / (2 * step)
    scale = gb.tensor((1e-38 * dy).astype("f4"))
    got = gb.grad(lambda x: (norm(x) * scale).sum())(gb.tensor(x)).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("device", ["cpu", "sim:0", "sim:1"])
@pytest.mark.parametrize("dtype", [gb.float16, gb.bfloat16], ids=str)
def test_squares_in_half_precision(device_named, rng, device, dtype):
    """Norms, products and their gradients are computed in float32, where squares of 256 and more are finite."""
    device_named(device)
    unit = 2.0**-10 if dtype is gb.float16 else 2.0**-7
    x, y = (gb.tensor((scale * rng.standard_normal((5, 7))).astype("f4")).astype(dtype) for scale in (3000, 1e-3))
    for a in (x, y):
        wide = double(a)
        norm = np.sqrt((wide * wide).sum(1, keepdims=True))
        np.testing.assert_allclose(double(F.normalize(a)), wide / norm, rtol=unit, atol=2.0**-24)
        assert F.normalize(a).dtype == dtype
        for b in (x, y):
            other = double(b)
            cosine = (wide * other).sum(1) / np.sqrt((wide * wide).sum(1) * (other * other).sum(1))
            np.testing.assert_allclose(double(F.cosine_similarity(a, b)), cosine, rtol=unit, atol=unit / 4)
    gradient = double(gb.grad(lambda x: F.normalize(x)[:, 0].sum())(x))
    wide = double(x)
    norm = np.sqrt((wide * wide).sum(1, keepdims=True))
    expected = -wide * wide[:, :1] / norm**3
    expected[:, 0] += 1 / norm[:, 0]
    np.testing.assert_allclose(gradient, expected, rtol=4 * unit, atol=2.0**-24)
    assert gb.vecdot(gb.tensor([300.0, 300.0], dtype=dtype), gb.tensor([300.0, -300.0], dtype=dtype)).item() == 0
    assert np.isfinite(double(gb.logaddexp(x, x))).all()


def test_cases_of_normalize():
    assert F.normalize(gb.tensor([[3, 4]])).tolist() == [[0.6000000238418579, 0.800000011920929]]
    np.testing.assert_allclose(double(F.normalize(gb.tensor([[0.0, 0.0]], dtype=gb.float16))), 0)
    with pytest.raises(ValueError, match=r"\[normalize\]"):
        F.normalize(gb.ones((2, 3)), dim=2)
    with pytest.raises(ValueError, match=r"\[cosine_similarity\]"):
        F.cosine_similarity(gb.ones((2, 3)), gb.ones((2, 4)))
    np.testing.assert_allclose(F.cosine_similarity(gb.ones((2, 3)), gb.ones(3)).numpy(), [1, 1], rtol=1e-6)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_results_do_not_depend_on_the_number_of_threads(rng, shape, axis):
    x = rng.standard_normal(shape).astype("f4")
    functions = [gb.sum, gb.mean, gb.var, gb.std, gb.logsumexp]
    results = []
    for threads in (1, 2, 5):
        t = gb.tensor(x, device=gb.Device("cpu", threads=threads))
        results.append([f(t, axis).numpy() for f in functions] + [gb.layer_norm(gb.reshape(t, (1, -1))).numpy()])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("beta", "threshold"), [(1, 20), (2, 20), (0.5, 10)])
def test_second_derivative_of_softplus(beta, threshold):
    """beta · s · (1 - s) with s = sigmoid(beta · x), and 0 above the threshold and at the infinities."""
    x = np.array([-1e4, -100, -50, -20.5, -20, -10, -1e-3, 0, 1e-3, 1, 4.9, 9.9, 10.1, 19.5, 20.1, 50, 1e4], "f4")
    first = gb.grad(lambda x: F.softplus(x, beta, threshold).sum())
    got = gb.grad(lambda x: first(x).sum())(gb.tensor(x)).numpy()
    s = 1 / (1 + np.exp(-beta * x.astype(np.longdouble)))
    expected = np.where(beta * x > threshold, 0, beta * s * (1 - s))
    np.testing.assert_allclose(got, expected, rtol=3e-6, atol=2.0**-149)
    ends = gb.grad(lambda x: first(x).sum())(gb.tensor([-math.inf, math.inf])).numpy()
    np.testing.assert_array_equal(ends, 0)


def wide(function):
    return lambda x: function(x.astype(np.longdouble))


def one_plus_exp(x):
    """As in PyTorch, exp overflows to infinity beyond the range of float32."""
    return np.where(np.exp(x) > np.finfo(np.float32).max, np.inf, 1 + np.exp(x))


# Elementwise functions by name: NumPy's in 80 bits, or Python's in 64.
FUNCTIONS = {
    **{n: wide(getattr(np, n)) for n in ("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "square")},
    **{n: wide(getattr(np, n)) for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{n: wide(getattr(np, "arc" + n[1:])) for n in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "rsqrt": wide(lambda x: 1 / np.sqrt(x)),
    "reciprocal": wide(lambda x: 1 / x),
    "sigmoid": wide(lambda x: 1 / one_plus_exp(-x)),
    "silu": wide(lambda x: x / one_plus_exp(-x)),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}


def error_in_ulps(got: np.ndarray, expected: np.ndarray, digits: int, smallest: int) -> np.ndarray:
    """Of a dtype with `digits` bits and a smallest number of 2 ** smallest. NaNs must agree."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    ordinary = np.isfinite(expected) & np.isfinite(got)
    got, expected = got[ordinary], expected[ordinary]
    exponent = np.where(expected == 0, smallest, np.maximum(np.frexp(expected)[1] - digits, smallest))
    return np.abs(got - expected) / np.ldexp(np.longdouble(1), exponent)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_within_a_few_units_of_the_last_place(name):
    """At floats of all exponents and both signs, every 9973rd of all there are."""
    x = np.arange(0, 2**32, 9973 if name != "erf" else 99_991, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x)
    got = getattr(gb, name)(gb.tensor(x)).numpy()
    with np.errstate(over="ignore"):
        rounded = expected.astype(np.float32)
    np.testing.assert_array_equal(np.isinf(got), np.isinf(rounded))
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))
    error = error_in_ulps(got.astype(np.longdouble), expected, 24, -149)
    assert error.max() <= {"sigmoid": 2.5, "silu": 3.5}.get(name, 2), f"{error.max():.3f} units"


@pytest.mark.parametrize("dtype", [gb.float16, gb.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_halves_are_rounded_once(name, dtype):
    """The nearest number, or one that is off by a thousandth of a unit more: all numbers of the dtype."""
    bits = np.arange(2**16, dtype=np.uint32)
    x = (bits << 16).view(np.float32) if dtype is gb.bfloat16 else bits.astype(np.uint16).view(np.float16)
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x)
    got = double(getattr(gb, name)(gb.tensor(x).astype(dtype)))
    digits, smallest = (11, -24) if dtype is gb.float16 else (8, -133)
    error = error_in_ulps(got.astype(np.longdouble), expected, digits, smallest)
    assert error.max() <= 0.501, f"{error.max():.4f} units"
