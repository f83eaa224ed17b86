"""Integers are never changed silently: Python ints, and sums of integers."""

import numpy as np
import pytest

import gabbro as gb

LARGE = [2**31, -(2**31) - 1, 2**40, 2**62, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("n", LARGE)
def test_python_ints_beyond_int32(n):
    made = {
        "tensor": gb.tensor(n),
        "asarray": gb.asarray(n),
        "list": gb.tensor([1, n])[1],
        "mixed list": gb.tensor([gb.tensor(1), n])[1],
        "full": gb.full(1, n)[0],
        "where": gb.where(gb.tensor([True]), n, 0)[0],
        "where not": gb.where(gb.tensor([False]), 0, n)[0],
        "arange": gb.arange(n, n + 1 if n < 2**63 - 1 else n - 1, 1 if n < 2**63 - 1 else -1)[0],
        "int64": gb.tensor(n, dtype="int64"),
    }
    for name, x in made.items():
        assert x.dtype == gb.int64, name
        assert x.item() == n, name


@pytest.mark.parametrize("n", [2**31 - 1, -(2**31), 0])
def test_python_ints_are_int64(n):
    made = [gb.tensor(n), gb.asarray(n), gb.full(1, n)[0], gb.where(gb.tensor(True), n, 0), gb.tensor([n])[0]]
    for x in made:
        assert x.dtype == gb.int64
        assert x.item() == n


@pytest.mark.parametrize("n", [2**63, -(2**63) - 1, 2**64, 2**70])
def test_python_ints_beyond_int64(n):
    for make in (
        gb.tensor, gb.asarray, lambda n: gb.tensor([1, n]), lambda n: gb.tensor([gb.tensor(1), n]),
        lambda n: gb.full(1, n), lambda n: gb.where(gb.tensor([True]), n, 0), lambda n: gb.arange(n, n + 2),
    ):  # fmt: skip
        with pytest.raises(OverflowError):
            make(n)


@pytest.mark.parametrize(
    ("dtype", "n"), [("int8", 128), ("int8", -129), ("uint8", 256), ("uint8", -1), ("int16", 2**15), ("int32", 2**31)]
)
def test_dtypes_that_do_not_hold_the_number(dtype, n):
    with pytest.raises(OverflowError):
        np.array(n, dtype)
    for make in (
        lambda: gb.tensor(n, dtype=dtype), lambda: gb.asarray([0, n], dtype=dtype), lambda: gb.full(1, n, dtype=dtype),
        lambda: gb.full_like(gb.zeros(1, dtype=dtype), n), lambda: gb.arange(n - 1, n + 2, dtype=dtype),
    ):  # fmt: skip
        with pytest.raises(OverflowError):
            make()


def test_operators_do_not_wrap_the_number():
    x = gb.tensor([1, 2], dtype="int32")
    for function in (
        lambda: x + 2**40, lambda: 2**40 - x, lambda: x * 2**31, lambda: x == 2**40, lambda: gb.maximum(x, 2**40),
        lambda: gb.where(gb.tensor([True, False]), x, 2**40), lambda: gb.tensor([1], dtype="int8") + 300,
    ):  # fmt: skip
        with pytest.raises((ValueError, OverflowError)):
            function()
    assert (x.astype("int64") + 2**40).tolist() == [2**40 + 1, 2**40 + 2]
    assert (x + gb.tensor(2**40)).tolist() == [2**40 + 1, 2**40 + 2]


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 2**31, 2**29), (2**62, 2**62 + 5, 2), (2**31 - 2, 2**31 + 2, 1), (5, -(2**33), -(2**32) + 1), (3, 3, 1),
     (2**63 - 3, 2**63 - 1, 1), (-(2**63), 2**63 - 1, 2**62 + 1), (10, 0, -3), (0, 10, 3)],
)  # fmt: skip
def test_arange(start, stop, step):
    expected = list(range(start, stop, step))
    x = gb.arange(start, stop, step)
    assert x.tolist() == expected
    assert x.dtype == gb.int64


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "int64"])
def test_sums_and_products(dtype):
    numbers = np.arange(300 * 7).reshape(300, 7) % 100 + 28
    x = numbers.astype(dtype)
    for axis in (None, 0, 1, (0, 1)):
        for keepdims in (False, True):
            expected = x.sum(axis=axis, keepdims=keepdims, dtype="int64")
            actual = gb.sum(gb.tensor(x), axis=axis, keepdims=keepdims)
            assert actual.dtype == gb.int64
            assert np.array_equal(actual.numpy(), expected)
    y = x[:3]
    for axis in (None, 0, 1):
        actual = gb.prod(gb.tensor(y), axis=axis)
        assert actual.dtype == gb.int64
        assert np.array_equal(actual.numpy(), y.prod(axis=axis, dtype="int64"))
    for axis in (0, 1):
        for ours, theirs in (
            (gb.cumsum(gb.tensor(x), axis), x.cumsum(axis, dtype="int64")),
            (gb.cumulative_sum(gb.tensor(x), axis=axis), x.cumsum(axis, dtype="int64")),
            (gb.cumulative_prod(gb.tensor(y), axis=axis), y.cumprod(axis, dtype="int64")),
        ):
            assert ours.dtype == gb.int64
            assert np.array_equal(ours.numpy(), theirs)


def test_sums_beyond_int32():
    n = 100_000
    assert gb.arange(n).sum().item() == n * (n - 1) // 2
    assert gb.cumsum(gb.arange(n), 0)[-1].item() == n * (n - 1) // 2
    assert gb.full(3, 2**30).sum().item() == 3 * 2**30
    assert gb.prod(gb.full(3, 2**20)).item() == 2**60
    columns = gb.full((70_000, 3), 2**31 - 1)
    assert columns.sum(axis=0).tolist() == [70_000 * (2**31 - 1)] * 3
    assert columns.T.sum(axis=1).tolist() == [70_000 * (2**31 - 1)] * 3
    assert gb.sum(gb.tensor([2**31 - 1] * 40), dtype="int32").item() == (40 * (2**31 - 1) + 2**31) % 2**32 - 2**31
    assert gb.sum(gb.tensor(7), axis=()).dtype == gb.int64
