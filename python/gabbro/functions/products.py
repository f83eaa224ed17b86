"""Products of matrices, and distances, with PyTorch's arguments."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import Tensor
from ._arguments import into, positive
from .reductions import vector_norm


def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices.

    >>> gb.mm(gb.ones(2, 3), gb.ones(3, 1)).shape
    (2, 1)
    """
    if input.ndim != 2 or mat2.ndim != 2:
        raise ValueError(f"[mm] of two matrices, not of shapes {input.shape} and {mat2.shape}")
    return into("mm", out, _core.matmul(input, mat2))


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of matrices in the last two axes; vectors count as rows or columns.

    >>> gb.matmul(gb.ones(2, 3), gb.ones(3))
    tensor([3., 3.])
    """
    return into("matmul", out, _core.matmul(input, other))


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector.

    >>> gb.mv(gb.ones(2, 3), gb.ones(3))
    tensor([3., 3.])
    """
    if input.ndim != 2 or vec.ndim != 1:
        raise ValueError(f"[mv] of a matrix and a vector, not of shapes {input.shape} and {vec.shape}")
    return _core.matmul(input, vec)


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products along the last axes of both.

    >>> gb.inner(gb.tensor([1.0, 2.0]), gb.tensor([3.0, 4.0]))
    tensor(11.)
    """
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return _core.tensordot(input, other, axes=([-1], [-1]))


def _sum(scale: float, x: Tensor) -> Tensor:
    return x if scale == 1 else x * scale


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta · input + alpha · mat1 @ mat2; with beta 0 `input` counts for nothing.

    >>> gb.addmm(gb.ones(1), gb.ones(1, 2), gb.ones(2, 1))
    tensor([[3.]])
    """
    product = _sum(alpha, mm(mat1, mat2))
    return product if beta == 0 else _sum(beta, input) + product


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta · input + alpha · mat @ vec; with beta 0 `input` counts for nothing.

    >>> gb.addmv(gb.ones(1), gb.ones(1, 2), gb.ones(2))
    tensor([3.])
    """
    product = _sum(alpha, mv(mat, vec))
    return product if beta == 0 else _sum(beta, input) + product


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta · input + alpha · batch1 @ batch2, for each matrix of a batch.

    >>> gb.baddbmm(gb.ones(1), gb.ones(1, 1, 2), gb.ones(1, 2, 1))
    tensor([[[3.]]])
    """
    product = _sum(alpha, _core.bmm(batch1, batch2))
    return product if beta == 0 else _sum(beta, input) + product


def trace(input: Tensor) -> Tensor:
    """The sum of the main diagonal of a matrix.

    >>> gb.trace(gb.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if input.ndim != 2:
        raise ValueError(f"[trace] of a matrix, not of shape {input.shape}")
    from .shapes import diagonal

    return _core.sum(diagonal(input))


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product of two matrices or vectors.

    >>> gb.kron(gb.tensor([1, 2]), gb.tensor([1, 10]))
    tensor([ 1, 10,  2, 20])
    """
    count = max(input.ndim, other.ndim)
    a = _core.reshape(input, (*(1,) * (count - input.ndim), *input.shape))
    b = _core.reshape(other, (*(1,) * (count - other.ndim), *other.shape))
    if count > 3:
        raise ValueError(f"[kron] of at most three axes, not of shapes {input.shape} and {other.shape}")
    left = _core.reshape(a, tuple(n for length in a.shape for n in (length, 1)))
    right = _core.reshape(b, tuple(n for length in b.shape for n in (1, length)))
    return _core.reshape(left * right, tuple(m * n for m, n in zip(a.shape, b.shape, strict=True)))


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors of three numbers along an axis; without it, the first of length 3.

    >>> gb.cross(gb.tensor([1.0, 0.0, 0.0]), gb.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    a, b = _core.broadcast_arrays(input, other)
    if dim is None:
        if 3 not in a.shape:
            raise ValueError(f"[cross] shape {a.shape} has no axis of length 3")
        dim = a.shape.index(3)
    at = positive("cross", a, dim)
    if a.shape[at] != 3:
        raise ValueError(f"[cross] axis {dim} of shape {a.shape} has not the length 3")
    return _core.roll(a, -1, at) * _core.roll(b, -2, at) - _core.roll(a, -2, at) * _core.roll(b, -1, at)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """Distances of order `p` between rows: [..., M, D] and [..., N, D] to [..., M, N].

    >>> gb.cdist(gb.zeros(1, 2), gb.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    return vector_norm(_core.expand_dims(x1, -2) - _core.expand_dims(x2, -3), p, -1, False)


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The norm of order `p` of input - other.

    >>> gb.dist(gb.tensor([0.0, 0.0]), gb.tensor([3.0, 4.0]))
    tensor(5.)
    """
    return vector_norm(input - other, p, None, False)


def einsum(equation: str, *operands: Any) -> Tensor:
    """Sums of products, as the letters of the equation say.

    >>> gb.einsum("ij,j->i", gb.ones(2, 3), gb.ones(3))
    tensor([3., 3.])
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    return _core.einsum(equation, *operands)
