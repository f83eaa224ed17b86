#!/usr/bin/env python3
"""Writes tests/data/ops/sort.json: sort, argsort and topk as NumPy does them, on small inputs with ties, zeros of both
signs and NaNs. Needs numpy. Usage: make_sort_fixtures.py [output file]
"""
import numpy as np

from op_fixture import Cases

random = np.random.default_rng(6)
cases = Cases("sort")


def descending_order(x, axis):
    """Stable, NaNs first: NumPy's order of the reversed axis, reversed."""
    n = x.shape[axis]
    return n - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def both(x, dtype, axis):
    for descending in [False, True]:
        order = descending_order(x, axis) if descending else np.argsort(x, axis, kind="stable")
        values = np.take_along_axis(x, order, axis)
        given = [(x, dtype)]
        cases.add("sort", given, (values, dtype), 0, axis=axis, descending=descending)
        cases.add("argsort", given, order.astype(np.int32), 0, axis=axis, descending=descending)
        for k in sorted({0, min(1, x.shape[axis]), x.shape[axis] // 2, x.shape[axis]}):
            first = order.take(np.arange(k), axis) if x.size else order
            cases.add("topk", given, (np.take_along_axis(x, first, axis), dtype), 0, k=k, axis=axis, largest=descending)
            cases.add("topk_indices", given, first.astype(np.int32), 0, k=k, axis=axis, largest=descending)


def floats(*shape):
    return (random.integers(-20, 21, shape) / 4).astype(np.float32)


for dtype in ["f32", "f16", "bf16"]:
    x = floats(3, 11)
    x[0, [2, 7]] = np.nan
    x[1, [1, 4, 9]] = [0, -0.0, 0]
    x[2, [0, 5]] = [np.inf, -np.inf]
    both(x, dtype, 1)
both(random.integers(-3, 4, (2, 5, 3)).astype(np.int32), "i32", -2)
both(np.array([2**31 - 1, -2**31, 0, -1], np.int32), "i32", 0)
both(floats(4, 1), "f32", -1)
both(floats(3, 0), "f32", -1)
cases.write()
