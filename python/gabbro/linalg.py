"""Norms, products, solving and decompositions under the names of torch.linalg.

>>> gb.linalg.norm(gb.tensor([3.0, 4.0]))
tensor(5.)

Solving and decompositions are computed by LAPACK on the CPU, in float32 or float64; a tensor of a GPU goes there first:
``x.to("cpu")``. Results have gradients.
"""

from __future__ import annotations

import math
from typing import Any

from . import _core
from ._core import Tensor
from ._decompositions import (
    cholesky,
    det,
    eigh,
    eigvalsh,
    inv,
    lstsq,
    matrix_power,
    matrix_rank,
    multi_dot,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
)
from .functions.products import cross, matmul
from .functions.reductions import vector_norm as _vector_norm
from .functions.shapes import diagonal

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "vecdot",
    "vector_norm",
]


def _converted(op: str, x: Tensor, dtype: Any) -> Tensor:
    y = x if dtype is None else x.astype(dtype)
    if not y.dtype.is_floating_point:
        raise ValueError(f"[{op}] of floats, not of {y.dtype}")
    return y


def _in_float32(function: Any, x: Tensor) -> Tensor:
    if x.dtype not in (_core.float16, _core.bfloat16):
        result: Tensor = function(x)
        return result
    wide: Tensor = function(x.astype(_core.float32))
    return wide.astype(x.dtype)


def vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of order `ord` of all elements as one vector, or along axes.

    >>> gb.linalg.vector_norm(gb.tensor([3.0, 4.0]))
    tensor(5.)
    """
    return _in_float32(lambda y: _vector_norm(y, ord, dim, keepdim), _converted("vector_norm", x, dtype))


def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The Frobenius norm of matrices, or the largest (1, inf) or smallest (-1, -inf) sum of a column or a row.

    Of the singular values 2 is the largest, -2 the smallest one, and "nuc" their sum: on the CPU.

    >>> gb.linalg.matrix_norm(gb.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    x = _converted("matrix_norm", A, dtype)
    rows, columns = (axis % x.ndim for axis in dim)
    if ord == "fro":
        return _in_float32(lambda y: _vector_norm(y, 2, (rows, columns), keepdim), x)
    if ord in (2, -2, "nuc"):
        return _of_singular_values(x, ord, rows, columns, keepdim)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"[matrix_norm] ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {ord!r}")
    first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)

    def computed(y: Tensor) -> Tensor:
        sums = _core.sum(_core.abs(y), first, True)
        result = (_core.max if ord > 0 else _core.min)(sums, second, True)
        return result if keepdim else _core.squeeze(result, (rows, columns))

    return _in_float32(computed, x)


def _of_singular_values(x: Tensor, ord: Any, rows: int, columns: int, keepdim: bool) -> Tensor:
    s = svdvals(_core.moveaxis(x, (rows, columns), (-2, -1)))
    result = _core.sum(s, -1) if ord == "nuc" else (_core.max if ord > 0 else _core.min)(s, -1)
    return _core.expand_dims(result, (rows, columns)) if keepdim else result


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of a vector or a matrix: of all elements where `ord` is missing.

    >>> gb.linalg.norm(gb.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    axes = tuple(range(A.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if len(axes) == 1 and ord != "fro":
        return vector_norm(A, ord, axes, keepdim, dtype=dtype)
    if len(axes) != 2:
        raise ValueError(f"[norm] ord={ord!r} is for a vector or a matrix, not for {len(axes)} axes")
    return matrix_norm(A, ord, axes, keepdim, dtype=dtype)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sums of products along an axis.

    >>> gb.linalg.vecdot(gb.tensor([1.0, 2.0]), gb.tensor([3.0, 4.0]))
    tensor(11.)
    """
    return _core.vecdot(x, y, dim)
