#!/usr/bin/env python3
"""Writes tests/data/ops/norm.json: normalizations, log_softmax, reductions and cumsum as PyTorch computes them.

Inputs are multiples of 1/16 below 4, exact in f16 and bf16 as in f32. Needs torch. Usage: make_norm_fixtures.py [output]
"""
import math

import torch
from torch.nn import functional

from op_fixture import Cases

torch.manual_seed(7)
cases = Cases("norm")
HALF = {"f16": (torch.float16, 2.0**13), "bf16": (torch.bfloat16, 2.0**16)}  # epsilon in units of 2^-24, with room


def grid(*shape):
    return torch.randint(-32, 33, shape).float() / 16


def each_dtype(op, inputs, function, ulps, **attributes):
    """In f32, and with the first input in f16 and in bf16: what PyTorch gives in f32, rounded to the dtype."""
    expected = function(*inputs)
    cases.add(op, [x.numpy() for x in inputs], expected.numpy(), ulps, **attributes)
    for dtype, (torch_dtype, epsilon) in HALF.items():
        rounded = expected.to(torch_dtype).float().numpy()
        cases.add(op, [(inputs[0].numpy(), dtype)] + [x.numpy() for x in inputs[1:]], (rounded, dtype), epsilon,
                  **attributes)


for shape in [(3, 17), (1,), (1, 2, 65), (4, 1), (0, 3)]:
    x = grid(*shape)
    columns = shape[-1]
    w, b = grid(columns), grid(columns)
    each_dtype("layer_norm", [x, w, b], lambda x, w, b: functional.layer_norm(x, w.shape, w, b), 8 * columns + 64)
    cases.add("layer_norm", [x.numpy()], functional.layer_norm(x, (columns,)).numpy(), 8 * columns + 64)
    each_dtype("log_softmax", [3 * x], lambda x: torch.log_softmax(x, -1), 4 * columns + 16)
    each_dtype("softmax", [x], lambda x: torch.softmax(x, -1), 4 * columns + 16)
x, w, b = grid(2, 3, 5), grid(3, 5), grid(3, 5)
cases.add("layer_norm", [x.numpy(), w.numpy(), b.numpy()], functional.layer_norm(x, (3, 5), w, b).numpy(), 128)
x = torch.tensor([[-math.inf, 0.0, 90.0, 89.0], [-1e4, -1e4, -1e4, -1e4], [math.nan, 1, 2, 3], [-math.inf] * 4])
cases.add("log_softmax", [x.numpy()], torch.log_softmax(x, -1).numpy(), 32)

for shape, groups in [((2, 6, 7), 3), ((1, 4, 3, 5), 1), ((3, 4), 4), ((2, 4, 1, 2, 3), 2)]:
    x, w, b = grid(*shape), grid(shape[1]), grid(shape[1])
    if math.prod(shape[1:]) // groups > 1:
        each_dtype("group_norm", [x, w, b], lambda x, w, b: functional.group_norm(x, groups, w, b),
                   8 * math.prod(shape) + 64, groups=groups)
        cases.add("group_norm", [x.numpy()], functional.group_norm(x, groups).numpy(), 8 * math.prod(shape) + 64,
                  groups=groups)
    mean, variance = grid(shape[1]), grid(shape[1]).abs() + 0.25
    each_dtype("batch_norm", [x, mean, variance, w, b],
               lambda x, m, v, w, b: functional.batch_norm(x, m, v, w, b), 64)
    cases.add("batch_norm", [t.numpy() for t in (x, mean, variance)], functional.batch_norm(x, mean, variance).numpy(), 64)
    running_mean, running_variance = mean.clone(), variance.clone()
    y = functional.batch_norm(x, running_mean, running_variance, w, b, training=True, momentum=0.25)
    given = [t.numpy() for t in (x, mean, variance, w, b)]
    ulps = 8 * math.prod(shape) + 64
    cases.add("batch_norm_training", given, y.numpy(), ulps)
    cases.add("batch_norm_running_mean", given, running_mean.numpy(), ulps)
    cases.add("batch_norm_running_variance", given, running_variance.numpy(), ulps)

for shape in [(3, 37), (1,), (2, 3, 8), (3, 1), (0, 4)]:
    x = grid(*shape)
    columns = shape[-1]
    each_dtype("prod", [x], lambda x: x.prod(-1, keepdim=True), 2 * columns)
    each_dtype("sum", [x], lambda x: x.sum(-1, keepdim=True), 2 * columns)
    each_dtype("mean", [x], lambda x: x.mean(-1, keepdim=True), 2 * columns + 4)
    each_dtype("min", [x], lambda x: x.amin(-1, keepdim=True), 0)
    first = [[row.index(min(row))] for row in x.reshape(-1, columns).tolist()]
    each = torch.tensor(first, dtype=torch.int32).reshape(*shape[:-1], 1)
    for dtype in ["f32", "f16", "bf16"]:
        cases.add("argmin", [(x.numpy(), dtype)], each.numpy(), 0)
    each_dtype("var", [x], lambda x: x.var(-1, keepdim=True), 4 * columns + 16, correction=1)
    cases.add("var", [x.numpy()], x.var(-1, correction=0, keepdim=True).numpy(), 4 * columns + 16, correction=0)
    for axis in range(-1, len(shape) - 1):
        each_dtype("cumsum", [x], lambda x: x.cumsum(axis), 2 * x.shape[axis], axis=axis)
i = torch.randint(-9, 10, (3, 7), dtype=torch.int32)
cases.add("sum", [i.numpy()], i.sum(-1, keepdim=True).numpy(), 0)
cases.add("prod", [i[:, :4].numpy()], i[:, :4].prod(-1, keepdim=True).numpy(), 0)
cases.add("max", [i.numpy()], i.amax(-1, keepdim=True).numpy(), 0)
cases.add("min", [i.numpy()], i.amin(-1, keepdim=True).numpy(), 0)
cases.add("cumsum", [i.numpy()], i.cumsum(0).numpy(), 0, axis=0)
big = torch.tensor([2**31 - 1, 1, 5], dtype=torch.int32)
cases.add("cumsum", [big.numpy()], big.cumsum(0).numpy(), 0, axis=0)
for shape, groups in [((2, 3, 5, 8), 2), ((1, 4, 6), 3), ((3, 2, 1, 16), 16), ((1, 30, 4), 1)]:
    x, w, b = grid(*shape), grid(shape[-1]), grid(shape[-1])
    first = lambda x, w, b: functional.group_norm(x.movedim(-1, 1), groups, w, b).movedim(1, -1)
    if math.prod(shape[1:]) // groups > 1:
        ulps = 8 * math.prod(shape) + 64
        each_dtype("group_norm_nhwc", [x, w, b], lambda x, w, b: first(x, w, b).contiguous(), ulps, groups=groups)
        each_dtype("group_norm_nhwc", [x, w, b], lambda x, w, b: functional.silu(first(x, w, b)).contiguous(), ulps, groups=groups, silu=True)
cases.write()
