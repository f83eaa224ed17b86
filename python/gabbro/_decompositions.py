"""Solving and decompositions under the names of torch.linalg: of float32 and float64 on the CPU, by LAPACK."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _core, _lapack
from ._core import Tensor

__all__ = [
    "cholesky",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
]


class QR(NamedTuple):
    """The factors of `qr`."""

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """The factors of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Eigen(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SignAndLog(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


class LeastSquares(NamedTuple):
    """The result of `lstsq`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """x with A x = B, or x A = B where `left` is False: B [..., N, K] or [..., N].

    >>> gb.linalg.solve(gb.tensor([[2.0, 0.0], [0.0, 4.0]]), gb.tensor([2.0, 4.0]))
    tensor([1., 1.])
    """
    a = _lapack.matrices("solve", A, True)
    if B.dtype != a.dtype:
        raise ValueError(f"[solve] A is {a.dtype} and B {B.dtype}")
    is_vector = B.ndim == 1 or (B.ndim == a.ndim - 1 and B.shape == a.shape[:-1])
    b = _core.expand_dims(B, -1) if is_vector else B
    if not left:
        if is_vector:
            raise ValueError("[solve] left=False is for matrices")
        return _lapack.transposed(_solved(_lapack.transposed(a), _lapack.transposed(b)))
    x = _solved(a, b)
    return _core.squeeze(x, -1) if is_vector else x


def _solved(a: Tensor, b: Tensor) -> Tensor:
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"[solve] A {a.shape} and B {b.shape} do not fit each other")
    return _lapack.solution("solve", a, b)


def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices. Raises ValueError for a singular one.

    >>> gb.linalg.inv(gb.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]])
    """
    return _lapack.inverse("inv", _lapack.matrices("inv", A, True))


def slogdet(A: Tensor) -> SignAndLog:
    """The sign of the determinant and the logarithm of its magnitude.

    >>> gb.linalg.slogdet(gb.tensor([[-1.0, 0.0], [0.0, 1.0]]))
    SignAndLog(sign=tensor(-1.), logabsdet=tensor(0.))
    """
    return SignAndLog(*_lapack.log_determinant("slogdet", _lapack.matrices("slogdet", A, True)))


def det(A: Tensor) -> Tensor:
    """The determinant. That of a singular matrix has no gradient: raises ValueError if one is wanted.

    >>> gb.linalg.det(gb.tensor([[1.0, 2.0], [3.0, 4.0]])).item()
    -2.0
    """
    a = _lapack.matrices("det", A, True)
    sign, log = _lapack.log_determinant("det", a)
    return sign * _core.exp(log)


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """Lower triangular L with L L' = A of a symmetric positive definite matrix; with `upper` L'.

    >>> gb.linalg.cholesky(gb.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]])
    """
    factor = _lapack.cholesky_factor("cholesky", _lapack.matrices("cholesky", A, True))
    return _lapack.transposed(factor) if upper else factor


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and an upper triangular R with Q R = A.

    `mode`: ``"reduced"``, or ``"complete"`` (square Q) and ``"r"`` (an empty Q), which have no gradient.

    >>> gb.linalg.qr(gb.tensor([[2.0], [0.0]])).Q.shape
    (2, 1)
    """
    a = _lapack.matrices("qr", A)
    if mode == "reduced":
        return QR(*_lapack.qr_factors("qr", a))
    if mode not in ("complete", "r"):
        raise ValueError(f"[qr] mode is 'reduced', 'complete' or 'r', not {mode!r}")
    if mode == "complete" and a.shape[-2] <= a.shape[-1]:  # the same
        return QR(*_lapack.qr_factors("qr", a))
    if _lapack.needs_gradient(a):
        raise ValueError(f"[qr] mode={mode!r} has no gradient")
    if mode == "r":
        (r,) = _lapack.computed("qr", lambda x: np.linalg.qr(x, "r"), a)
        return QR(_core.zeros(0, dtype=a.dtype), r)
    return QR(*_lapack.computed("qr", lambda x: tuple(np.linalg.qr(x, "complete")), a))


def svd(A: Tensor, full_matrices: bool = True) -> SVD:
    """U, the singular values S in descending order, and V' with U diag(S) V' = A.

    `full_matrices`: U and V' are square; such parts of them as `S` does not need have no gradient.

    >>> gb.linalg.svd(gb.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    a = _lapack.matrices("svd", A)
    if not full_matrices or a.shape[-1] == a.shape[-2]:
        return SVD(*_lapack.singular("svd", a))
    if _lapack.needs_gradient(a):
        raise ValueError(
            "[svd] full_matrices=True of matrices that are not square has no gradient: full_matrices=False"
        )
    return SVD(*_lapack.computed("svd", lambda x: tuple(np.linalg.svd(x)), a))


def svdvals(A: Tensor) -> Tensor:
    """The singular values in descending order.

    >>> gb.linalg.svdvals(gb.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """
    return _lapack.singular("svdvals", _lapack.matrices("svdvals", A))[1]


def eigh(A: Tensor, UPLO: str = "L") -> Eigen:
    """Eigenvalues of symmetric matrices in ascending order, and eigenvectors as columns.

    `UPLO`: the triangle that is read, ``"L"`` or ``"U"``.

    >>> gb.linalg.eigh(gb.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    a = _lapack.matrices("eigh", A, True)
    if UPLO not in ("L", "U"):
        raise ValueError(f"[eigh] UPLO is 'L' or 'U', not {UPLO!r}")
    return Eigen(*_lapack.eigen_symmetric("eigh", a, UPLO))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of symmetric matrices in ascending order.

    >>> gb.linalg.eigvalsh(gb.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    return eigh(A, UPLO).eigenvalues


def _threshold(s: Tensor, A: Tensor, atol: Any, rtol: Any) -> Tensor:
    """Singular values above it count."""
    epsilon = 2.0**-52 if A.dtype == _core.float64 else 2.0**-23
    relative = (max(A.shape[-2:]) * epsilon if atol is None else 0.0) if rtol is None else rtol
    largest = s[..., :1] * relative
    return largest if atol is None else _core.maximum(largest, float(atol))


def matrix_rank(A: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Tensor:
    """How many singular values are larger than max(atol, rtol · the largest one): int64.

    >>> gb.linalg.matrix_rank(gb.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    s = svdvals(A.detach())
    return _core.sum((s > _threshold(s, A, atol, rtol)).astype(_core.int64), -1)


def pinv(A: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Tensor:
    """The Moore-Penrose inverse [..., N, M]; singular values below the tolerance of `matrix_rank` count as 0.

    >>> gb.linalg.pinv(gb.tensor([[2.0, 0.0]]))
    tensor([[0.5],
            [0. ]])
    """
    a = _lapack.matrices("pinv", A)
    u, s, vh = _lapack.singular("pinv", a)
    counts = s > _threshold(s.detach(), a, atol, rtol)
    inverse = _core.where(counts, 1 / _core.where(counts, s, 1.0), 0.0)
    return (_lapack.transposed(vh) * _core.expand_dims(inverse, -2)) @ _lapack.transposed(u)


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """x with the smallest norm of A x - B, of matrices A [..., M, N] of full rank and B [..., M, K].

    >>> gb.linalg.lstsq(gb.tensor([[2.0], [0.0]]), gb.tensor([[4.0], [1.0]])).solution
    tensor([[2.]])
    """
    a = _lapack.matrices("lstsq", A)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise ValueError(f"[lstsq] driver is 'gels', 'gelsy', 'gelsd' or 'gelss', not {driver!r}")
    x = pinv(a, rtol=rcond) @ B
    full = a.shape[-2] > a.shape[-1]
    residuals = _core.sum(_core.square(a @ x - B), -2) if full else _core.zeros(0, dtype=a.dtype)
    return LeastSquares(x, residuals, matrix_rank(a), svdvals(a.detach()))


def matrix_power(A: Tensor, n: int) -> Tensor:
    """The product of n factors A; of the inverse where n is negative.

    >>> gb.linalg.matrix_power(gb.tensor([[2.0]]), 3)
    tensor([[8.]])
    """
    if not isinstance(A, Tensor) or not isinstance(n, int):
        raise TypeError(f"[matrix_power] a tensor and an integer are wanted, not {A!r} and {n!r}")
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"[matrix_power] of square matrices, not of shape {A.shape}")
    factor, count = (inv(A), -n) if n < 0 else (A, n)
    result = _core.broadcast_to(_lapack.identity(factor), factor.shape)
    while count:
        if count & 1:
            result = result @ factor
        factor, count = factor @ factor, count >> 1
    return result


def multi_dot(tensors: Any) -> Tensor:
    """The product of matrices, from the left.

    >>> gb.linalg.multi_dot([gb.ones((1, 2)), gb.ones((2, 3)), gb.ones((3, 1))])
    tensor([[6.]])
    """
    first, *others = tensors
    for x in others:
        first = first @ x
    result: Tensor = first
    return result


def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant; NaN where it is negative.

    >>> gb.logdet(gb.tensor([[2.0, 0.0], [0.0, 0.5]]))
    tensor(0.)
    """
    sign, log = slogdet(input)
    return _core.where(sign < 0, float("nan"), log)
