"""The namespace against the Python array API standard (2024.12): its signatures, and NumPy, which follows it.

The standard's own test suite is run by tools/array_api_tests, where there is a copy of it.
"""

import ast
import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest

import gabbro as gb
from array_api_names import ELEMENTWISE, FLOATS, INTEGERS, KINDS, STANDARD

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

OURS = {
    node.name: node.args
    for node in ast.parse((Path(gb.__file__).parent / "_core.pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef)
}


def arguments(name):
    """Names of the arguments: before a /, in their places or by name, by name alone, and whether any more may come."""
    if name in OURS:
        found = OURS[name]
        return ([a.arg for a in found.posonlyargs], [a.arg for a in found.args], [a.arg for a in found.kwonlyargs],
                found.vararg is not None)  # fmt: skip
    every = inspect.signature(getattr(gb.array_api, name)).parameters.values()
    return (*([p.name for p in every if p.kind == kind] for kind in (inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)),
            any(p.kind == inspect.Parameter.VAR_POSITIONAL for p in every))  # fmt: skip


@pytest.mark.parametrize("name", STANDARD)
def test_signature(name):
    wanted = ast.parse(f"def {name}({STANDARD[name]}: ...").body[0].args
    first, both, named, more = arguments(name)
    assert more == (wanted.vararg is not None)
    in_places = first + both
    assert len(in_places) >= len(wanted.posonlyargs + wanted.args)
    for place, argument in enumerate(wanted.args, start=len(wanted.posonlyargs)):
        assert in_places[place] == argument.arg and argument.arg in both
    for argument in wanted.kwonlyargs:
        assert argument.arg in both + named


def test_constants_and_dtypes():
    assert (gb.e, gb.pi, gb.inf, gb.newaxis) == (np.e, np.pi, np.inf, None) and np.isnan(gb.nan)
    for name in KINDS["any"]:
        dtype = getattr(gb, name)
        assert gb.zeros(0, dtype=dtype).dtype == dtype and dtype != gb.float16
        assert (gb.isdtype(dtype, "integral"), gb.isdtype(dtype, "real floating")) == (name in INTEGERS, name in FLOATS)
        for other in KINDS["any"]:
            if (name in FLOATS) == (other in FLOATS) and (name == "bool") == (other == "bool"):
                meet = np.result_type(name, other).name
                assert gb.result_type(dtype, getattr(gb, other)) == meet
                assert gb.can_cast(dtype, getattr(gb, other)) == (meet == other)


SMALLER = {"uint64": "int64", "float64": "float32"}


def same(actual, expected, inputs=(), epsilons=16, signs=True, places=False, sums=False):
    """Equal shapes and dtypes, and values within rounding.

    NumPy's float64 is float32 here where no input has it; with `places`, in any case they may be.
    With `sums`, integers are int64.
    """
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for ours, theirs in zip(actual, expected, strict=True):
            same(ours, theirs, inputs, epsilons, signs, places, sums)
        return
    actual, expected = actual.numpy(), np.asarray(expected)
    given, wide = {x.dtype.name for x in inputs}, expected.dtype.name
    if sums and expected.dtype.kind in "iu":
        expected = expected.astype("int64")
    elif wide in SMALLER and (actual.dtype == SMALLER[wide] if places else wide not in given):
        expected = expected.astype(SMALLER[wide])
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
        return
    epsilon = np.finfo(expected.dtype).eps * epsilons
    finite = expected[np.isfinite(expected)]
    np.testing.assert_allclose(actual, expected, rtol=epsilon, atol=epsilon * np.abs(finite).max(initial=0))
    if signs:
        exact = ~np.isnan(expected) & ((expected == 0) | np.isinf(expected))
        np.testing.assert_array_equal(np.signbit(actual[exact]), np.signbit(expected[exact]))


def check(call, *inputs, **options):
    """`call` with NumPy and its arrays, and with Gabbro and its tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = call(np, *inputs)
    same(call(gb.array_api, *map(gb.tensor, inputs)), expected, inputs, **options)


def function(name, **options):
    return lambda xp, *inputs: getattr(xp, name)(*inputs, **options)


def numbers(rng, shape, dtype):
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in FLOATS:
        return rng.uniform(-3, 3, shape).astype(dtype)
    return rng.integers(0 if dtype == "uint8" else -9, 10, shape).astype(dtype)


@pytest.mark.parametrize(("name", "kind", "arguments"), ELEMENTWISE, ids=[name for name, _, _ in ELEMENTWISE])
def test_elementwise(name, kind, arguments, rng):
    one = arguments == "x, /"
    shifts = "shift" in name or name == "pow"
    for dtype in KINDS[kind]:
        for a, b in (((), ()), ((0,), (1,)), ((1,), (5,)), ((3, 1, 2), (4, 1)), ((2, 0, 3), (1, 3))):
            x, y = numbers(rng, a, dtype), numbers(rng, b, dtype)
            if shifts and dtype not in FLOATS:
                y = np.asarray(np.abs(y) % 4).astype(dtype)
            if name in ("floor_divide", "remainder"):
                y = np.asarray(np.where(y == 0, 1, y)).astype(dtype)
            if one:
                check(function(name), x)
            else:
                check(function(name), x, y)
    if one:
        return
    if kind == "floats":
        check(function(name), np.asarray([1, 2], "float32"), np.asarray([[3.0]], "float64"))
    if kind in ("numbers", "any", "integers"):  # the dtypes in which two meet
        for other in ("int8", "int16", "int64"):
            x, y = np.asarray([7, 3], "uint8"), np.asarray([[2], [1]], other)
            check(function(name), x, y)
    x = numbers(rng, (2, 3), KINDS[kind][0])
    number = True if kind == "bool" else 2 if kind in ("integers", "whole") else 2.5
    check(lambda xp, x: getattr(xp, name)(x, number), x)
    check(lambda xp, x: getattr(xp, name)(number, x), x)


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 3.0, 1e30, -1e-30, 16777217.0]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [name for name, kind, _ in ELEMENTWISE if kind in ("floats", "numbers", "any")])
def test_special_values(name, dtype):
    x = np.array(SPECIAL, dtype)
    one = dict((n, a) for n, _, a in ELEMENTWISE)[name] == "x, /"
    if one:
        # For numbers this large the remainder by pi is NumPy's in float32.
        x = x[~(np.abs(x) == np.asarray(1e30, dtype))] if name in ("sin", "cos", "tan") else x
        check(function(name), x[1:] if name == "signbit" else x)  # a NaN has no sign here
        check(function(name), x[np.abs(x) < 10])  # and where no neighbor needs the C library's function
        return
    # The standard does not say which zero the larger one is.
    signs = name not in ("maximum", "minimum")
    y = x[1:] if name == "copysign" else x
    check(function(name), x[:, None], y[None, :], signs=signs)


REDUCTIONS = {"floats": "mean std var", "numbers": "max min prod sum", "any": "all any count_nonzero"}
AXES = [None, 0, -1, (0, 2), (-2,), (0, 1, 2)]
SUMS = {"sum", "prod", "cumulative_sum", "cumulative_prod"}


@pytest.mark.parametrize(("name", "kind"), [(n, kind) for kind, names in REDUCTIONS.items() for n in names.split()])
def test_reductions(name, kind, rng):
    places, sums = name == "count_nonzero", name in SUMS
    for dtype in KINDS[kind]:
        for shape in ((3, 1, 4), (1, 5, 2)):
            x = numbers(rng, shape, dtype) if name != "prod" else np.asarray(rng.integers(1, 3, shape)).astype(dtype)
            for axis in AXES:
                for keepdims in (False, True):
                    check(function(name, axis=axis, keepdims=keepdims), x, places=places, sums=sums)
        check(function(name), numbers(rng, (), dtype), places=places, sums=sums)
        if name not in ("max", "min"):
            check(function(name, axis=0), numbers(rng, (0, 3), dtype), places=places, sums=sums)
            check(function(name), numbers(rng, (0,), dtype), places=places, sums=sums)
        if name in ("sum", "prod"):
            check(lambda xp, x: getattr(xp, name)(x, dtype=xp.float32), np.asarray([1, 2, 3], dtype))
    if kind == "floats" and name != "mean":
        check(function(name, axis=1, correction=1), numbers(rng, (3, 5), "float32"))
    if kind != "any":
        check(function(name, axis=0), np.asarray([[np.nan, 1], [2, np.inf]], "float64"))


CALLS = {
    "cumulative_sum": [lambda xp, x: xp.cumulative_sum(x, axis=-1), lambda xp, x: xp.cumulative_sum(x, axis=0),
                       lambda xp, x: xp.cumulative_sum(x, axis=1, include_initial=True)],
    "cumulative_prod": [lambda xp, x: xp.cumulative_prod(x, axis=-1), lambda xp, x: xp.cumulative_prod(x, axis=0),
                        lambda xp, x: xp.cumulative_prod(x, axis=1, include_initial=True)],
    "diff": [lambda xp, x: xp.diff(x), lambda xp, x: xp.diff(x, axis=0, n=2)],
    "permute_dims": [lambda xp, x: xp.permute_dims(x, (2, 0, 1))],
    "expand_dims": [lambda xp, x, a=a: xp.expand_dims(x, axis=a) for a in (0, -1, 3, -4)],
    "squeeze": [lambda xp, x: xp.squeeze(xp.expand_dims(x, axis=1), axis=1)],
    "reshape": [lambda xp, x: xp.reshape(x, (-1,)), lambda xp, x: xp.reshape(x, (1, *x.shape), copy=True)],
    "flip": [lambda xp, x, a=a: xp.flip(x, axis=a) for a in (None, 1, -1, (0, 2))],
    "roll": [lambda xp, x: xp.roll(x, 2), lambda xp, x: xp.roll(x, -1, axis=-1),
             lambda xp, x: xp.roll(x, (1, 2), axis=(0, 2))],
    "moveaxis": [lambda xp, x: xp.moveaxis(x, 0, -1), lambda xp, x: xp.moveaxis(x, (0, 1), (2, 0))],
    "matrix_transpose": [lambda xp, x: xp.matrix_transpose(x)],
    "stack": [lambda xp, x, a=a: xp.stack([x, x], axis=a) for a in (0, -1, 2)],
    "concat": [lambda xp, x, a=a: xp.concat([x, x, x], axis=a) for a in (0, -1, None)],
    "unstack": [lambda xp, x, a=a: xp.unstack(x, axis=a) for a in (0, -2)],
    "tile": [lambda xp, x: xp.tile(x, (2, 1, 3)), lambda xp, x: xp.tile(x, (2, 1, 1, 2))],
    "repeat": [lambda xp, x: xp.repeat(x, 2), lambda xp, x: xp.repeat(x, 3, axis=-2)],
    "broadcast_to": [lambda xp, x: xp.broadcast_to(x, (2, *x.shape))],
    "broadcast_arrays": [lambda xp, x: xp.broadcast_arrays(x, x[:1])],
    "tril": [lambda xp, x, k=k: xp.tril(x, k=k) for k in (-1, 0, 2)],
    "triu": [lambda xp, x, k=k: xp.triu(x, k=k) for k in (-1, 0, 2)],
    "zeros_like": [lambda xp, x: xp.zeros_like(x), lambda xp, x: xp.zeros_like(x, dtype=xp.int8)],
    "ones_like": [lambda xp, x: xp.ones_like(x)],
    "full_like": [lambda xp, x: xp.full_like(x, 1)],
    "empty_like": [lambda xp, x: xp.zeros_like(xp.empty_like(x))],
    "sort": [lambda xp, x, a=a: xp.sort(x, axis=a) for a in (0, -1)],
    "argsort": [lambda xp, x, a=a: xp.argsort(x, axis=a, stable=True) for a in (0, -1)],
    "unique_values": [lambda xp, x: xp.sort(xp.unique_values(x))],
    "unique_counts": [lambda xp, x: tuple(xp.unique_counts(x))],
    "unique_inverse": [lambda xp, x: tuple(xp.unique_inverse(x))],
    "unique_all": [lambda xp, x: tuple(xp.unique_all(x))],
    "nonzero": [lambda xp, x: xp.nonzero(x)],
    "take": [lambda xp, x: xp.take(x, xp.asarray([0, 1, 0]), axis=1)],
    "take_along_axis": [lambda xp, x: xp.take_along_axis(x, xp.argsort(x, axis=-1), axis=-1),
                        lambda xp, x: xp.take_along_axis(x, xp.argsort(x, axis=0) - x.shape[0], axis=0)],
    "where": [lambda xp, x: xp.where(x == x[:1], x, x[:, :1])],
    "clip": [lambda xp, x: xp.clip(x, 1, 3), lambda xp, x: xp.clip(x, min=2), lambda xp, x: xp.clip(x, max=x[:1])],
    "astype": [lambda xp, x, to=to: xp.astype(x, getattr(xp, to)) for to in ("bool", "float32", "int64")],
    "x[...]": [lambda xp, x: x[:, ::-1], lambda xp, x: x[..., None, 0], lambda xp, x: x[x == x[:1]],
               lambda xp, x: x[xp.asarray(True)], lambda xp, x: x[xp.asarray(False)]],
}  # fmt: skip
WITHOUT_BOOL = {"cumulative_sum", "cumulative_prod", "diff", "clip"}
PLACES = {"argsort", "nonzero", "unique_counts", "unique_inverse", "unique_all", "astype"}
WITH_ELEMENTS = {"take", "where", "x[...]", "broadcast_arrays", "clip"}


@pytest.mark.parametrize("name", CALLS)
def test_arrays(name, rng):
    for dtype in KINDS["numbers"] if name in WITHOUT_BOOL else KINDS["any"]:
        for shape in ((3, 4, 2), (1, 2, 1), (2, 0, 3)):
            if 0 in shape and name in WITH_ELEMENTS:
                continue
            x = numbers(rng, shape, dtype)
            if name == "cumulative_prod":
                x = np.asarray(rng.integers(1, 3, shape)).astype(dtype)
            for call in CALLS[name]:
                check(call, x, places=name in PLACES, sums=name in SUMS)


def test_products(rng):
    for dtype in KINDS["numbers"]:
        for a, b in (((3,), (3,)), ((2, 3), (3,)), ((4, 1, 2, 3), (5, 3, 2)), ((2, 0), (0, 3)), ((0, 2), (2, 3))):
            x, y = numbers(rng, a, dtype), numbers(rng, b, dtype)
            check(lambda xp, x, y: xp.matmul(x, y), x, y)
        x, y = numbers(rng, (2, 3, 4), dtype), numbers(rng, (4, 3, 2), dtype)
        check(lambda xp, x, y: xp.tensordot(x, y, axes=((0, 2), (2, 0))), x, y)
        check(lambda xp, x, y: xp.tensordot(x, y, axes=1), x, y)
        check(lambda xp, x, y: xp.tensordot(x[0], y, axes=0), x, y)
        check(lambda xp, x, y: xp.vecdot(x, y), x, numbers(rng, (3, 4), dtype))


def test_creation():
    calls = [
        *(lambda xp, d=d: xp.zeros((2, 0, 3), dtype=getattr(xp, d)) for d in KINDS["any"]),
        *(lambda xp, d=d: xp.ones(3, dtype=getattr(xp, d)) for d in KINDS["any"]),
        *(lambda xp, d=d: xp.full((2, 1), 1, dtype=getattr(xp, d)) for d in KINDS["any"]),
        *(lambda xp, k=k: xp.eye(3, 4, k=k) for k in (0, -2, 9, -9)),
        lambda xp: xp.eye(2, dtype=None), lambda xp: xp.ones((), dtype=None), lambda xp: xp.zeros(2, dtype=None),
        lambda xp: xp.full((), True), lambda xp: xp.full(2, 1.5), lambda xp: xp.full(2, 7),
        lambda xp: xp.arange(5), lambda xp: xp.arange(1, 8, 3), lambda xp: xp.arange(5, 0, -2),
        lambda xp: xp.arange(0, 1, 0.25), lambda xp: xp.arange(3, 1),
        *(lambda xp, d=d: xp.arange(2, 7, 2, dtype=getattr(xp, d)) for d in KINDS["numbers"]),
        lambda xp: xp.linspace(1, 0, 4),
        lambda xp: xp.linspace(0, 1, 5), lambda xp: xp.linspace(2, -2, 4, endpoint=False, dtype=None),
        lambda xp: xp.linspace(1, 2, 0), lambda xp: xp.linspace(1, 2, 1, dtype=xp.float32),
        lambda xp: xp.meshgrid(xp.arange(2), xp.arange(3)),
        lambda xp: xp.meshgrid(xp.arange(2), xp.arange(3), indexing="ij"),
        lambda xp: xp.asarray([[1, 2], [3, 4]]), lambda xp: xp.asarray(True), lambda xp: xp.asarray(2.5),
        lambda xp: xp.asarray([xp.asarray(1), 2]), lambda xp: xp.asarray([[1.5, True]], dtype=xp.int16),
    ]  # fmt: skip
    for call in calls:
        same(call(gb.array_api), call(np), places=True)
    for exact in (16777217.0, 0.1, 1e-300):  # what float32 does not hold
        assert gb.asarray(exact, dtype=gb.float64).item() == exact
        assert gb.asarray([exact], dtype="float64")[0] == exact
        assert gb.full((), exact, dtype="float64").item() == exact
    assert gb.eye(2, k=2**63).sum().item() == 0


def test_asarray_of_a_tensor():
    x = gb.tensor([1, 2])
    assert gb.asarray(x) is x and gb.asarray(x, dtype="int64", copy=False) is x
    copied = gb.asarray(x, copy=True)
    x[0] = 7
    assert copied.tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"\[asarray\] int64 of shape \(2,\) does not become float32 without a copy"):
        gb.asarray(x, dtype="float32", copy=False)


def test_searching(rng):
    for dtype in KINDS["numbers"]:
        x = numbers(rng, (3, 5), dtype)
        for name in ("argmax", "argmin"):
            for axis in (None, 0, -1):
                for keepdims in (False, True):
                    check(function(name, axis=axis, keepdims=keepdims), x, places=True)
        for side in ("left", "right"):
            check(function("searchsorted", side=side), np.sort(x[0]), x, places=True)
        descending = gb.array_api.sort(gb.tensor(x), descending=True).numpy()
        np.testing.assert_array_equal(descending, np.sort(x)[:, ::-1])
        check(lambda xp, x: xp.repeat(x, xp.asarray([2, 0, 1]), axis=0), x)
        check(lambda xp, x: xp.repeat(x[0], xp.asarray([3])), x)
    for wrong in ([1, 2], [-1, 1, 1], [1.0, 1.0, 1.0]):
        with pytest.raises(ValueError, match=r"\[repeat\]"):
            gb.repeat(gb.ones((3, 2)), gb.asarray(wrong), axis=0)


def test_an_axis_that_is_not_there_is_both_errors():
    for kind in (ValueError, IndexError):
        with pytest.raises(kind, match=r"\[expand_dims\] axis 2"):
            gb.expand_dims(gb.ones(()), axis=2)


def test_array_object():
    x = gb.asarray(2.5)
    assert (complex(x), float(x), int(x), bool(x), gb.asarray(3).__index__()) == (2.5 + 0j, 2.5, 2, True, 3)
    with pytest.raises(ValueError, match="complex"):
        complex(gb.ones(2))
    none = gb.zeros((0, 2), dtype="bool")
    y = gb.ones((3, 2))
    assert y[none].shape == (0,)
    y[none] = 7
    y[none] = gb.ones(0)
    assert y.sum().item() == 6
    y = gb.asarray(1)
    y[gb.asarray(False)] = 7
    assert y.item() == 1
    y[gb.asarray(True)] = 7
    assert y.item() == 7
    rows = gb.tensor([[1, 2], [3, 4]])
    copied = np.from_dlpack(rows, copy=True)
    np.testing.assert_array_equal(copied, [[1, 2], [3, 4]])
    assert rows.__dlpack__(copy=True) is not None and rows.__dlpack__(copy=None, max_version=(1, 0)) is not None
    with pytest.raises(TypeError, match=r"use gabbro\.stack"):
        gb.tensor([gb.ones(2), gb.ones(2)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_number_after(dtype):
    facts = gb.finfo(dtype)
    least = facts.smallest_normal * facts.eps
    up = {1.0: 1 + facts.eps, -1.0: -1 + facts.eps / 2, 0.0: least, least: 2 * least, facts.max: gb.inf,
          facts.min: facts.min / (2 - facts.eps) * (2 - 2 * facts.eps),
          facts.smallest_normal: facts.smallest_normal + least, -gb.inf: facts.min,
          2 * facts.smallest_normal: 2 * facts.smallest_normal + 2 * least,
          -2 * facts.smallest_normal: -2 * facts.smallest_normal + least}  # fmt: skip
    for number, expected in up.items():
        x = gb.full((), number, dtype=dtype)
        for sign in (1, -1):
            moved = gb.nextafter(x * sign, gb.inf * sign)
            assert moved.dtype == dtype and moved.astype("float64").item() == sign * expected, (number, sign)
    with pytest.raises(ValueError, match=r"\[nextafter\]"):
        gb.nextafter(gb.tensor([1]), gb.tensor([2]))
