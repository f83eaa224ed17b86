"""x[i] = value writes into x's memory where nothing else can see it, and nowhere else."""

import numpy as np
import pytest

import gabbro as gb


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool", "float16"])
def test_a_loop_of_assignments(rng, dtype):
    x, expected = gb.zeros((7, 5), dtype=dtype), np.zeros((7, 5), dtype)
    for i in range(7):
        x[i, 2], expected[i, 2] = i, i
        x[-1 - i], expected[-1 - i] = i % 2, i % 2
        x[::2, 1:4], expected[::2, 1:4] = 1, 1
        x[i:1:-1, i % 5], expected[i:1:-1, i % 5] = 0, 0
        row = (rng.standard_normal(5) * 3).astype(dtype)
        x[i], expected[i] = gb.tensor(row), row
        x[:, 0], expected[:, 0] = gb.tensor(expected[:, 1].copy()), expected[:, 1]
        np.testing.assert_array_equal(x.numpy(), expected)


def test_nothing_else_changes():
    x = gb.zeros(4)
    x[0] = 1
    x[1] = 2
    for seen in (x.numpy(), np.from_dlpack(x), memoryview(x)):
        x[2] = x[2].item() + 5
        assert np.asarray(seen).tolist() != x.tolist()
    pending, same = x * 2, x
    before = x.tolist()
    x[1] = 9
    assert pending.tolist() == [2 * value for value in before]
    assert same is x and x.tolist()[1] == 9


def test_values_that_are_a_part_of_the_tensor_itself():
    x = gb.arange(6.0)
    x[0] = 0  # in separate memory now
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x[...] = x[::-1]
    x[:] = x[::-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]


def test_a_traced_function_assigns_in_the_trace():
    @gb.compile
    def function(x):
        y = gb.zeros(3)
        y[1] = 5
        y[0:1] = x[0:1] * 2
        return y

    assert function(gb.tensor([1.0, 2.0])).tolist() == [2, 5, 0]
    assert function(gb.tensor([4.0, 2.0])).tolist() == [8, 5, 0]


def test_gradients_go_through_assignments():
    def function(x):
        y = x * 2
        y[0] = 7
        return gb.sum(y * y)

    assert gb.grad(function)(gb.tensor([1.0, 3.0])).tolist() == [0, 24]


def test_indices_outside_and_values_that_do_not_fit_are_refused():
    x = gb.zeros((2, 3))
    x[0, 0] = 1
    for index in (2, -3, (0, 3), (0, 0, 0)):
        with pytest.raises(IndexError):
            x[index] = 1
    with pytest.raises(ValueError):
        x[0] = gb.zeros(2)
    assert x.tolist() == [[1, 0, 0], [0, 0, 0]]
