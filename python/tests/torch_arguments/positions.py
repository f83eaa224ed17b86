"""Prefixes of positional arguments of all functions that PyTorch has under the same name: its result, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .sides import Outcome, Side, numbers, outcome


class Given:
    """An argument that each library makes: a tensor."""

    def __init__(self, array: np.ndarray, shown: str) -> None:
        self.array = array
        self.shown = shown

    def __repr__(self) -> str:
        return self.shown


def floats(*shape: int, seed: int = 0, above: float | None = None) -> Given:
    drawn = numbers(shape, seed)
    return Given(drawn if above is None else (np.abs(drawn) * 0.4 + above).astype(np.float32), f"floats{shape}")


def integers(*values: Any) -> Given:
    return Given(np.array(values, np.int32), f"integers{np.shape(values)}")


X, Y = floats(3, 4), floats(3, 4, seed=2)
CUBE, SQUARE, VECTOR = floats(2, 3, 4), floats(3, 3, seed=3), floats(4, seed=4)
POSITIVE, SHARES = floats(3, 4, above=0.1), floats(3, 4, above=0.05)
WHOLE, SHIFTS = integers([6, 5, 3], [1, 0, 7]), integers([1, 2, 0], [3, 1, 2])
IDS, CLASSES = integers([0, 2, 1], [1, 1, 0]), integers(1, 0, 3)
FLAGS = Given(np.array([[True, False, True], [False, False, True]]), "flags")
LINE, IMAGE, VOLUME = floats(2, 4, 7), floats(2, 4, 6, 5), floats(1, 2, 4, 5, 4)
TWO, FOUR = floats(2, seed=5), floats(4, seed=6)
UNARY = ["abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "conj", "cos", "cosh", "detach", "erf",
"exp", "exp2", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not",
"negative", "positive", "real", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "signbit", "sin", "sinh",
"sqrt", "square", "tan", "tanh", "trunc", "ones_like", "zeros_like"]  # fmt: skip
BINARY = ["add", "atan2", "copysign", "divide", "floor_divide", "greater", "greater_equal", "hypot", "less",
"less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "not_equal",
"pow", "remainder", "subtract", "nextafter"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]
REDUCED = ["all", "any", "amax", "argmax", "argmin", "count_nonzero", "logsumexp", "mean", "prod", "sum", "max",
"min", "std", "var"]

# name: the arguments in PyTorch's order, all that it has.
FUNCTIONS: dict[str, list[list[Any]]] = {
    **{name: [[X], [POSITIVE]] for name in UNARY},
    **{name: [[X, Y], [POSITIVE, 2.0]] for name in BINARY},
    **{name: [[WHOLE, SHIFTS]] for name in BITS},
    **{name: [[X, 1, True], [CUBE, (0, 2), True], [CUBE, -1, False], [CUBE, False], [X,
        integers(1)]] for name in REDUCED},
    "arange": [[5], [1, 6], [1, 9, 2]], "argsort": [[CUBE, 1, True], [CUBE, -1, False, True]],
    "sort": [[CUBE, 1, True]], "equal": [[X, Y]],
    "bilinear": [[floats(3, 2), X, floats(5, 2, 4), floats(5, seed=9)]],
    "bmm": [[CUBE, floats(2, 4, 3)]], "matmul": [[CUBE, floats(4, 2)]], "dot": [[VECTOR, FOUR]], "outer": [[VECTOR,
        FOUR]],
    "broadcast_to": [[VECTOR, (3, 4)]], "clip": [[X, -0.5, 0.5]], "clamp": [[X, -0.5, 0.5]],
    "concat": [[[X, Y], 1]], "stack": [[[X, Y], 1]], "cumsum": [[CUBE, 1]],
    "diff": [[CUBE, 2, 1]], "einsum": [["ij,kj->ik", X, Y]], "eye": [[3, 4]], "flatten": [[CUBE, 1, 2]],
    "flip": [[CUBE, (0, 2)], [CUBE, 1]], "full": [[(2, 3), 1.5]], "full_like": [[X, 2.5]], "ones": [[(2, 3)], [2, 3]],
    "zeros": [[(2, 3)], [2, 3]], "empty_like": [], "gather": [[X, 1, integers([1, 0], [2, 3], [0, 0])]],
    "index_add": [[X, 1, integers(0, 2), floats(3, 2)]], "take": [[X, integers(3, 1)]],
    "scatter_add": [[X, 1, integers([1], [2], [0]), floats(3, 1)]], "linspace": [[0.0, 1.0, 5]],
    "softmax": [[CUBE, 1]], "log_softmax": [[CUBE, 1]], "meshgrid": [], "moveaxis": [[CUBE, 0, 2]],
    "nonzero": [[FLAGS]], "reshape": [[CUBE, (4, 6)]], "roll": [[CUBE, 1, 2], [CUBE, (1, 2), (0, 2)]],
    "searchsorted": [[integers(1, 3, 5), integers(3, 4)]], "split": [[CUBE, 2, 1], [CUBE, 2, 2], [X, [1, 2], 0]],
    "squeeze": [[floats(1, 3, 1), 0], [floats(1, 3, 1), (0, 2)]], "swapaxes": [[CUBE, 0, 2]],
    "tensordot": [[CUBE, floats(4, 3, 2), 1]], "tile": [[X, (2, 1)]], "topk": [[CUBE, 2, 1, False, True]],
    "transpose": [[CUBE, 0, 2]], "permute": [[CUBE, (2, 0, 1)]], "tril": [[SQUARE, 1]], "triu": [[SQUARE, 1]],
    "where": [[Given(X.array > 0, "flags"), X, Y]], "tensor": [[[1.0, 2.0]]], "asarray": [[[1.0, 2.0]]],
    "batch_norm": [[IMAGE, FOUR, FOUR, FOUR, floats(4, above=0.5), False, 0.1, 1e-5, False]],
    "group_norm": [[IMAGE, 2, FOUR, FOUR, 0.1]], "layer_norm": [[X, [4], FOUR, FOUR, 0.1]], "rms_norm": [[X, [4],
        FOUR, 0.1]],
    "embedding": [[floats(5, 3), IDS]], "kl_div": [[X, SHARES, 1]],
    "conv1d": [[LINE, floats(6, 2, 3), floats(6), 2, 1, 2, 2]], "conv2d": [[IMAGE, floats(6, 2, 3, 2), floats(6), 2,
        1, 2, 2]],
    "conv3d": [[VOLUME, floats(4, 1, 2, 2, 2), floats(4), 2, 1, 1, 2]],
    "conv_transpose2d": [[IMAGE, floats(4, 3, 3, 2), floats(6), 2, 1, 1, 2, 2]],
    "avg_pool1d": [[LINE, 3, 1, 1, False, False], [LINE, 3, 2, 1, True, True]],
    "max_pool1d": [[LINE, 3, 1, 1, 2, False]], "max_pool2d": [[IMAGE, 3, 1, 1, 2, False]], "max_pool3d": [[VOLUME, 2,
        1, 1, 2, False]],
    "can_cast": [], "imag": [], "compile": [], "from_dlpack": [], "is_grad_enabled": [[]], "result_type": [],
        "seed": [],
    "empty": [], "rand": [], "randn": [], "randint": [],
}  # fmt: skip
POOLED = [3, 1, 1, False, False, 5]
LOSS = [X, Y, True, True, "mean"]
NETWORK: dict[str, list[list[Any]]] = {
    **{name: FUNCTIONS[name] for name in ("conv1d", "conv2d", "conv3d", "conv_transpose2d", "avg_pool1d", "bilinear",
                                          "group_norm", "layer_norm", "rms_norm")},
    **{f"max_pool{n}d": [[x, 2, 1, 1, 2, False, False], [x, 2, 1, 1, 1, True]]
       for n, x in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    "avg_pool2d": [[IMAGE, *POOLED], [IMAGE, 3, 2, 1, True]], "avg_pool3d": [[VOLUME, 2, 1, 1, False, False, 5]],
    "adaptive_avg_pool2d": [[IMAGE, 2], [IMAGE, (1, 2)]], "binary_cross_entropy": [[SHARES, SHARES, POSITIVE, False,
        False, "sum"]],
    "binary_cross_entropy_with_logits": [[X, SHARES, POSITIVE, False, False, "sum", POSITIVE], [X, SHARES, None,
        "sum"]],
    "celu": [[X, 0.5, False]], "elu": [[X, 0.5, False]], "cosine_similarity": [[X, Y, 0, 0.1]],
    "cross_entropy": [[X, CLASSES, FOUR, None, 1, None, "sum", 0.1], [X, CLASSES, None, 0], [X, CLASSES, None, False,
        1]],
    "dropout": [[X, 0.0, True, False]], "dropout2d": [[IMAGE, 0.0, True, False]],
    "embedding": [[IDS, floats(5, 3), 1, 0.5, 2.0, False, False]], "gelu": [[X, "tanh"]], "glu": [[CUBE, 2], [X, 1]],
    **{name: [[X, False]] for name in ("hardsigmoid", "hardswish", "mish", "relu", "relu6", "selu", "silu")},
    "hardtanh": [[X, -0.5, 0.5, False]], "huber_loss": [[X, Y, "sum", 0.3, POSITIVE]],
    "interpolate": [[IMAGE, (3, 3)], [IMAGE, None, 2.0, "bilinear", True, False], [IMAGE, (4, 4), "bilinear"]],
    "kl_div": [[X, SHARES, False, False, "sum", False], [X, SHARES, "sum"]], "l1_loss": [LOSS, [X, Y, "sum"]],
    "mse_loss": [LOSS, [X, Y, "sum"]], "smooth_l1_loss": [[X, Y, True, True, "mean", 0.3], [X, Y, "sum", 0.3]],
    "leaky_relu": [[X, 0.5, False]], "linear": [[X, floats(2, 4), TWO]], "log_softmax": [[CUBE, 1], [X], [VECTOR]],
    "softmax": [[CUBE, 1], [X], [VECTOR]], "logsigmoid": [[X]], "sigmoid": [[X]], "tanh": [[X]], "softsign": [[X]],
    "nll_loss": [[X, CLASSES, FOUR, None, 1, None, "sum"], [X, CLASSES, 1]],
    "normalize": [[CUBE, 2, 1, 0.5], [CUBE, 1.0, 0], [CUBE, 3, -1], [CUBE, float("inf"), 2], [CUBE, 1], [CUBE, 0.5, 1]],
    "one_hot": [[IDS, 4]], "softplus": [[X, 0.5, 0.7]],
    "scaled_dot_product_attention": [[CUBE, CUBE, CUBE, floats(3, 3), 0.0, False, 0.3], [CUBE, CUBE, CUBE, None, True]],
}  # fmt: skip
METHODS: dict[str, list[list[Any]]] = {
    **{name: [[X], [POSITIVE]] for name in UNARY
       if name not in ("conj", "positive", "real", "signbit", "ones_like", "zeros_like")},
    **{name: FUNCTIONS[name] for name in (*REDUCED, "argsort", "broadcast_to", "clip", "clamp", "cumsum", "flatten",
       "flip", "moveaxis", "nonzero", "reshape", "roll", "sort", "split", "squeeze", "swapaxes", "take", "tile", "topk",
       "transpose", "tril", "triu", "matmul")},
    "permute": [[CUBE, 2, 0, 1], [CUBE, (2, 0, 1)]], "repeat": [[VECTOR, 2], [X, 2, 1], [X, (2, 1)]],
        "item": [[floats(1)]],
    "tolist": [[X]], "numpy": [], "requires_grad_": [[X, True]], "size": [[X, 0]], "backward": [], "to": [],
    "logsumexp": [[X, 1, True]],
}  # fmt: skip

DIFFERENT = {
    "equal": "element by element in the Python array API standard; PyTorch's is one bool",
    "max": "the values alone along an axis, as in the standard; PyTorch gives a pair",
    "min": "the values alone along an axis, as in the standard; PyTorch gives a pair",
    "sort": "the values alone, as in the standard; PyTorch gives a pair",
    "nonzero": "an array for each axis, as in the standard; PyTorch gives a matrix",
    "std": "correction=0, as in the standard; PyTorch has 1",
    "var": "correction=0, as in the standard; PyTorch has 1",
    "kl_div": "torch.nn.functional.kl_div; torch.kl_div is an inner function with another default",
}
RANDOM = {"dropout(floats(3, 4))", "dropout2d(floats(2, 4, 6, 5))"}  # with the default probability


def made(side: Side, argument: Any) -> Any:
    if isinstance(argument, Given):
        array = argument.array
        if side.is_torch and array.dtype == np.int32:
            array = array.astype(np.int64)
        return side.tensor(array)
    if isinstance(argument, list) and any(isinstance(item, Given) for item in argument):
        return [made(side, item) for item in argument]
    return argument


def called(side: Side, where: str, name: str, arguments: list[Any]) -> Outcome:
    def run() -> Any:
        values = [made(side, argument) for argument in arguments]
        if where == "Tensor":
            return getattr(values[0], name)(*values[1:])
        return getattr(side.functional if where == "functional" else side.library, name)(*values)

    return outcome(side, run)


def calls() -> Iterator[tuple[str, str, str, list[Any]]]:
    """(key, where, name, arguments), each once."""
    tables = {"gabbro": FUNCTIONS, "functional": NETWORK, "Tensor": METHODS}
    for where, table in tables.items():
        for name, rows in table.items():
            seen = set()
            for row in rows:
                for count in range(1 if where == "Tensor" else 0, len(row) + 1):
                    shown = ", ".join(map(repr, row[:count]))
                    if shown not in seen and f"{name}({shown})" not in RANDOM:
                        seen.add(shown)
                        yield f"{where} {name}({shown})", where, name, row[:count]
