#!/usr/bin/env python3
"""Writes tests/data/ops/tensor.json: elementwise ops, elements by index and losses as PyTorch computes them.

Inputs are multiples of 1/16 below 4, exact in f16 and bf16 as in f32. Needs torch. Usage: make_tensor_fixtures.py [output]
"""
import math

import torch
from torch.nn import functional

from op_fixture import Cases

torch.manual_seed(9)
cases = Cases("tensor")
HALF = {"f16": (torch.float16, 2.0**13), "bf16": (torch.bfloat16, 2.0**16)}


def grid(*shape, low=-32, high=32):
    return torch.randint(low, high + 1, shape).float() / 16


def ints(*shape, low=-9, high=9):
    return torch.randint(low, high + 1, shape, dtype=torch.int32)


def each_dtype(op, inputs, expected, ulps, **attributes):
    """In f32, and with all f32 inputs in f16 and in bf16: what PyTorch gives in f32, rounded to the dtype."""
    cases.add(op, [x.numpy() for x in inputs], expected.numpy(), ulps, **attributes)
    for dtype, (torch_dtype, epsilon) in HALF.items():
        given = [(x.numpy(), dtype) if x.dtype == torch.float32 else x.numpy() for x in inputs]
        if expected.dtype != torch.float32:
            cases.add(op, given, expected.numpy(), 0, **attributes)
            continue
        rounded = expected.to(torch_dtype).float()
        if torch.equal(rounded.isinf(), expected.isinf()):
            cases.add(op, given, (rounded.numpy(), dtype), 0 if ulps == 0 else epsilon, **attributes)


def elementwise():
    x, positive = grid(3, 11), grid(3, 11, low=1)
    for name in ["neg", "abs", "floor", "relu"]:
        each_dtype(name, [x], getattr(torch, name)(x), 0)
    for name in ["exp", "sin", "cos", "tanh", "sigmoid", "erf"]:
        each_dtype(name, [x], getattr(torch, name)(x), 8)
    for name in ["log", "sqrt", "rsqrt"]:
        each_dtype(name, [positive], getattr(torch, name)(positive), 8)
    each_dtype("silu", [x], functional.silu(x), 8)
    for y in [x, 3 * x]:
        each_dtype("gelu", [y], functional.gelu(y), 8)
        each_dtype("gelu_tanh", [y], functional.gelu(y, approximate="tanh"), 8)
    special = torch.tensor([math.nan, math.inf, -math.inf, 0.0])
    for name in ["relu", "erf"]:
        each_dtype(name, [special], getattr(torch, name)(special), 0)
    i = ints(7)
    cases.add("neg", [i.numpy()], (-i).numpy(), 0)
    cases.add("abs", [i.numpy()], i.abs().numpy(), 0)
    a, b = grid(3, 1, 4), grid(2, 1)
    for name in ["add", "sub", "mul", "maximum", "minimum"]:
        each_dtype(name, [a, b], getattr(torch, name)(a, b), 1)
    divisor, exponent = grid(2, 1, low=8), grid(1, low=-32)
    each_dtype("div", [a, divisor], a / divisor, 1)
    each_dtype("pow", [a.abs() + 0.25, exponent], torch.pow(a.abs() + 0.25, exponent), 16)
    p, q = ints(3, 1, low=-3, high=3), ints(4, low=0, high=5)
    cases.add("pow", [p.numpy(), q.numpy()], torch.pow(p, q).numpy(), 0)
    flags, others = grid(5) > 0, grid(3, 1) > 0
    for name in ["eq", "ne", "gt", "ge", "le", "lt"]:
        each_dtype(name, [a, a[:, :, :1]], getattr(torch, name)(a, a[:, :, :1]), 0)
        cases.add(name, [p.numpy(), q.numpy()], getattr(torch, name)(p, q).numpy(), 0)
        cases.add(name, [flags.numpy(), others.numpy()], getattr(torch, name)(flags, others).numpy(), 0)
    cases.add("ne", [special.numpy(), special.numpy()], torch.ne(special, special).numpy(), 0)
    cases.add("logical_or", [flags.numpy(), others.numpy()], (flags | others).numpy(), 0)
    cases.add("logical_and", [flags.numpy(), others.numpy()], (flags & others).numpy(), 0)
    cases.add("logical_not", [flags.numpy()], (~flags).numpy(), 0)
    for low, high in [(-0.5, 1.25), (1, -1)]:
        each_dtype("clamp", [torch.cat([x.flatten(), special])], torch.cat([x.flatten(), special]).clamp(low, high), 0,
                   low=low, high=high)
    low, high = grid(3, 1), grid(11)
    each_dtype("clamp", [x, low, high], torch.clamp(x, low, high), 0)
    cases.add("clamp", [i.numpy()], i.clamp(-2, 5).numpy(), 0, low=-2, high=5)


def by_index():
    for shape, axis, picks in [((4, 7), 1, 5), ((1,), 0, 3), ((3, 5, 2), -2, 8), ((2, 3), 0, 1), ((0, 3), 1, 2), ((6, 1), 0, 0)]:
        x = grid(*shape)
        lengths = list(shape)
        lengths[axis] = picks
        index = torch.randint(0, shape[axis], lengths)
        values = grid(*lengths)
        i = index.to(torch.int32)
        each_dtype("take_along_axis", [x, i], torch.gather(x, axis, index), 0, axis=axis)
        each_dtype("scatter_add", [x, i, values], x.scatter_add(axis, index, values), 8, axis=axis)
        cases.add("scatter_add", [(16 * x).int().numpy(), i.numpy(), (16 * values).int().numpy()],
                  (16 * x.scatter_add(axis, index, values)).int().numpy(), 0, axis=axis)
        cases.add("take_along_axis", [(x > 0).numpy(), i.numpy()], torch.gather(x > 0, axis, index).numpy(), 0, axis=axis)
    # Negative indices count from the end.
    x, index = grid(1, 4), torch.tensor([[-3, 3, -1]], dtype=torch.int32)
    cases.add("take_along_axis", [x.numpy(), index.numpy()], x[:, [1, 3, 3]].numpy(), 0, axis=1)
    values = grid(1, 3)
    expected = x.index_add(1, torch.tensor([1, 3, 3]), values)
    cases.add("scatter_add", [x.numpy(), index.numpy(), values.numpy()], expected.numpy(), 0, axis=1)
    for shape, picks in [((5, 3), 9), ((1, 1), 1), ((3, 2, 4), 2), ((4,), 6), ((3, 5), 0)]:
        x, index, values = grid(*shape), torch.randint(0, shape[0], (picks,)), grid(picks, *shape[1:])
        each_dtype("index_add", [x, index.to(torch.int32), values], x.index_add(0, index, values), 8)
    negative = torch.tensor([-1, 4, -5], dtype=torch.int32)
    x, values = grid(5, 2), grid(3, 2)
    cases.add("index_add", [x.numpy(), negative.numpy(), values.numpy()],
              x.index_add(0, torch.tensor([4, 4, 0]), values).numpy(), 0)
    for shape, diagonal in [((3, 5), 0), ((2, 4, 3), 1), ((1, 1), 0), ((4, 4), -2), ((3, 3), 9)]:
        x = grid(*shape)
        each_dtype("tril", [x], torch.tril(x, diagonal), 0, diagonal=diagonal)
        each_dtype("triu", [x], torch.triu(x, diagonal), 0, diagonal=diagonal)


def losses():
    for shape in [(3, 7), (1,), (2, 2, 3)]:
        x, target = grid(*shape), grid(*shape)
        p, t = grid(*shape, low=0, high=16), grid(*shape, low=0, high=16)
        for reduce in ["none", "mean", "sum"]:
            each_dtype("mse_loss", [x, target], functional.mse_loss(x, target, reduction=reduce), 64, reduce=reduce)
            each_dtype("l1_loss", [x, target], functional.l1_loss(x, target, reduction=reduce), 64, reduce=reduce)
            each_dtype("bce_loss", [p, t], functional.binary_cross_entropy(p, t, reduction=reduce), 64, reduce=reduce)
            each_dtype("kl_div", [x, t], functional.kl_div(x, t, reduction=reduce), 64, reduce=reduce)
    for rows, classes in [(5, 7), (1, 1), (3, 65)]:
        x = grid(rows, classes)
        target = torch.randint(0, classes, (rows,))
        if rows > 1:
            target[1] = -100
        for reduce in ["none", "mean", "sum"]:
            each_dtype("nll_loss", [x, target.to(torch.int32)], functional.nll_loss(x, target, reduction=reduce), 64,
                       reduce=reduce)
            each_dtype("cross_entropy", [x, target.to(torch.int32)], functional.cross_entropy(x, target, reduction=reduce),
                       64, reduce=reduce)


elementwise()
by_index()
losses()
cases.write()
