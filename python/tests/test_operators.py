"""Operators against NumPy: values, broadcasting, dtypes, reflected and in-place forms."""

import operator

import numpy as np
import pytest

import gabbro as gb
from conftest import close

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
SHAPES = [((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 5)), ((), (4,)), ((0, 3), (3,)), ((7, 1, 2), (3, 1)), ((), ())]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("apply", ARITHMETIC + COMPARISONS)
def test_tensors_of_float32(apply, shapes, rng):
    a, b = (rng.integers(1, 5, shape).astype("float32") for shape in shapes)
    close(apply(gb.tensor(a), gb.tensor(b)), apply(a, b))


@pytest.mark.parametrize("apply", [operator.add, operator.sub, operator.mul, *COMPARISONS])
def test_tensors_of_int32(apply, rng):
    a, b = (rng.integers(-5, 5, (3, 4), dtype="int32") for _ in range(2))
    close(apply(gb.tensor(a), gb.tensor(b)), apply(a, b))


@pytest.mark.parametrize("apply", ARITHMETIC + COMPARISONS)
@pytest.mark.parametrize("number", [2, 2.5, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numbers_take_the_dtype_of_the_tensor(apply, number, dtype):
    a = np.array([1, 2, 3.5], dtype)
    close(apply(gb.tensor(a), number), apply(a, np.array(number, dtype)))
    close(apply(number, gb.tensor(a)), apply(np.array(number, dtype), a))


def test_a_float_beside_integers_gives_float32():
    close(gb.tensor([1, 2]) + 0.5, np.array([1.5, 2.5], "float32"))
    close(gb.tensor([1, 2]) / 2, np.array([0.5, 1.0], "float32"))
    close(gb.tensor([True, False]) + 1, np.array([2, 1], "int64"))


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"\[add\] 2147483648 does not fit in int32"):
        gb.tensor([1], dtype="int32") + 2**31
    with pytest.raises(ValueError, match="does not fit"):
        gb.tensor([1]) + 2**100


def test_numpy_arrays_on_either_side(rng):
    a = rng.random((2, 3)).astype("float32")
    for result in (gb.tensor(a) + a, a + gb.tensor(a), np.float32(2) * gb.tensor(a), gb.tensor(a) * np.float32(2)):
        assert isinstance(result, gb.Tensor)
        close(result, a * 2)


def test_powers_products_and_unary_ones(rng):
    a, b = rng.random((2, 3)).astype("float32") + 1, rng.random((3, 4)).astype("float32")
    close(gb.tensor(a) ** 2, a**2)
    close(2 ** gb.tensor(a), 2**a)
    close(gb.tensor(a) @ gb.tensor(b), a @ b, epsilons=8 * 3)
    close(a @ gb.tensor(b), a @ b, epsilons=8 * 3)
    close(-gb.tensor(a), -a)
    close(+gb.tensor(a), a)
    close(abs(gb.tensor(-a)), a)
    flags = np.array([True, False, True])
    close(~gb.tensor(flags), ~flags)
    close(gb.tensor(flags) & flags[::-1].copy(), flags & flags[::-1])
    close(gb.tensor(flags) | True, flags | True)


INTEGER = [operator.floordiv, operator.mod, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("apply", INTEGER)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers(apply, dtype, rng):
    a, b = rng.integers(0, 50, (3, 4)).astype(dtype), rng.integers(1, 6, 4).astype(dtype)
    close(apply(gb.tensor(a), gb.tensor(b)), apply(a, b))
    close(apply(gb.tensor(a), 3), apply(a, np.array(3, dtype)))
    close(apply(3, gb.tensor(b)), apply(np.array(3, dtype), b))
    x = gb.tensor(a)
    y = getattr(operator, "i" + apply.__name__.strip("_"))(x, 3)
    assert y is x
    close(x, apply(a, np.array(3, dtype)))


@pytest.mark.parametrize("apply", [operator.floordiv, operator.mod])
def test_floor_divisions(apply):
    a = np.array([7, -7, 7.5, -0.5], "float32")
    for b in (2, -2, 0.25):
        close(apply(gb.tensor(a), b), apply(a, np.float32(b)))
    assert apply(gb.tensor([5, -5]), 0).tolist() == [0, 0]


def test_bits_of_bool_and_of_integers():
    flags = np.array([True, False])
    close(gb.tensor(flags) ^ True, ~flags)
    close(~gb.tensor([0, 5]), np.array([-1, -6], "int64"))
    with pytest.raises(ValueError, match="bitwise"):
        gb.tensor([1.0]) & gb.tensor([1.0])


@pytest.mark.parametrize("apply", [operator.iadd, operator.isub, operator.imul, operator.itruediv])
def test_in_place_forms_keep_the_object_and_not_the_value(apply):
    x = gb.tensor([1.0, 2.0])
    alias, before = x, x + 0
    y = apply(x, 2)
    expected = apply(np.array([1, 2], "float32"), 2)
    assert y is x and alias is x
    close(x, expected)
    close(before, np.array([1, 2], "float32"))


def test_in_place_forms_keep_shape_and_dtype():
    x = gb.tensor([1, 2])
    with pytest.raises(ValueError, match=r"\[add\] in place"):
        x += 0.5
    with pytest.raises(ValueError, match=r"\[multiply\] in place"):
        x *= gb.ones((2, 2), dtype="int32")
    assert x.tolist() == [1, 2]


def test_other_objects_are_type_errors():
    x = gb.tensor([1.0])
    for apply in [*ARITHMETIC, operator.lt, operator.matmul]:
        with pytest.raises(TypeError):
            apply(x, "a")
        with pytest.raises(TypeError):
            apply(None, x)
    assert (x == "a") is False
    assert (x != None) is True  # noqa: E711
    assert x in {x}  # hashed by identity


def test_division_by_zero_does_not_end_the_process():
    with np.errstate(all="ignore"):
        close(gb.tensor([1.0, -1.0]) / 0, np.array([np.inf, -np.inf], "float32"))
    gb.tensor([1, -(2**31)]) / gb.tensor([0, -1])
