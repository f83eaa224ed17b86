"""Elementwise functions: of one tensor, of two that broadcast, of three; activations; casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import FLOATS, INTEGERS, DTypeName, Unfit

FRACTIONS = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "erf",
]
NUMBERS = {"negative": "torch.neg", "abs": "torch.abs", "sign": "t.sign", "square": "torch.square"}
STEPS = ["floor", "ceil", "round", "trunc"]
TESTS = ["isnan", "isinf", "isfinite"]
ACTIVATIONS = ["relu6", "selu", "mish", "softsign", "logsigmoid", "hardsigmoid", "hardswish", "relu", "silu"]
ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
COMPARISONS = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}


def one(g) -> dict[str, Any]:
    return {"a": g.floating() if g.chance(0.9) else g.any()}


def a_float(g) -> dict[str, Any]:
    return {"a": g.floating()}


def a_number(g) -> dict[str, Any]:
    return {"a": g.number_tensor()}


def anything(g) -> dict[str, Any]:
    return {"a": g.any()}


def pair(g) -> dict[str, Any]:
    a = g.number_tensor() if g.chance(0.93) else g.any()
    b = g.partner(a)
    return {"a": a, "b": b} if g.chance(0.6) else {"a": b, "b": a}


def float_pair(g) -> dict[str, Any]:
    a = g.floating()
    b = g.partner(a, g.dtype(a))
    return {"a": a, "b": b} if g.chance(0.6) else {"a": b, "b": a}


def divided(g) -> dict[str, Any]:
    """Integers are divided by none that is zero."""
    args = pair(g)
    b = g.value(args["b"])
    if not b.dtype.is_floating_point and bool((b == 0).any()):
        kind = g.dtype(args["b"])
        if kind == "bool":
            raise Unfit
        args["b"] = g.new_integer(g.shape_of(args["b"]), 1, 9, kind)
    return args


def raised(g) -> dict[str, Any]:
    """Integers to powers that are small and not negative."""
    a = g.number_tensor()
    if g.dtype(a) in FLOATS:
        return {"a": a, "b": g.partner(a, g.dtype(a))}
    return {"a": a, "b": g.new_integer(g.broadcasting(g.shape_of(a)), 0, 3, g.dtype(a))}


def scalar(g) -> dict[str, Any]:
    a = g.number_tensor()
    s = g.number()
    if g.dtype(a) == "uint8" and isinstance(s, int):
        s = abs(s)
    return {"a": a, "s": s}


def scalar_divisor(g) -> dict[str, Any]:
    args = scalar(g)
    return {**args, "s": 3 if args["s"] == 0 and g.dtype(args["a"]) not in FLOATS else args["s"]}


def scalar_power(g) -> dict[str, Any]:
    a = g.number_tensor()
    if g.dtype(a) not in FLOATS:
        return {"a": a, "s": g.integer(0, 3)}
    return {"a": a, "s": g.choose(2, 3, 0.5, -1, 0, 1, -2, 2.5, 4, -0.5)}


def powers_of_scalar(g) -> dict[str, Any]:
    return {"a": g.floating(), "s": g.choose(2, 3, 0.5, 1, 0, 2.5, -2)}


def bits(g) -> dict[str, Any]:
    a = g.integral() if g.chance(0.7) else g.boolean()
    return {"a": a, "b": g.partner(a, g.dtype(a) if g.chance(0.8) else g.choose(*INTEGERS))}


def shifts(g) -> dict[str, Any]:
    a = g.integral()
    return {"a": a, "b": g.new_integer(g.broadcasting(g.shape_of(a)), 0, 6, g.dtype(a))}


def bounds(g) -> dict[str, Any]:
    a = g.number_tensor()
    low, high = g.number(), g.number()
    if g.dtype(a) not in FLOATS:
        low, high = abs(int(low)) if low == low and abs(low) < 99 else 1, 7
    return {"a": a, "low": g.choose(low, low, None), "high": high}


def tensor_bounds(g) -> dict[str, Any]:
    a = g.floating()
    return {"a": a, "low": g.partner(a, g.dtype(a)), "high": g.partner(a, g.dtype(a))}


def chosen(g) -> dict[str, Any]:
    a = g.any()
    return {"c": g.partner(a, "bool"), "a": a, "b": g.partner(a)}


def chosen_scalar(g) -> dict[str, Any]:
    a = g.any()
    s = g.number()
    return {"c": g.partner(a, "bool"), "a": a, "s": s if g.dtype(a) in FLOATS else abs(g.integer(0, 9))}


def cast(g) -> dict[str, Any]:
    a = g.any()
    x = g.value(a).double().numpy()
    kinds = [*g.dtypes, *g.dtypes, "bool"]
    if g.dtype(a) not in FLOATS or (np.abs(x) < 100).all():  # C++ leaves others undefined
        kinds += ["int32", "int64", "int8", *(["uint8"] if g.dtype(a) not in FLOATS or (x >= 0).all() else [])]
    return {"a": a, "dtype": DTypeName(g.choose(*kinds))}


def slope(g) -> dict[str, Any]:
    return {"a": g.floating(), "alpha": g.choose(0.01, 0.2, 1.0, 0.5, 2.0)}


def soft(g) -> dict[str, Any]:
    return {"a": g.floating(), "beta": g.choose(1.0, 1.0, 0.5, 3.0), "threshold": g.choose(20.0, 20.0, 2.0)}


def interval(g) -> dict[str, Any]:
    low, high = g.choose((-1.0, 1.0), (-0.5, 2.0), (0.0, 6.0))
    return {"a": g.floating(), "low": low, "high": high}


def gates(g) -> dict[str, Any]:
    a = g.floating(least=1)
    axes = [axis for axis in range(g.rank(a)) if g.shape_of(a)[axis] % 2 == 0]
    if not axes:
        shape = list(g.shape(g.integer(1, 3)))
        axes = [g.integer(0, len(shape) - 1)]
        shape[axes[0]] = 2 * g.integer(1, 5)
        a = g.new_float(tuple(shape))
    axis = g.choose(*axes)
    return {"a": a, "dim": g.choose(axis, axis - g.rank(a))}


def add_rows(op) -> None:
    for name in FRACTIONS:
        op(name, f"gb.{name}(a)", f"torch.{name}(a)", one, inner=name in ("erf", "sigmoid"))
    for name in ("exp", "sqrt", "tanh", "sin"):
        op(f"method {name}", f"a.{name}()", f"a.{name}()", one, weight=0.5)
    for name, theirs in NUMBERS.items():
        op(name, f"gb.{name}(a)", f"{theirs}(a)", a_number, exact=name != "square")
    op("operator -a", "-a", "-a", a_number, exact=True)
    op("operator abs", "abs(a)", "abs(a)", a_number, exact=True)
    for name in STEPS:
        op(name, f"gb.{name}(a)", f"torch.{name}(a)", a_number, exact=True, weight=0.5)
    for name in TESTS:
        op(name, f"gb.{name}(a)", f"torch.{name}(a)", anything, exact=True, weight=0.3)
    op("signbit", "gb.signbit(a)", "torch.signbit(a)", a_number, exact=True, weight=0.3)
    op("logical_not", "gb.logical_not(a)", "torch.logical_not(a)", anything, exact=True, weight=0.5)
    op("bitwise_invert", "~a", "~a", lambda g: {"a": g.choose(g.integral, g.boolean)()}, exact=True, weight=0.5)
    add_binary(op)
    add_scalars(op)
    add_choices(op)
    add_activations(op)


def add_binary(op) -> None:
    for name, sign in ARITHMETIC.items():
        op(name, f"gb.{name}(a, b)", f"torch.{name}(*t.meet(a, b))", pair, weight=1.5)
        op(f"operator {sign}", f"a {sign} b", f"torch.{name}(*t.meet(a, b))", pair, weight=1.5)
    op("floor_divide", "gb.floor_divide(a, b)", "torch.floor_divide(*t.meet(a, b))", divided, exact=True)
    op("operator //", "a // b", "torch.floor_divide(*t.meet(a, b))", divided, exact=True, weight=0.5)
    op(
        "trunc_divide",
        "gb.trunc_divide(a, b)",
        "torch.div(*t.meet(a, b), rounding_mode='trunc')",
        divided,
        exact=True,
        weight=0.5,
    )
    op("remainder", "gb.remainder(a, b)", "torch.remainder(*t.meet(a, b))", divided, inner=True)
    op("operator %", "a % b", "torch.remainder(*t.meet(a, b))", divided, inner=True, weight=0.5)
    op("pow", "gb.pow(a, b)", "torch.pow(*t.meet(a, b))", raised)
    for name in ("maximum", "minimum"):
        op(name, f"gb.{name}(a, b)", f"torch.{name}(*t.meet(a, b))", pair, exact=True)
    for name in ("atan2", "hypot", "logaddexp"):
        op(name, f"gb.{name}(a, b)", f"torch.{name}(a, b)", float_pair, inner=name == "logaddexp")
    op("copysign", "gb.copysign(a, b)", "t.copysign(a, b)", float_pair, exact=True, weight=0.5)
    op(
        "nextafter",
        "gb.nextafter(gb.detach(a), gb.detach(b))",
        "torch.nextafter(a.detach(), b.detach())",
        float_pair,
        exact=True,
        weight=0.2,
        floats=("float32",),
    )
    for name, sign in COMPARISONS.items():
        theirs = {"equal": "eq", "not_equal": "ne"}.get(name, name)
        op(name, f"gb.{name}(a, b)", f"torch.{theirs}(*t.meet(a, b))", pair, exact=True, weight=0.3)
        op(f"operator {sign}", f"a {sign} b", f"torch.{theirs}(*t.meet(a, b))", pair, exact=True, weight=0.2)
    for name, sign in BITS.items():
        op(name, f"gb.{name}(a, b)", f"torch.{name}(*t.meet(a, b))", bits, exact=True, weight=0.4)
        op(f"operator {sign}", f"a {sign} b", f"torch.{name}(*t.meet(a, b))", bits, exact=True, weight=0.2)
    for name, sign in (("bitwise_left_shift", "<<"), ("bitwise_right_shift", ">>")):
        op(name, f"gb.{name}(a, b)", f"torch.{name}(a, b)", shifts, exact=True, weight=0.3)
        op(f"operator {sign}", f"a {sign} b", f"torch.{name}(a, b)", shifts, exact=True, weight=0.2)
    for name in ("logical_and", "logical_or", "logical_xor"):
        op(name, f"gb.{name}(a, b)", f"torch.{name}(a, b)", pair, exact=True, weight=0.3)


def add_scalars(op) -> None:
    for sign in "+-*/":
        maker = scalar_divisor if sign == "/" else scalar
        op(f"scalar a {sign} s", f"a {sign} s", f"a {sign} s", maker)
        op(f"scalar s {sign} a", f"s {sign} a", f"s {sign} a", scalar, weight=0.7)
    op("scalar a // s", "a // s", "a // s", scalar_divisor, exact=True, weight=0.5)
    op("scalar a % s", "a % s", "a % s", scalar_divisor, inner=True, weight=0.5)
    op("scalar a ** s", "a ** s", "a ** s", scalar_power)
    op("scalar s ** a", "s ** a", "s ** a", powers_of_scalar, weight=0.5)
    op("maximum scalar", "gb.maximum(a, s)", "torch.maximum(*t.number(a, s))", scalar, exact=True, weight=0.5)
    op("minimum scalar", "gb.minimum(s, a)", "torch.minimum(*t.number(a, s))", scalar, exact=True, weight=0.5)
    for sign in ("==", "<", ">="):
        op(f"scalar a {sign} s", f"a {sign} s", f"a {sign} s", scalar, exact=True, weight=0.3)


def add_choices(op) -> None:
    op("clip", "gb.clip(a, low, high)", "t.clip(a, low, high)", bounds, exact=True)
    op("method clamp", "a.clamp(low, high)", "t.clip(a, low, high)", tensor_bounds, exact=True, weight=0.6)
    op("where", "gb.where(c, a, b)", "torch.where(c, *t.meet(a, b))", chosen, exact=True, weight=1.5)
    op("where scalar", "gb.where(c, a, s)", "torch.where(c, *t.number(a, s))", chosen_scalar, exact=True)
    op(
        "where scalar first",
        "gb.where(c, s, a)",
        "torch.where(c, *reversed(t.number(a, s)))",
        chosen_scalar,
        exact=True,
        weight=0.5,
    )
    op("astype", "gb.astype(a, dtype)", "a.to(dtype)", cast, weight=1.5)
    op("method astype", "a.astype(dtype)", "a.to(dtype)", cast, weight=0.5)
    op("detach", "gb.detach(a)", "a.detach()", a_float, exact=True, weight=0.3)


def add_activations(op) -> None:
    for name in ACTIVATIONS:
        theirs = "t.mish(a)" if name == "mish" else f"TF.{name}(a)"
        op(name, f"F.{name}(a)", theirs, a_float, inner=True, weight=0.7)
    op("gelu", "gb.gelu(a)", "t.gelu(a)", a_float, inner=True)
    op("gelu tanh", "F.gelu(a, approximate='tanh')", "t.gelu_tanh(a)", a_float, inner=True)
    for name in ("elu", "celu", "leaky_relu"):
        theirs = "t.celu" if name == "celu" else f"TF.{name}"
        op(name, f"F.{name}(a, alpha)", f"{theirs}(a, alpha)", slope, inner=True, weight=0.7)
    op("softplus", "F.softplus(a, beta, threshold)", "TF.softplus(a, beta, threshold)", soft, inner=True, weight=0.7)
    op("hardtanh", "F.hardtanh(a, low, high)", "TF.hardtanh(a, low, high)", interval, weight=0.7, exact=True)
    op("glu", "F.glu(a, dim)", "t.glu(a, dim)", gates, inner=True, weight=0.7)
