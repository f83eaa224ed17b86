"""The op functions against NumPy: each name is bound to its function, with the arguments in the right order.

(Values, shapes and dtypes of the ops themselves are tested in C++, on every backend.)
"""

import math

import numpy as np
import pytest

import gabbro as gb
from conftest import close

UNARY = {
    "negative": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "exp2": np.exp2, "expm1": np.expm1, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
    "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "sign": np.sign, "square": np.square,
    "acosh": lambda x: np.arccosh(x + 1), "asin": lambda x: np.arcsin(x / 4), "acos": lambda x: np.arccos(x / 4),
    "atanh": lambda x: np.arctanh(x / 4), "tan": lambda x: np.tan(x / 4),
    "ceil": np.ceil, "round": np.round, "trunc": np.trunc,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "floor": np.floor,
    "erf": np.vectorize(math.erf, otypes="f"), "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf, otypes="d")(x / math.sqrt(2))) / 2,
}  # fmt: skip
BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "pow": np.power, "equal": np.equal, "not_equal": np.not_equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "atan2": np.arctan2, "hypot": np.hypot,
    "trunc_divide": lambda a, b: np.trunc(a / b), "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
BITS = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift,
}  # fmt: skip


BEFORE = {"acosh": lambda x: x + 1, **dict.fromkeys(["asin", "acos", "atanh", "tan"], lambda x: x / 4)}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name, rng):
    x = rng.random((3, 7)).astype("float32") * 3 + 0.1
    argument = gb.tensor(BEFORE.get(name, lambda x: x)(x))
    expected = UNARY[name](x.astype("float64")).astype("float32")
    close(getattr(gb, name)(argument), expected, epsilons=32)
    if hasattr(argument, name):
        close(getattr(argument, name)(), expected, epsilons=32)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name, rng):
    a, b = (rng.integers(1, 4, shape).astype("float32") for shape in ((3, 1, 2), (5, 1)))
    function = getattr(gb.array_api, name)
    close(function(gb.tensor(a), gb.tensor(b)), BINARY[name](a, b))
    close(function(gb.tensor(a), 2), BINARY[name](a, np.float32(2)))
    close(function(2, gb.tensor(a)), BINARY[name](np.float32(2), a))


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_bits(name, dtype, rng):
    a, b = rng.integers(0, 100, (3, 5)).astype(dtype), rng.integers(0, 7, 5).astype(dtype)
    close(getattr(gb, name)(gb.tensor(a), gb.tensor(b)), BITS[name](a, b))
    close(gb.bitwise_invert(gb.tensor(a)), ~a)


def test_tests():
    x = np.array([1, np.nan, np.inf, -np.inf], "float32")
    close(gb.isnan(gb.tensor(x)), np.isnan(x))
    close(gb.isinf(gb.tensor(x)), np.isinf(x))
    close(gb.isfinite(gb.tensor(x)), np.isfinite(x))
    close(gb.logical_not(gb.tensor([0, 5])), np.array([True, False]))


def test_short_names_are_the_same_functions():
    for short, name in {"neg": "negative", "sub": "subtract", "mul": "multiply", "div": "divide",
                        "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
                        "clamp": "clip", "bitwise_not": "bitwise_invert",
                        "cast": "astype"}.items():  # fmt: skip
        assert getattr(gb, short) is getattr(gb, name)
    assert gb.array_api.eq is gb.array_api.equal


AXES = [None, 0, -1, (0, 2), (1,), ()]


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var", "any", "all", "count_nonzero"])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims, rng):
    x = rng.random((3, 5, 4)).astype("float32") * (rng.random((3, 5, 4)) < 0.7)
    x = x.astype("float32")
    expected = np.asarray(getattr(np, name)(x.astype("float64"), axis=axis, keepdims=keepdims))
    expected = expected.astype({"f": "float32", "i": "int64", "b": "bool"}[expected.dtype.kind])
    close(getattr(gb, name)(gb.tensor(x), axis=axis, keepdims=keepdims), expected, epsilons=8 * 5)
    if hasattr(gb.Tensor, name):
        close(getattr(gb.tensor(x), name)(axis=axis, keepdims=keepdims), expected, epsilons=8 * 5)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_places(name, axis, rng):
    x = rng.integers(0, 4, (3, 5)).astype("float32")
    for keepdims in (False, True):
        expected = np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims))
        close(getattr(gb, name)(gb.tensor(x), axis, keepdims), expected.astype("int64"))


def test_reductions_with_arguments(rng):
    x = rng.random((3, 5)).astype("float32")
    close(gb.var(gb.tensor(x), axis=-1, correction=1), x.var(axis=-1, ddof=1), epsilons=8 * 5)
    close(gb.tensor(x).std(0, correction=1), x.std(axis=0, ddof=1), epsilons=8 * 5)
    close(gb.logsumexp(gb.tensor(x), axis=1), np.log(np.exp(x).sum(1)), epsilons=16)
    close(gb.cumsum(gb.tensor(x), axis=0), x.cumsum(axis=0), epsilons=8 * 3)
    close(gb.sum(gb.tensor([True, True])), np.int64(2))
    close(gb.sum(gb.tensor([300, 5]), dtype="int8"), np.int8(300 + 5 - 256))
    close(gb.mean(gb.tensor([1, 2])), np.float32(1.5))


def test_sorting(rng):
    x = rng.permutation(15).reshape(3, 5).astype("float32")
    close(gb.sort(gb.tensor(x), axis=0), np.sort(x, axis=0))
    close(gb.sort(gb.tensor(x), axis=-1, descending=True), -np.sort(-x))
    close(gb.argsort(gb.tensor(x)), np.argsort(x))
    values, indices = gb.topk(gb.tensor(x), 2, largest=False)
    close(values, np.sort(x)[:, :2])
    close(indices, np.argsort(x)[:, :2])


def test_picking(rng):
    x, i = rng.random((5, 3)).astype("float32"), np.array([4, 0, 0], "int32")
    close(gb.gather(gb.tensor(x), gb.tensor(i)), x[i])
    close(gb.embedding(gb.tensor(i), gb.tensor(x)), x[i])
    close(gb.take_along_axis(gb.tensor(x), gb.tensor(i[None]), axis=0), np.take_along_axis(x, i[None].astype(int), 0))
    expected = np.zeros((5, 3), "float32")
    np.add.at(expected, i, 1)
    close(gb.index_add(gb.zeros((5, 3)), gb.tensor(i), gb.ones((3, 3))), expected)
    close(gb.scatter_add(gb.zeros(5), gb.tensor(i), gb.ones(3), axis=0), expected[:, 0])
    close(gb.tril(gb.tensor(x), -1), np.tril(x, -1))
    close(gb.triu(gb.tensor(x), k=1), np.triu(x, 1))


def test_shaping(rng):
    x = rng.random((2, 3)).astype("float32")
    close(gb.reshape(gb.tensor(x), 6), x.reshape(6))
    close(gb.permute_dims(gb.tensor(x), (1, 0)), x.T)
    close(gb.broadcast_to(gb.tensor(x), (4, 2, 3)), np.broadcast_to(x, (4, 2, 3)))
    close(gb.concat([gb.tensor(x), gb.tensor(x)], axis=-1), np.concatenate([x, x], axis=-1))
    close(gb.where(gb.tensor(x) > 0.5, gb.tensor(x), 0), np.where(x > 0.5, x, np.float32(0)))
    close(gb.clamp(gb.tensor(x), 0.25, 0.75), x.clip(0.25, 0.75))
    close(gb.clamp(gb.tensor(x), max=0.75), x.clip(None, 0.75))
    close(gb.astype(gb.tensor(x), gb.float16), x.astype("float16"))


@pytest.mark.parametrize("arguments", [(5,), (2, 5), (1, 8, 3), (0, 1, 0.25), (5, 0, -1), (3, 3)])
def test_arange(arguments):
    expected = np.arange(*arguments)
    close(gb.arange(*arguments), expected.astype("int64" if expected.dtype.kind == "i" else "float32"))


def test_networks(rng):
    x, w, b = (rng.random(shape).astype("float32") for shape in ((2, 3), (4, 3), (4,)))
    close(gb.linear(gb.tensor(x), gb.tensor(w), gb.tensor(b)), x @ w.T + b, epsilons=8 * 3)
    exponentials = np.exp(x)
    close(gb.softmax(gb.tensor(x)), exponentials / exponentials.sum(-1, keepdims=True), epsilons=16)
    close(gb.log_softmax(gb.tensor(x)), x - np.log(exponentials.sum(-1, keepdims=True)), epsilons=16)
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + np.float32(1e-5))
    close(gb.layer_norm(gb.tensor(x)), normal, epsilons=64)
    close(gb.group_norm(gb.tensor(x), 1), normal, epsilons=64)
    mean, var = x.mean(0), x.var(0)
    close(gb.batch_norm(gb.tensor(x), gb.tensor(mean), gb.tensor(var)), (x - mean) / np.sqrt(var + np.float32(1e-5)),
          epsilons=64)  # fmt: skip
    for name in ("softmax", "log_softmax"):
        function = getattr(gb, name)
        close(function(gb.tensor(x), dim=0), function(gb.tensor(x), axis=0).numpy(), epsilons=0)
        with pytest.raises(ValueError, match="two names of one argument"):
            function(gb.tensor(x), 0, dim=0)
    running_mean, running_var = gb.zeros(3), gb.ones(3)
    y = gb.batch_norm(gb.tensor(x), running_mean, running_var, gb.ones(3), gb.zeros(3), training=True, momentum=0.25)
    close(y, (x - mean) / np.sqrt(var + np.float32(1e-5)), epsilons=64)
    close(running_mean, mean * np.float32(0.25), epsilons=16)
    close(running_var, np.float32(0.75) + np.float32(0.25) * x.var(0, ddof=1), epsilons=16)
    rms = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5))
    close(gb.rms_norm(gb.tensor(x), gb.ones(3)), rms, epsilons=16)


def test_batches_of_matrices(rng):
    a, b = rng.standard_normal((3, 2, 5), "float32"), rng.standard_normal((3, 5, 4), "float32")
    for product in (gb.bmm, gb.batch_matmul):
        close(product(gb.tensor(a), gb.tensor(b)), a @ b, epsilons=8 * 5)
        for shapes in (((3, 2, 5), (5, 4)), ((2, 5), (5, 4)), ((3, 2, 5), (1, 5, 4)), ((3, 2, 5), (3, 4, 4))):
            with pytest.raises(ValueError, match=r"\[(batch_matmul|bmm|matmul)\]"):
                product(gb.zeros(shapes[0]), gb.zeros(shapes[1]))
    close(gb.transpose(gb.tensor(a)), np.swapaxes(a, -1, -2), epsilons=0)
    close(gb.transpose(gb.tensor(a), 0, 2), np.swapaxes(a, 0, 2), epsilons=0)


def test_windows(rng):
    x, w = rng.integers(0, 3, (1, 2, 5, 6)).astype("float32"), rng.integers(0, 3, (3, 2, 2, 3)).astype("float32")
    expected = np.zeros((1, 3, 4, 4), "float32")
    for i in range(4):
        for j in range(4):
            expected[:, :, i, j] = np.tensordot(x[:, :, i : i + 2, j : j + 3], w, ((1, 2, 3), (1, 2, 3)))
    close(gb.conv2d(gb.tensor(x), gb.tensor(w)), expected)
    close(gb.conv2d(gb.tensor(x), gb.tensor(w), stride=(3, 2)), expected[:, :, ::3, ::2])
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2)))
    close(gb.conv2d(gb.tensor(x), gb.tensor(w), padding=(1, 2)), gb.conv2d(gb.tensor(padded), gb.tensor(w)).numpy())
    windows = x[:, :, :4].reshape(1, 2, 2, 2, 3, 2)
    close(gb.max_pool2d(gb.tensor(x), 2), windows.max((3, 5)))
    close(gb.avg_pool2d(gb.tensor(x), (2, 2), stride=2), windows.mean((3, 5)))
    close(gb.adaptive_avg_pool2d(gb.tensor(x), (1, 2)), x.reshape(1, 2, 1, 5, 2, 3).mean((3, 5)), epsilons=64)
    close(gb.interpolate(gb.tensor(x), (10, 12)), x.repeat(2, 2).repeat(2, 3))


def test_losses(rng):
    x, target = (rng.random((3, 4)).astype("float32") for _ in range(2))
    squares = (x - target) ** 2
    close(gb.mse_loss(gb.tensor(x), gb.tensor(target)), squares.mean(), epsilons=8 * 12)
    close(gb.mse_loss(gb.tensor(x), gb.tensor(target), reduction="none"), squares)
    close(gb.l1_loss(gb.tensor(x), gb.tensor(target), reduction="sum"), np.abs(x - target).sum(), epsilons=8 * 12)
    logarithms = x - np.log(np.exp(x).sum(-1, keepdims=True))
    classes = np.array([1, -100, 3], "int32")
    chosen = -logarithms[[0, 2], [1, 3]]
    close(gb.cross_entropy(gb.tensor(x), gb.tensor(classes)), chosen.mean(), epsilons=32)
    close(gb.nll_loss(gb.tensor(logarithms), gb.tensor(classes), reduction="sum"), chosen.sum(), epsilons=32)


def test_random_numbers():
    gb.seed(3)
    a, b = gb.rand(1000), gb.rand(1000)
    gb.seed(3)
    assert gb.rand(1000).tolist() == a.tolist() != b.tolist()
    assert min(a.tolist()) >= 0 and max(a.tolist()) < 1 and abs(np.mean(a.numpy()) - 0.5) < 4 / math.sqrt(12 * 1000)
    normal = gb.randn((100, 10)).numpy()
    assert abs(normal.mean()) < 4 / math.sqrt(1000) and abs(normal.var() - 1) < 4 * math.sqrt(2 / 1000)
    assert set(gb.randint(-1, 2, 1000).tolist()) == {-1, 0, 1}
    for dtype in ("int8", "uint8", "int16", "int64", "float16", "float32", "float64"):
        numbers = gb.randint(0, 128, 1000, dtype=dtype)
        assert numbers.dtype == getattr(gb, dtype)
        assert min(numbers.tolist()) >= 0 and max(numbers.tolist()) < 128
    for dtype, low, high in (("int8", 0, 129), ("uint8", -1, 3), ("float16", 0, 2050), ("bool", 0, 2)):
        with pytest.raises(ValueError, match=f"{dtype} does not hold"):
            gb.randint(low, high, 3, dtype=dtype)
    assert gb.rand(2, 3, dtype="bfloat16").dtype is gb.bfloat16
