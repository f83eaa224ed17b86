"""Decompositions by LAPACK, which NumPy brings, with gradients of any order up to three.

A result is LAPACK's plus ``y - y.detach()``, where y is a formula of differentiable functions: one or two steps of an
iteration that converges quadratically, from LAPACK's result as a constant. Each step doubles the number of derivatives
that are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _core
from ._core import Tensor

STEPS = 2


def matrices(op: str, x: Tensor, square: bool = False) -> Tensor:
    """x, checked: matrices [..., M, N] of float32 or float64 on the CPU."""
    if not isinstance(x, Tensor):
        raise TypeError(f"[{op}] a tensor is wanted, not {type(x).__name__}")
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise ValueError(f"[{op}] of {'square ' if square else ''}matrices, not of shape {x.shape}")
    if x.dtype not in (_core.float32, _core.float64):
        raise ValueError(f"[{op}] of float32 or float64, not of {x.dtype}: x.float()")
    if x.device != "cpu":
        raise ValueError(f"[{op}] is computed by LAPACK on the CPU: x.to('cpu') first")
    return x


def computed(op: str, function: Callable[..., Any], *inputs: Tensor) -> list[Tensor]:
    """NumPy's function of the values. Raises ValueError where LAPACK finds no result."""
    arrays = [x.detach().numpy() for x in inputs]
    try:
        results = function(*arrays)
    except np.linalg.LinAlgError as error:
        raise ValueError(f"[{op}] {error}") from error
    several = results if isinstance(results, tuple) else (results,)
    return [_core.tensor(np.array(result), dtype=inputs[0].dtype) for result in several]


def needs_gradient(*inputs: Tensor) -> bool:
    """Whether a formula is needed."""
    return _core.is_grad_enabled() and any(x.requires_grad for x in inputs)


def joined(value: Tensor, formula: Tensor) -> Tensor:
    """The value, with the formula's gradient."""
    return value + (formula - formula.detach())


def transposed(x: Tensor) -> Tensor:
    """x [..., M, N] as [..., N, M]."""
    return _core.matrix_transpose(x)


def identity(x: Tensor) -> Tensor:
    """The identity of the last axis of x."""
    return _core.eye(x.shape[-1], dtype=x.dtype)


def inverse(op: str, a: Tensor, steps: int = STEPS) -> Tensor:
    """The inverse (Newton and Schulz 1933: V (2 - A V))."""
    (value,) = computed(op, np.linalg.inv, a)
    if not needs_gradient(a):
        return value
    v = value
    for _ in range(steps):
        v = v + v @ (identity(a) - a @ v)
    return joined(value, v)


def solution(op: str, a: Tensor, b: Tensor) -> Tensor:
    """x with a x = b."""
    (value,) = computed(op, np.linalg.solve, a, b)
    if not needs_gradient(a, b):
        return value
    return joined(value, value + inverse(op, a, 1) @ (b - a @ value))


def _half_lower(x: Tensor) -> Tensor:
    """The lower triangle with half of the diagonal."""
    return _core.tril(x) - x * identity(x) * 0.5


def cholesky_factor(op: str, a: Tensor) -> Tensor:
    """Lower triangular L with L L' = a (differentiated as Murray 2016 does)."""
    (value,) = computed(op, np.linalg.cholesky, a)
    if not needs_gradient(a):
        return value
    (inv,) = computed(op, np.linalg.inv, value)
    symmetric = (a + transposed(a)) * 0.5
    factor = value
    for _ in range(STEPS):
        rest = inv @ (symmetric - factor @ transposed(factor)) @ transposed(inv)
        factor = factor + value @ _half_lower(rest)
    return joined(value, factor)


def qr_factors(op: str, a: Tensor) -> tuple[Tensor, Tensor]:
    """Q [..., M, K] and R [..., K, N], K = min(M, N)."""
    q, r = computed(op, lambda x: tuple(np.linalg.qr(x, "reduced")), a)
    if not needs_gradient(a):
        return q, r
    count = q.shape[-1]
    front = a[..., :count]  # the other columns only are R's
    r0 = r[..., :count]
    (inv,) = computed(op, np.linalg.inv, r0)
    base = front @ inv  # Q (1 + U)
    gram = transposed(base) @ base - identity(base)
    upper = _core.zeros_like(r0)
    for _ in range(STEPS):
        rest = gram - upper - transposed(upper) - transposed(upper) @ upper
        upper = upper + transposed(_half_lower(rest))
    one = identity(base)
    factor = one + upper
    undone = one - upper + upper @ upper
    q_formula = base @ undone
    r_formula = factor @ r0
    if a.shape[-1] > count:
        r_formula = _core.concat([r_formula, transposed(q_formula) @ a[..., count:]], -1)
    return joined(q, q_formula), joined(r, r_formula)


def _refined(symmetric: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of a symmetric matrix from approximate eigenvectors x (Ogita and Aishima 2018)."""
    one = identity(symmetric)
    for _ in range(STEPS):
        rest = one - transposed(x) @ x
        s = transposed(x) @ symmetric @ x
        eigenvalues = _core.sum(s * one, -1) / (1 - _core.sum(rest * one, -1))
        row, column = _core.expand_dims(eigenvalues, -2), _core.expand_dims(eigenvalues, -1)
        gap = row - column
        is_same = gap == 0
        apart = (s + row * rest) / _core.where(is_same, 1.0, gap)
        x = x + x @ _core.where(is_same, rest * 0.5, apart)
    return eigenvalues, x


def eigen_symmetric(op: str, a: Tensor, uplo: Any) -> tuple[Tensor, Tensor]:
    """Eigenvalues [..., N], ascending, and eigenvectors as columns.

    Values are of one triangle, and gradients symmetric, as PyTorch's.
    """
    values, vectors = computed(op, lambda x: tuple(np.linalg.eigh(x, uplo)), a)
    if not needs_gradient(a):
        return values, vectors
    fixed = a.detach()
    half = _core.tril(fixed, -1) if uplo == "L" else _core.triu(fixed, 1)
    both = (a + transposed(a)) * 0.5
    symmetric = joined(half + transposed(half) + fixed * identity(a), both)
    eigenvalues, x = _refined(symmetric, vectors)
    return joined(values, eigenvalues), joined(vectors, x)


def singular(op: str, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """U [..., M, K], singular values [..., K], descending, and V' [..., K, N]; K = min(M, N)."""
    u, s, vh = computed(op, lambda x: tuple(np.linalg.svd(x, full_matrices=False)), a)
    if not needs_gradient(a):
        return u, s, vh
    if a.shape[-2] < a.shape[-1]:
        v, s, uh = singular(op, transposed(a))
        return transposed(uh), s, transposed(v)
    gram = transposed(a) @ a
    squares, x = _refined(gram, transposed(vh))
    s_formula = _core.sqrt(squares)
    u_formula = a @ x / _core.expand_dims(s_formula, -2)
    return joined(u, u_formula), joined(s, s_formula), joined(vh, transposed(x))


def log_determinant(op: str, a: Tensor) -> tuple[Tensor, Tensor]:
    """The sign and the logarithm of the magnitude of the determinant, [...]."""
    sign, log = computed(op, lambda x: tuple(np.linalg.slogdet(x)), a)
    if not needs_gradient(a):
        return sign, log
    # The gradient is the transposed inverse: tr(e) - tr(e e) / 2 + tr(e e e) / 3 of e = inv (a - a0), up to the third.
    (inv,) = computed(op, np.linalg.inv, a)
    e = inv @ (a - a.detach())
    one = identity(a)
    formula = _core.sum(e * one, (-2, -1)) - _core.sum(e * transposed(e), (-2, -1)) * 0.5
    formula = formula + _core.sum((e @ e) * transposed(e), (-2, -1)) / 3
    return sign, joined(log, formula)
