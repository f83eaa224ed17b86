"""Writes in place, their gradients, and memory that is shared with NumPy: what random programs found."""

import numpy as np
import pytest

import gabbro as gb


def leaf(*values):
    return gb.tensor(list(values)).requires_grad_()


@pytest.mark.parametrize("read", [lambda x: None, gb.eval, str])
def test_a_computed_tensor_that_is_written_as_data_keeps_its_gradient(read):
    x = leaf(1.0, 2.0)
    y = gb.cat([x, x])
    y.data.add_(1)
    read(y)
    (y * 2).sum().backward()
    assert y.tolist() == [2, 3, 2, 3] and x.grad.tolist() == [4, 4]


def test_a_write_without_gradients_keeps_the_gradient():
    x = leaf(1.0, 2.0)
    y = x * 2
    with gb.no_grad():
        y.add_(1)
    gb.eval(y)
    assert y.requires_grad
    y.sum().backward()
    assert y.tolist() == [3, 5] and x.grad.tolist() == [2, 2]


def test_a_tensor_that_is_overwritten_has_a_gradient_of_zero():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.zero_()
    assert y.requires_grad
    (y * 3).sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_detach_in_place_forgets():
    y = leaf(1.0) * 2
    assert not y.detach_().requires_grad and y.tolist() == [2]


@pytest.mark.parametrize(
    "function",
    [lambda x: gb.flip(x, [0]), lambda x: gb.roll(x, 0, 0), lambda x: gb.tile(x, (1,)), lambda x: x.repeat(1),
     lambda x: gb.nn.functional.pad(x, (0, 0)), lambda x: x.repeat_interleave(1)],
)  # fmt: skip
def test_results_that_equal_a_leaf_are_none(function):
    x = leaf(3.0)
    y = function(x)
    y += 1
    y.sum().backward()
    assert x.tolist() == [3] and y.tolist() == [4] and x.grad.tolist() == [1]


def copied(x):
    y = gb.zeros(3)
    y.copy_(x)
    return y


@pytest.mark.parametrize(
    "function",
    [copied, lambda x: gb.cumprod(x.reshape(3, 1), 1), lambda x: gb.tile(x, (1,)), lambda x: x.to(gb.float64).float(),
     lambda x: gb.nn.functional.pixel_unshuffle(x.reshape(3, 1, 1), 1)],
)  # fmt: skip
def test_results_do_not_see_writes_to_memory_of_numpy(function):
    array = np.array([1, 2, 3], "float32")
    x = gb.from_numpy(array)
    y = function(x)
    gb.eval(y)
    x += 1
    assert array.tolist() == [2, 3, 4] and y.reshape(-1).tolist() == [1, 2, 3]


def test_results_of_compiled_functions_do_not_either():
    @gb.compile
    def function(x):
        y = gb.zeros(3)
        y.copy_(x)
        x += 1
        return y

    for _ in range(2):
        array = np.array([1, 2, 3], "float32")
        y = function(gb.from_numpy(array))
        assert array.tolist() == [2, 3, 4] and y.tolist() == [1, 2, 3]


def test_memory_of_numpy_has_gradients_of_what_was_written_there():
    x = leaf(2.0, 3.0)
    y = gb.from_numpy(np.ones(2, "float32"))
    y += x * x
    gb.eval(y)
    assert y[:1].requires_grad
    (y * 2).sum().backward()
    assert y.tolist() == [5, 10] and x.grad.tolist() == [8, 12]


def test_many_views_of_memory_are_forgotten():
    x = gb.from_numpy(np.zeros((4, 4), "float32"))
    for step in range(500):
        gb.eval(x[step % 4] + 0, x.reshape(16)[:2])
    x[0] = 1
    assert x.sum().item() == 4


def test_masks_in_compiled_functions():
    @gb.compile
    def function(x):
        y = x.clone()
        y[y < 0] = 0
        return y * 2

    assert function(gb.tensor([-1.0, 2.0])).tolist() == [0, 4]
    assert function(gb.tensor([3.0, -2.0])).tolist() == [6, 0]


def test_a_wider_result_is_rounded_in_place():
    x = gb.ones(2)
    x += gb.tensor([0.5, 1.0], dtype=gb.float64)
    assert x.dtype == gb.float32 and x.tolist() == [1.5, 2]
    counts = gb.ones(2, dtype=gb.int32)
    with pytest.raises(ValueError, match="cannot hold the result"):
        counts += 0.5


def test_an_inactive_dropout_gives_its_input():
    x = gb.ones(2)
    assert gb.nn.functional.dropout(x, training=False) is x


def test_gradients_of_gradients_reach_what_a_function_captures():
    w = leaf(1.0, 2.0)
    g = gb.grad(lambda z: ((z * w) ** 2).sum())(gb.tensor([3.0, 4.0]))
    (g * g).sum().backward()
    assert w.grad.tolist() == [144, 2048]
    with gb.no_grad():
        assert not gb.grad(lambda z: (z * w).sum())(gb.ones(2)).requires_grad


def test_second_derivatives_of_decompositions():
    a = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, -0.3], [0.1, -0.3, 3.0]])
    functions = {
        "inv": lambda x: gb.linalg.inv(x),
        "det": lambda x: gb.linalg.det(x),
        "cholesky": lambda x: gb.linalg.cholesky((x + x.T) / 2),
        "solve": lambda x: gb.linalg.solve(x, gb.ones(3, dtype=gb.float64)),
        "qr": lambda x: gb.linalg.qr(x).R,
        "eigh": lambda x: gb.linalg.eigh((x + x.T) / 2).eigenvectors ** 2,
        "svd": lambda x: gb.linalg.svd(x).U ** 2,
    }
    direction = np.random.default_rng(3).standard_normal((3, 3))
    for name, function in functions.items():

        def slope(values, function=function):
            x = gb.tensor(values).requires_grad_()
            y = function(x)
            factors = gb.tensor(np.linspace(0.5, 1.5, y.numel()))
            return x, gb.autograd.grad((y.reshape(-1) * factors).sum(), x, create_graph=True)[0]

        x, g = slope(a)
        (g * gb.tensor(direction)).sum().backward()
        step = 1e-5
        expected = (slope(a + step * direction)[1] - slope(a - step * direction)[1]).detach().numpy() / (2 * step)
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_decompositions_name_what_they_want(device_named):
    with pytest.raises(ValueError, match=r"\[inv\] of square matrices, not of shape \(2, 3\)"):
        gb.linalg.inv(gb.ones((2, 3)))
    with pytest.raises(ValueError, match=r"\[inv\] Singular matrix"):
        gb.linalg.inv(gb.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"\[cholesky\] of float32 or float64, not of int64: x.float\(\)"):
        gb.linalg.cholesky(gb.tensor([[1]]))
    device_named("sim:0")
    with pytest.raises(ValueError, match=r"\[qr\] is computed by LAPACK on the CPU: x.to\('cpu'\) first"):
        gb.linalg.qr(gb.ones((2, 2)))
