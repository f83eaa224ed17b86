#!/usr/bin/env python3
"""Writes tests/data/ops/experts.json: expert_linear by NumPy, one product for each token and expert in double precision.

Inputs are quarters, exact in every float dtype. Needs numpy. Usage: make_expert_fixtures.py [output file]
"""
import numpy as np

from op_fixture import Cases

random = np.random.default_rng(15)
cases = Cases("experts")


def quarters(*shape):
    return (random.integers(-8, 9, shape) / 4).astype(np.float32)


def add(ids, experts, rows, columns, own_rows, dtype="f32"):
    """ids [T, U]; x [T, K], or [T, U, K] with one for each expert."""
    tokens, used = ids.shape
    x = quarters(tokens, used, columns) if own_rows else quarters(tokens, columns)
    weight = quarters(experts * rows, columns)
    matrices = weight.reshape(experts, rows, columns).astype(np.float64)
    y = np.zeros((tokens, used, rows))
    for t in range(tokens):
        for u in range(used):
            y[t, u] = matrices[ids[t, u]] @ (x[t, u] if own_rows else x[t]).astype(np.float64)
    # With many tokens f16 and bf16 weights meet activations of 13 bits.
    cases.add("expert_linear", [x, (weight, dtype), ids], y.astype(np.float32), 8 if dtype == "f32" else 2.0**12,
              experts=experts)


def distinct(tokens, used, experts):
    return np.array([random.permutation(experts)[:used] for _ in range(tokens)], np.int32).reshape(tokens, used)


for own_rows in [False, True]:
    for tokens in [0, 1, 2, 33]:
        add(distinct(tokens, 2, 5), 5, 17, 13, own_rows)
    add(np.full((33, 3), 2, np.int32), 4, 16, 8, own_rows)                # all on one expert
    add(random.integers(0, 2, (9, 2)).astype(np.int32) * 5, 6, 3, 7, own_rows)  # 0 and 5; no token chose the others
    for dtype in ["f16", "bf16"]:
        add(distinct(3, 2, 4), 4, 20, 32, own_rows, dtype)
        add(distinct(21, 2, 4), 4, 20, 32, own_rows, dtype)
add(np.array([[-1, 0]], np.int32), 3, 4, 5, False)  # from the end
cases.write()
