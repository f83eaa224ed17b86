"""Indices of triangles of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The rows and columns of elements on and below a diagonal, int64 [2, count].

    >>> gb.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _core.tensor(np.stack(np.tril_indices(row, offset, col)), dtype=dtype or _core.int64, device=device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The rows and columns of elements on and above a diagonal, int64 [2, count].

    >>> gb.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _core.tensor(np.stack(np.triu_indices(row, offset, col)), dtype=dtype or _core.int64, device=device)
