#!/usr/bin/env python3
"""Writes tests/data/ops/arrays.json: dtypes and their promotion, axes, shapes, indexing and products, as PyTorch and NumPy have them.

Inputs are multiples of 1/16 below 4, exact in every float dtype. Needs torch and numpy. Usage: make_array_fixtures.py [output]
"""
import itertools
import math

import numpy as np
import torch

from op_fixture import Cases

torch.manual_seed(10)
cases = Cases("arrays")
FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
NAME = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.bool: "bool",
        torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64"}
# Half a unit in the last place, and a neighbor's: what a result that is rounded once more may be off, in units of 2^-24.
ROUNDED = {torch.float16: 2.0**13, torch.bfloat16: 2.0**16}


def packed(x):
    x = torch.as_tensor(x)
    return (x.float().numpy(), "bf16") if x.dtype == torch.bfloat16 else x.numpy()


def add(op, inputs, expected, ulps=0, **attributes):
    expected = torch.as_tensor(expected)
    if ulps != 0:
        ulps = max(ulps, ROUNDED.get(expected.dtype, 0))
    cases.add(op, [packed(x) for x in inputs], packed(expected), ulps, **attributes)


def numbers(*shape, dtype=torch.float32, low=-9, high=9):
    """Of floats sixteenths; of unsigned integers no negative ones."""
    if dtype == torch.bool:
        return torch.randint(0, 2, shape).bool()
    if dtype == torch.uint8:
        low = max(low, 0)
    x = torch.randint(low, high + 1, shape)
    return (x.double() / 16).to(dtype) if dtype.is_floating_point else x.to(dtype)


def wide(x):
    return x.float() if x.dtype in ROUNDED else x


def computed(function, *inputs):
    """In f32 for f16 and bf16, rounded at the end."""
    y = function(*[wide(x) for x in inputs])
    half = [x.dtype for x in inputs if x.dtype in ROUNDED]
    return y.to(half[0]) if half and y.dtype == torch.float32 else y


def sum_dtype(dtype):
    return dtype if dtype.is_floating_point else torch.int64


def promotion():
    every = FLOATS + INTEGERS + [torch.bool]
    for a, b in itertools.product(every, every):
        x, y = numbers(3, dtype=a, low=-3, high=5), numbers(1, dtype=b, low=1, high=3)
        met = torch.promote_types(a, b)
        add("add", [x, y], computed(lambda p, q: p + q, x.to(met), y.to(met)), 1)
        add("lt", [x, y], x.to(met) < y.to(met))
        condition = numbers(3, dtype=torch.bool)
        add("where", [condition, x, y], torch.where(condition, x.to(met), y.to(met)))
    for dtype in every:
        x = numbers(5, dtype=dtype)
        for value, name in [(2, "integer"), (0.5, "real"), (True, "bool")]:
            met = torch.result_type(x, value)
            met = torch.int32 if met == torch.int64 and dtype != torch.int64 else met
            add("add_number", [x], computed(lambda p: p + value, x.to(met)), 1, value=value, kind=name)


def integers():
    limits = {d: torch.iinfo(d) for d in INTEGERS}
    for dtype in INTEGERS:
        low, high = limits[dtype].min, limits[dtype].max
        if dtype == torch.int64:  # the fixtures hold numbers that a double does
            low, high = -2**52, 2**52
        a = torch.tensor([low, low, high, -7 % 256 if low == 0 else -7, 7, 7, 0, 5, 1], dtype=torch.int64).to(dtype)
        b = torch.tensor([1, 3, 2, 2, 3, 5, 4, 1, 7], dtype=torch.int64).to(dtype)
        for name in ["add", "sub", "mul", "maximum", "minimum", "floor_divide", "remainder", "bitwise_and", "bitwise_or",
                     "bitwise_xor", "eq", "ne", "lt", "le", "gt", "ge"]:
            result = getattr(torch, name)(a, b)
            if dtype == torch.int64 and name == "mul":
                a_, b_ = a // 8, b
                add(name, [a_, b_], a_ * b_)
                continue
            add(name, [a, b], result)
        add("trunc_divide", [a, b], torch.div(a, b, rounding_mode="trunc"))
        add("div", [a, b], a.float() / b.float(), 1)
        small, exponent = numbers(7, dtype=dtype, low=-3, high=3), torch.arange(7).to(dtype)
        add("pow", [small, exponent], torch.pow(small, exponent))
        shifted, bits = numbers(7, dtype=dtype, low=-9, high=9), torch.arange(7).to(dtype)
        add("left_shift", [shifted, bits], shifted << bits)
        add("right_shift", [shifted, bits], shifted >> bits)
        add("bitwise_not", [a], ~a)
        add("sign", [shifted], torch.sign(shifted))
        add("abs", [shifted], torch.abs(shifted))
        add("neg", [shifted], -shifted)
        add("square", [shifted], shifted * shifted)
        add("clamp", [shifted], shifted.clamp(1, 5), low=1, high=5)
        for name in ["floor", "ceil", "round", "trunc"]:
            add(name, [shifted], shifted)
        for name in ["isnan", "isinf", "isfinite"]:
            add(name, [shifted], getattr(torch, name)(shifted))
        if dtype not in (torch.uint8,):
            negative = torch.tensor([-7, 7, -7, 7, -8, 0], dtype=dtype)
            divisor = torch.tensor([2, -2, -2, 2, -4, -3], dtype=dtype)
            add("floor_divide", [negative, divisor], torch.floor_divide(negative, divisor))
            add("remainder", [negative, divisor], torch.remainder(negative, divisor))
            add("trunc_divide", [negative, divisor], torch.div(negative, divisor, rounding_mode="trunc"))
        add("argsort", [shifted], torch.argsort(shifted, stable=True).int(), axis=-1, descending=False)
        add("sort", [shifted], torch.sort(shifted, descending=True).values, axis=-1, descending=True)
    p, q = numbers(8, dtype=torch.bool), numbers(8, dtype=torch.bool)
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "logical_xor", "add", "mul", "maximum", "minimum"]:
        add(name, [p, q], getattr(torch, name)(p, q))
    add("bitwise_not", [p], ~p)
    x = numbers(6, low=-1, high=1)
    add("logical_xor", [x, p[:6]], torch.logical_xor(x, p[:6]))
    add("logical_and", [x, p[:6]], torch.logical_and(x, p[:6]))


def elementwise():
    special = [math.nan, math.inf, -math.inf, 0.0]
    for dtype in FLOATS:
        x = numbers(3, 7, dtype=dtype, low=-15, high=15)
        positive, above = numbers(11, dtype=dtype, low=1, high=60), numbers(11, dtype=dtype, low=16, high=60)
        for name in ["expm1", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "atanh", "exp2", "exp", "sin", "cos",
                     "tanh", "sigmoid", "erf"]:
            add(name, [x], computed(getattr(torch, name), x), 8)
        for name in ["log1p", "log2", "log10", "reciprocal", "log", "sqrt", "rsqrt"]:
            add(name, [positive], computed(getattr(torch, name), positive), 8)
        add("acosh", [above], computed(torch.acosh, above), 8)
        values = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.75, -0.25] + special, dtype=dtype)
        for name in ["floor", "ceil", "round", "trunc", "isnan", "isinf", "isfinite"]:
            add(name, [values], getattr(torch, name)(values))
        for name in ["sign", "abs", "neg", "square"]:
            add(name, [values], getattr(torch, name)(values) if name != "sign" else torch.where(values.isnan(), values, torch.sign(values)))
        for name in ["expm1", "atan", "asinh", "tanh", "log1p"]:
            add(name, [values.abs()], computed(getattr(torch, name), values.abs()), 8)
        a = torch.tensor([-7, 7, -7, 7, 5.5, -5.5, 0, 1, 1], dtype=dtype)
        b = torch.tensor([2, -2, -2, 2, 0.5, 0.75, -3, 0, math.inf], dtype=dtype)
        add("floor_divide", [a, b], computed(lambda p, q: torch.floor_divide(p, q), a, b))
        add("remainder", [a, b], computed(torch.remainder, a, b), 2)
        add("atan2", [a, b], computed(torch.atan2, a, b), 8)
        add("hypot", [a, b], computed(torch.hypot, a, b), 8)
        add("trunc_divide", [a[:7], b[:7]], torch.div(wide(a[:7]), wide(b[:7]), rounding_mode="trunc").to(dtype))
    small = numbers(5, dtype=torch.int32, low=1, high=9)
    for name in ["sin", "sqrt", "log10", "expm1", "reciprocal"]:
        add(name, [small], getattr(torch, name)(small.float()), 8)


SHAPES = [(1,), (7,), (3, 5), (2, 3, 5), (2, 3, 1, 4), (1, 1), (5, 1, 2), (41, 3), (2, 2, 2, 2, 3)]


def subsets(rank):
    yield None
    for count in range(1, min(rank, 3) + 1):
        yield from (list(axes) for axes in itertools.combinations(range(rank), count))


def reductions():
    functions = {
        "sum": lambda x, d, k: torch.sum(x, d, keepdim=k).to(sum_dtype(x.dtype)),
        "mean": lambda x, d, k: torch.mean(x, d, keepdim=k),
        "max": lambda x, d, k: torch.amax(x, d, keepdim=k),
        "min": lambda x, d, k: torch.amin(x, d, keepdim=k),
        "var": lambda x, d, k: torch.var(x, d, correction=1, keepdim=k),
        "std": lambda x, d, k: torch.std(x, d, correction=0, keepdim=k),
        "logsumexp": lambda x, d, k: torch.logsumexp(x, d, keepdim=k),
    }
    corrections = {"var": {"correction": 1}, "std": {"correction": 0}}
    turn = 0
    for shape in SHAPES:
        for axes in subsets(len(shape)):
            for name, function in functions.items():
                turn += 1
                dtype = FLOATS[turn % 4]
                x = numbers(*shape, dtype=dtype)
                dims = list(range(len(shape))) if axes is None else axes
                keep = turn % 3 == 0
                named = [a - len(shape) for a in axes] if axes is not None and turn % 2 == 0 else axes
                expected = computed(lambda v: function(v, dims, keep), x)
                add(name, [x], expected, 16, axes=named, keepdims=keep, **corrections.get(name, {}))
            x = numbers(*shape, dtype=INTEGERS[turn % 5])
            dims = tuple(range(len(shape))) if axes is None else tuple(axes)
            add("sum", [x], x.sum(dims).to(sum_dtype(x.dtype)), axes=axes, keepdims=False)
            add("max", [x], torch.amax(x, dims), axes=axes, keepdims=False)
            flags = numbers(*shape, dtype=torch.bool)
            add("any", [flags], torch.any(flags, dims, keepdim=True), axes=axes, keepdims=True)
            add("all", [x], torch.all(x.bool(), dims), axes=axes, keepdims=False)
            add("min", [flags], torch.amin(flags.int(), dims).bool(), axes=axes, keepdims=False)
        for axis in [None, *range(len(shape))]:
            for name in ["argmax", "argmin"]:
                x = numbers(*shape, dtype=(FLOATS + INTEGERS)[turn % 9], low=-3, high=3)
                turn += 1
                expected = torch.from_numpy(np.asarray(getattr(np, name)(x.double().numpy(), axis=axis))).int()
                add(name, [x], expected, axis=axis, keepdims=False)
            if axis is None:
                continue
            x = numbers(*shape, dtype=FLOATS[turn % 4])
            for name in ["softmax", "log_softmax"]:
                add(name, [x], computed(lambda v: getattr(torch, name)(v, axis), x), 16, axis=axis)
            for dtype in [FLOATS[turn % 4], INTEGERS[turn % 5], torch.bool]:
                x = numbers(*shape, dtype=dtype)
                add("cumsum", [x], computed(lambda v: torch.cumsum(v, axis).to(sum_dtype(v.dtype)), x), 8, axis=axis)
    for shape, axes in [((0, 3), [0]), ((3, 0), [1]), ((0,), None), ((2, 0, 3), [1, 2])]:
        x = torch.zeros(shape)
        dims = list(range(len(shape))) if axes is None else axes
        for name in ["sum", "mean", "logsumexp"]:
            add(name, [x], functions[name](x, dims, False), axes=axes, keepdims=False)
        add("prod", [x], torch.from_numpy(np.asarray(np.prod(x.numpy(), axis=tuple(dims)))), axes=axes, keepdims=False)
        add("any", [x], torch.any(x.bool(), dims), axes=axes, keepdims=False)
        add("all", [x], torch.all(x.bool(), dims), axes=axes, keepdims=False)
    add("sum", [torch.tensor(2.5)], torch.tensor(2.5), axes=None, keepdims=False)
    add("sum", [torch.ones(2, 3)], torch.ones(2, 3), axes=[], keepdims=False)
    for dtype in [torch.float32, torch.float64, torch.int8, torch.int64, torch.bool]:
        x = numbers(3, 4, dtype=dtype, low=-2, high=2)
        add("prod", [x], torch.prod(x, 0).to(sum_dtype(dtype)), 4, axes=[0], keepdims=False)
    odd = torch.tensor([[1, math.nan, 3], [math.inf, 2, -math.inf], [-math.inf] * 3])
    for name in ["sum", "max", "min", "mean", "logsumexp"]:
        for axis in [0, 1]:
            add(name, [odd], functions[name](odd, [axis], False), 8, axes=[axis], keepdims=False)
    # Long leading axes: the reduced elements are strided.
    x = numbers(301, 5)
    for name in ["sum", "max", "var", "logsumexp"]:
        add(name, [x], functions[name](x, [0], False), 64, axes=[0], keepdims=False, **corrections.get(name, {}))
    add("argmax", [x], torch.from_numpy(np.argmax(x.numpy(), axis=0)).int(), axis=0, keepdims=False)


def creation():
    for args, dtype in [((0, 5, 1), torch.int32), ((5, 0, -2), torch.int32), ((0, 0, 1), torch.int32), ((3, 0, 1), torch.int32),
                        ((0.0, 1.0, 0.25), torch.float32), ((1, 3, 0.5), torch.float32), ((-2, 9, 3), torch.int64),
                        ((0, 5, 1), torch.float64), ((0, 5, 1), torch.uint8), ((-3, 5, 2), torch.int8), ((1, 8, 2), torch.float16),
                        ((2**40, 2**40 + 4, 1), torch.int64)]:
        expected = torch.from_numpy(np.arange(*args)).to(dtype)
        add("arange", [], expected, start=args[0], stop=args[1], step=args[2], dtype=NAME[dtype])
    for start, stop, count in [(0, 1, 5), (3, -1, 9), (2, 5, 1), (0, 1, 0), (-1, 1, 2)]:
        for endpoint in [True, False]:
            for dtype in [torch.float32, torch.float64, torch.float16]:
                expected = torch.from_numpy(np.linspace(start, stop, count, endpoint=endpoint)).to(dtype)
                add("linspace", [], expected, 2, start=start, stop=stop, count=count, endpoint=endpoint, dtype=NAME[dtype])
    for rows, columns, k in [(3, 3, 0), (2, 5, 1), (4, 2, -1), (1, 1, 3), (0, 4, 0)]:
        for dtype in [torch.float32, torch.bool, torch.int64]:
            add("eye", [], torch.from_numpy(np.eye(rows, columns, k)).to(dtype), rows=rows, columns=columns, diagonal=k, dtype=NAME[dtype])
            add("tri", [], torch.from_numpy(np.tri(rows, columns, k)).to(dtype), rows=rows, columns=columns, diagonal=k, dtype=NAME[dtype])
    for dtype in FLOATS + INTEGERS + [torch.bool]:
        for shape in [(), (3,), (2, 0), (2, 3)]:
            add("full", [], torch.full(shape, 1 if dtype == torch.bool else 3).to(dtype), shape=list(shape), value=3, dtype=NAME[dtype])
        add("zeros_like", [numbers(2, 3, dtype=dtype)], torch.zeros(2, 3, dtype=dtype))
        add("ones_like", [numbers(5, dtype=dtype)], torch.ones(5, dtype=dtype))
    grids = [numbers(3), numbers(4), numbers(2)]
    for xy in [False, True]:
        for i, expected in enumerate(torch.meshgrid(*grids, indexing="xy" if xy else "ij")):
            add("meshgrid", grids, expected, xy=xy, result=i)


def shapes():
    for dtype in [torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool]:
        x = numbers(2, 1, 5, dtype=dtype)
        n = x.numpy()
        add("squeeze", [x], x.squeeze(), axes=None)
        add("squeeze", [x], x.squeeze(1), axes=[-2])
        add("expand_dims", [x], np.expand_dims(n, (0, -1)), axes=[0, -1])
        add("moveaxis", [x], np.ascontiguousarray(np.moveaxis(n, [0, -1], [-1, 0])), source=[0, -1], to=[-1, 0])
        add("swapaxes", [x], np.ascontiguousarray(np.swapaxes(n, 0, -1)), a=0, b=-1)
        add("flatten", [x], x.flatten(0, 1), first=0, last=-2)
        y = numbers(2, 1, 5, dtype=dtype)
        for axis in [0, 1, -1, -4]:
            add("stack", [x, y], torch.stack([x, y], axis), axis=axis)
        for axis in [0, -1, -2]:
            add("concat", [x, y], torch.cat([x, y], axis), axis=axis)
        long = numbers(3, 7, dtype=dtype)
        for i, part in enumerate(np.split(long.numpy(), [2, 5], axis=1)):
            add("split_at", [long], np.ascontiguousarray(part), places=[2, 5], axis=-1, result=i)
        add("split", [long], long[1:2], parts=3, axis=0, result=1)
        add("unstack", [long], long[:, 2], axis=1, result=2)
        for widths in [[(1, 2), (0, 3)], [(2, 2), (2, 2)]]:
            add("pad", [long], np.pad(long.numpy(), widths, constant_values=1), widths=widths, mode="constant", value=1)
            add("pad", [long], np.pad(long.numpy(), widths, mode="edge"), widths=widths, mode="edge")
            add("pad", [long], np.pad(long.numpy(), widths, mode="reflect"), widths=widths, mode="reflect")
        for axis in [None, 0, -1]:
            add("repeat", [long], np.repeat(long.numpy(), 3, axis), times=3, axis=axis)
        for times in [[2], [2, 3], [2, 1, 3], [0, 2]]:
            add("tile", [long], np.tile(long.numpy(), times), times=times)
        for shifts, axes in [([2], [0]), ([-3], [1]), ([1, -9], [1, 0]), ([0], [0]), ([2], [0, 1])]:
            add("roll", [long], np.roll(long.numpy(), shifts[0] if len(shifts) == 1 else shifts, tuple(axes)), shifts=shifts, axes=axes)
        for axes in [None, [0], [-1], [0, 1]]:
            add("flip", [long], np.ascontiguousarray(np.flip(long.numpy(), None if axes is None else tuple(axes))), axes=axes)
    empty = torch.zeros(0, 3)
    add("flip", [empty], empty, axes=None)
    add("tile", [empty], torch.zeros(0, 6), times=[2, 2])
    add("concat", [empty, numbers(0, 3)], torch.zeros(0, 3), axis=0)
    add("concat", [torch.tensor([1, 2], dtype=torch.int32), torch.tensor([0.5])], torch.tensor([1, 2, 0.5]), axis=0)


def indexing():
    for dtype in [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.float64]:
        x = numbers(5, 4, 3, dtype=dtype)
        i = torch.tensor([0, -1, 3, 2], dtype=torch.int32)
        for axis, limit in [(0, 5), (1, 4), (-1, 3)]:
            places = i.remainder(limit).where(i >= 0, i)
            add("take", [x, places.to(INTEGERS[axis % 5] if axis != 1 else torch.int64)], x.index_select(axis, places.remainder(limit)), axis=axis)
        grid = torch.tensor([[1, 2], [0, -1]], dtype=torch.int32)
        add("take", [x, grid], x[:, grid.long()], axis=1)
        row = torch.tensor([[2, 0, 2]], dtype=torch.int32)
        values = numbers(1, 3, dtype=dtype)
        y = numbers(1, 4, dtype=dtype)
        expected = y.clone()
        for k in range(3):
            expected[0, row[0, k]] = values[0, k]
        add("put_along_axis", [y, row, values], expected, axis=1)
        add("put_along_axis", [y.T.contiguous(), row.T.contiguous(), values.T.contiguous()], expected.T.contiguous(), axis=0)
        add("take_along_axis", [y, row], torch.gather(y, 1, row.long()), axis=-1)
        if dtype != torch.bool:
            summed = wide(y).clone()
            summed.scatter_add_(1, row.long(), wide(values))
            add("scatter_add", [y, row, values], summed.to(dtype), axis=1)
        add("gather", [x, torch.tensor([3, 0], dtype=torch.int32)], x[[3, 0]])
        # Slices and numbers: [start, stop, step], null for none; "new", "..."; {"input": n} for tensors.
        for text, expected in [([2], x[2]), ([[1, 4, 2]], x[1:4:2]), ([[None, None, 1], -1], x[:, -1]),
                               (["...", 0], x[..., 0]), (["new", 1, "..."], x[None, 1]), ([[None, None, -1]], x.flip(0)),
                               ([[4, 0, -2], [None, None, 1], [2, None, -1]], x[[4, 2]].flip(2)), ([[3, 1, 1]], x[3:1]),
                               ([[-2, None, 1], "...", [0, 9, 1]], x[-2:]), ([0, 1, 2], x[0, 1, 2])]:
            add("index", [x], expected.contiguous(), indices=text)
        a, b = torch.tensor([0, -1, 2]), torch.tensor([[1], [3]])
        mask = numbers(5, 4, dtype=torch.bool)
        line = torch.tensor([True, False, True, True, False])
        t = torch.int32
        add("index", [x, a.to(t)], x[a], indices=[{"input": 1}])
        add("index", [x, a.to(torch.int64)], x[:, a.clamp(max=3)], indices=[[None, None, 1], {"input": 1}])
        add("index", [x, a.to(t), b.to(t)], x[a, b], indices=[{"input": 1}, {"input": 2}])
        add("index", [x, a.to(t), b.remainder(3).to(t)], x[a, :, b.remainder(3)], indices=[{"input": 1}, [None, None, 1], {"input": 2}])
        add("index", [x, b.to(t), a.to(t)], x[1:, b, a], indices=[[1, None, 1], {"input": 1}, {"input": 2}])
        add("index", [x, b.to(t)], x[2][b], indices=[2, {"input": 1}])
        add("index", [x, mask], x[mask], indices=[{"input": 1}])
        add("index", [x, line], x[line], indices=[{"input": 1}])
        add("index", [x, line], x[line][..., 1], indices=[{"input": 1}, "...", 1])
        add("index", [x, mask & False], x[mask & False], indices=[{"input": 1}])
        for axis in range(3):
            add("nonzero", [x], torch.nonzero(x)[:, axis].int(), result=axis)
    for dtype in [torch.float32, torch.int8, torch.int64, torch.bool, torch.float64]:
        x = numbers(4, 5, dtype=dtype, low=-2, high=3)
        values, first, inverse, counts = np.unique(x.numpy(), return_index=True, return_inverse=True, return_counts=True)
        for part, expected in [("values", values), ("indices", first.astype(np.int32)),
                               ("inverse", inverse.reshape(4, 5).astype(np.int32)), ("counts", counts.astype(np.int32))]:
            add("unique", [x], expected, part=part)


def products():
    for dtype in [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.int8, torch.uint8]:
        pairs = [((3, 5), (5, 2)), ((5,), (5, 2)), ((3, 5), (5,)), ((5,), (5,)), ((2, 3, 5), (5, 2)), ((3, 5), (4, 5, 2)),
                 ((2, 1, 3, 5), (4, 5, 2)), ((4, 5), (2, 5, 3)), ((5,), (2, 5, 3)), ((2, 4, 5), (5,)), ((0, 5), (5, 2)), ((3, 0), (0, 2)), ((1, 1), (1, 1)),
                 ((17, 33), (33, 19))]
        for p, q in pairs if dtype in (torch.float32, torch.float64, torch.int64) else pairs[:6]:
            a, b = numbers(*p, dtype=dtype, low=-3, high=3), numbers(*q, dtype=dtype, low=-3, high=3)
            exact = torch.matmul(wide(a).double() if dtype.is_floating_point else a.long(), wide(b).double() if dtype.is_floating_point else b.long())
            add("matmul", [a, b], exact.to(dtype), 0 if not dtype.is_floating_point else 4)
    floats = [torch.float32, torch.float64, torch.float16]
    for n, (equation, shapes_) in enumerate([
            ("ij,jk->ik", [(3, 4), (4, 5)]), ("ij,jk", [(3, 4), (4, 5)]), ("ij->ji", [(3, 4)]), ("ij->", [(3, 4)]), ("ii->i", [(4, 4)]),
            ("ii", [(4, 4)]), ("ij,ij->ij", [(3, 4), (3, 4)]), ("i,j->ij", [(3,), (4,)]), ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
            ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]), ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
            ("ab,bc,cd->ad", [(3, 4), (4, 5), (5, 2)]), ("ab,bc,cd,de->ae", [(2, 3), (3, 4), (4, 2), (2, 5)]), ("i,i->", [(5,), (5,)]),
            ("ij,j->i", [(3, 4), (4,)]), ("ijk->kj", [(2, 3, 4)]), ("iij->j", [(3, 3, 4)]), ("abc,cba->b", [(2, 3, 4), (4, 3, 2)]),
            ("i...->...", [(3, 2, 2)]), ("ij,ik->jk", [(3, 4), (3, 5)]), ("ij,kl->ijkl", [(2, 3), (2, 2)]), ("iji->j", [(3, 2, 3)]),
            ("bi,oij,bj->bo", [(3, 4), (5, 4, 2), (3, 2)]), ("a,b,c->abc", [(2,), (3,), (4,)]), ("ij,ij->", [(0, 3), (0, 3)])]):
        for dtype in [floats[n % 3], torch.float32]:
            xs = [numbers(*s, dtype=dtype, low=-3, high=3) for s in shapes_]
            add("einsum", xs, torch.einsum(equation, *[x.double() for x in xs]).to(dtype), 8, equation=equation)
    for dtype in [torch.float32, torch.float64, torch.int32]:
        a, b = numbers(3, 4, 5, dtype=dtype), numbers(4, 5, 2, dtype=dtype)
        add("tensordot", [a, b], torch.from_numpy(np.tensordot(a.numpy(), b.numpy(), 2)), 8, count=2)
        add("tensordot", [a, b], torch.from_numpy(np.tensordot(a.numpy(), b.numpy(), ([2, 1], [1, 0]))), 8, of_a=[2, 1], of_b=[1, 0])
        add("tensordot", [a[0, 0], b[0, 0]], torch.from_numpy(np.tensordot(a[0, 0].numpy(), b[0, 0].numpy(), 0)), 8, count=0)
        add("outer", [a[0], b[0, 0]], torch.outer(a[0].flatten(), b[0, 0]), 1)
        add("dot", [a[0], b[0]], torch.from_numpy(np.dot(a[0].numpy(), b[0].numpy())), 8)
        add("dot", [a[0, 0], a[1, 1]], torch.from_numpy(np.asarray(np.dot(a[0, 0].numpy(), a[1, 1].numpy()))), 8)
        add("vecdot", [a, a[:1]], (a * a[:1]).sum(-1).to(dtype), 8, axis=-1)
        add("vecdot", [a, a], (a * a).sum(1).to(dtype), 8, axis=-2)
    x1, x2, w, bias = numbers(2, 3, 4), numbers(2, 3, 5), numbers(6, 4, 5), numbers(6)
    add("bilinear", [x1, x2, w], torch.nn.functional.bilinear(x1, x2, w), 16)
    add("bilinear", [x1, x2, w, bias], torch.nn.functional.bilinear(x1, x2, w, bias), 16)
    attend = torch.nn.functional.scaled_dot_product_attention
    for dtype in FLOATS:
        shapes_ = [((3, 5), (4, 5)), ((2, 4, 2, 3), (2, 2, 5, 3)), ((2, 3, 4), (2, 5, 4)), ((1, 2, 3, 8), (1, 2, 7, 8)), ((1, 6, 2, 4), (1, 1, 3, 4))]
        for q_shape, kv_shape in shapes_ if dtype == torch.float32 else shapes_[:2]:
            q, k, v = numbers(*q_shape, dtype=dtype), numbers(*kv_shape, dtype=dtype), numbers(*kv_shape, dtype=dtype)
            gqa = len(q_shape) > 2 and q_shape[-3] != kv_shape[-3]
            length, keys = q_shape[-2], kv_shape[-2]
            mask = numbers(length, keys, dtype=torch.bool)
            mask[:, 0] = True
            added = numbers(length, keys)
            # For f16 and bf16 the probabilities are rounded too, before they meet values that are larger than the results.
            ulps = 4 * ROUNDED.get(dtype, 8)
            run = lambda **options: computed(lambda a, b, c: attend(a, b, c, enable_gqa=gqa, **options), q, k, v)
            add("scaled_dot_product_attention", [q, k, v], run(), ulps)
            add("scaled_dot_product_attention", [q, k, v], run(is_causal=True), ulps, causal=True)
            add("scaled_dot_product_attention", [q, k, v], run(scale=0.25), ulps, scale=0.25)
            add("scaled_dot_product_attention", [q, k, v, mask], run(attn_mask=mask), ulps)
            add("scaled_dot_product_attention", [q, k, v, added], run(attn_mask=added.double() if dtype == torch.float64 else added), ulps)
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    nothing[0, 1] = True
    q, k, v = numbers(1, 2, 4), numbers(1, 3, 4), numbers(1, 3, 4)
    expected = attend(q, k, v, attn_mask=nothing)
    expected[0, 1] = 0
    add("scaled_dot_product_attention", [q, k, v, nothing], expected, 32)


promotion()
integers()
elementwise()
reductions()
creation()
shapes()
indexing()
products()
cases.write()
