"""Comparison of tensors in tests, as torch.testing.

>>> gb.testing.assert_close(gb.ones(2), gb.ones(2))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _core
from ._core import Tensor
from .functions.comparing import isclose

__all__ = ["assert_close"]

_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    msg: str | None = None,
) -> None:
    """Raises AssertionError unless tensors, numbers, or lists and dicts of these, are close, of one shape and dtype.

    Without tolerances these are PyTorch's for the dtype.

    >>> gb.testing.assert_close(gb.tensor([1.0]), gb.tensor([1.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError("[assert_close] rtol and atol go together")
    options: dict[str, Any] = {
        "rtol": rtol,
        "atol": atol,
        "equal_nan": equal_nan,
        "check_device": check_device,
        "check_dtype": check_dtype,
        "msg": msg,
    }
    if isinstance(expected, Mapping):
        if not isinstance(actual, Mapping) or actual.keys() != expected.keys():
            raise AssertionError(msg or "the dicts have different keys")
        for key in expected:
            assert_close(actual[key], expected[key], **options)
        return
    if isinstance(expected, Sequence) and not isinstance(expected, (str, Tensor)):
        if not isinstance(actual, Sequence) or len(actual) != len(expected):
            raise AssertionError(msg or "the lists have different lengths")
        for a, b in zip(actual, expected, strict=True):
            assert_close(a, b, **options)
        return
    a, b = (
        x if isinstance(x, Tensor) else _core.tensor(x, dtype=_core.float64 if isinstance(x, float) else None)
        for x in (actual, expected)
    )
    for what, mine, wanted, checked in (
        ("shapes", a.shape, b.shape, True),
        ("dtypes", a.dtype, b.dtype, check_dtype),
        ("devices", a.device, b.device, check_device),
    ):
        if checked and mine != wanted:
            raise AssertionError(msg or f"the {what} differ: {mine} and {wanted}")
    a = a.to(b.device)
    if a.dtype != b.dtype:
        dtype = _core._promote(a.dtype, b.dtype)
        a, b = a.astype(dtype), b.astype(dtype)
    relative, absolute = _TOLERANCES.get(str(a.dtype), (0.0, 0.0))
    near = isclose(
        a.detach(), b.detach(), relative if rtol is None else rtol, absolute if atol is None else atol, equal_nan
    )
    wrong = int(_core.count_nonzero(_core.logical_not(near)))
    if wrong:
        raise AssertionError(msg or f"{wrong} of {near.reshape(-1).shape[0]} elements are not close: {a} and {b}")
