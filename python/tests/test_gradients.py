"""Gradients through each Python function that computes them, against finite differences and PyTorch."""

import gc
import math
import threading
import weakref

import numpy as np
import pytest

import gabbro as gb
from conftest import close


def numeric(f, x, step=1e-3):
    """The gradient of f, of arrays of float64, by differences."""
    result = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        result[i] = (f(up) - f(down)) / (2 * step)
    return result


def test_backward_sums_up_in_the_leaves():
    x = gb.tensor([2.0, 3.0]).requires_grad_()
    assert x.requires_grad and x.is_leaf and x.grad is None
    for times in (1, 2):
        y = (x * x).sum()
        assert y.requires_grad and not y.is_leaf
        y.backward()
        assert x.grad.tolist() == [4.0 * times, 6.0 * times] and not x.grad.requires_grad
    x.grad = None
    (x * 3).backward(gb.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [3.0, 30.0]
    x.grad = gb.zeros(2)
    (x * 3).backward(seed=2)
    assert x.grad.tolist() == [6.0, 6.0]


def test_histories_are_freed_unless_they_are_kept():
    x = gb.tensor(2.0).requires_grad_()
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8
    with pytest.raises(ValueError, match="freed"):
        y.backward()


def test_what_cannot_have_a_gradient():
    with pytest.raises(ValueError, match=r"\[requires_grad\].*i64"):
        gb.tensor([1]).requires_grad_()
    with pytest.raises(ValueError, match=r"\[backward\]"):
        gb.tensor(1.0).backward()
    x = gb.tensor([1.0, 2.0]).requires_grad_()
    with pytest.raises(ValueError, match="seed"):
        (x * 2).backward()
    with pytest.raises(ValueError, match="seed"):
        (x * 2).backward(gb.ones(3))
    with pytest.raises(ValueError, match="detach"):
        (x * 2).requires_grad_(False)
    with pytest.raises(ValueError, match="grad"):
        x.grad = gb.ones(3)
    with pytest.raises(ValueError, match="grad"):
        gb.ones(2).grad = gb.ones(2)
    x.requires_grad = False
    assert not (x * 2).requires_grad


def test_no_grad_and_detach():
    x = gb.tensor([1.0]).requires_grad_()
    with gb.no_grad():
        assert not (x * 2).requires_grad and not gb.is_grad_enabled()
        with gb.no_grad():
            pass
        assert not gb.is_grad_enabled()
    assert gb.is_grad_enabled() and not x.detach().requires_grad

    @gb.no_grad()
    def f(depth):
        assert not gb.is_grad_enabled()
        return f(depth - 1) if depth else x * 2

    assert not f(3).requires_grad and gb.is_grad_enabled()
    with pytest.raises(KeyError), gb.no_grad():
        raise KeyError
    assert gb.is_grad_enabled()
    seen = []
    with gb.no_grad():
        thread = threading.Thread(target=lambda: seen.append(gb.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_parameters_are_changed_under_no_grad():
    w = gb.tensor([1.0, 2.0]).requires_grad_()
    alias = w
    (w * w).sum().backward()
    for change in (lambda: w.__iadd__(1), lambda: w.__setitem__(0, 1.0)):
        with pytest.raises(ValueError, match="no_grad"):
            change()
    with gb.no_grad():
        w -= 0.5 * w.grad
        w[0] = 7
    assert w is alias and w.tolist() == [7.0, 0.0]
    assert w.requires_grad and w.is_leaf and w.grad.tolist() == [2.0, 4.0]
    (w * 1).sum().backward()
    assert w.grad.tolist() == [3.0, 5.0]
    total = w.sum()
    total += 1  # what was computed may be
    assert total.requires_grad and total.item() == 8


def test_gradient_descent_finds_the_line(rng):
    x = rng.random((64, 3)).astype("float32")
    y = gb.tensor(x @ np.array([1.0, -2.0, 0.5], "float32") + 3)
    x = gb.tensor(x)

    def loss(parameters):
        return gb.mse_loss(x @ parameters["w"] + parameters["b"], y)

    parameters = {"w": gb.zeros(3), "b": gb.zeros(())}
    step = gb.compile(gb.value_and_grad(loss))
    for _ in range(500):
        value, gradients = step(parameters)
        parameters = {name: parameters[name] - 0.3 * gradients[name] for name in parameters}
        gb.eval(parameters)
    assert value.item() < 1e-6
    np.testing.assert_allclose(parameters["w"].numpy(), [1, -2, 0.5], atol=0.01)


def test_functions_of_trees(rng):
    a, b = rng.random(3).astype("float32"), rng.random((2, 3)).astype("float32")

    def f(first, second, *, power=2):
        return ((first["a"] * second[0][1]) ** power).sum() + first["n"] * second[1].sum()

    first, second = {"a": gb.tensor(a), "n": 5}, [(None, gb.tensor(b)), gb.tensor(a)]
    value, gradients = gb.value_and_grad(f)(first, second, power=3)
    close(value, ((a * b) ** 3).sum() + 5 * a.sum(), epsilons=64)
    assert gradients["n"] == 5
    close(gradients["a"], (3 * (a * b) ** 2 * b).sum(0), epsilons=64)
    one, two = gb.grad(f, argnums=(0, 1))(first, second)
    close(one["a"], (2 * a * b * b).sum(0), epsilons=64)
    assert two[0][0] is None
    close(two[0][1], 2 * a * b * a, epsilons=64)
    close(two[1], np.full(3, 5, "float32"))
    close(gb.grad(f, -1)(first, second)[1], np.full(3, 5, "float32"))


def test_auxiliary_results():
    (value, more), gradient = gb.value_and_grad(lambda x: (x * x, {"twice": x * 2}), has_aux=True)(gb.tensor(3.0))
    assert (value.item(), more["twice"].item(), gradient.item()) == (9, 6, 6)
    gradient, more = gb.grad(lambda x: (x * x, "word"), has_aux=True)(gb.tensor(3.0))
    assert (gradient.item(), more) == (6, "word")


def test_functions_without_gradients():
    with pytest.raises(ValueError, match="not one number"):
        gb.grad(lambda x: x * 2)(gb.ones(2))
    with pytest.raises(ValueError, match="no tensor"):
        gb.grad(lambda x: 5)(gb.ones(2))
    with pytest.raises(ValueError, match="no tensors in argument 0"):
        gb.grad(lambda x: x)(5)
    with pytest.raises(TypeError, match="argument 1"):
        gb.grad(lambda x: x, argnums=1)(gb.ones(2))
    with pytest.raises(ZeroDivisionError):
        gb.grad(lambda x: 1 / 0)(gb.ones(2))
    assert gb.is_grad_enabled()
    assert gb.grad(lambda x: gb.tensor(1.0))(gb.ones(2)).tolist() == [0, 0]


def test_higher_order():
    f = gb.grad(gb.grad(gb.grad(lambda x: x**4)))
    assert f(gb.tensor(2.0)).item() == 48


def test_checkpoints_compute_once_more():
    calls = []

    @gb.checkpoint
    def block(x, w, *, scale):
        calls.append(1)
        return {"y": gb.tanh(x @ w["w"]) * scale, "n": 3}

    w, x = {"w": gb.ones((3, 3)).requires_grad_()}, gb.rand(2, 3)
    result = block(x, w, scale=2.0)
    assert result["n"] == 3 and len(calls) == 1
    result["y"].sum().backward()
    assert len(calls) == 2
    expected = gb.grad(lambda w: (gb.tanh(x @ w) * 2.0).sum())(w["w"])
    close(w["w"].grad, expected.numpy(), epsilons=64)


def test_histories_do_not_outlive_their_tensors():
    class Marker:
        pass

    marker = Marker()
    alive = weakref.ref(marker)

    def block(x, marker=marker):
        return x * 2

    x = gb.ones(3).requires_grad_()
    y = gb.checkpoint(block)(x).sum()
    del marker, block
    gc.collect()
    assert alive() is not None
    y.backward()
    del y
    gc.collect()
    assert alive() is None


SMOOTH = ["exp", "log", "sqrt", "sin", "tanh", "sigmoid", "erf", "square", "log1p", "gelu", "silu"]


@pytest.mark.parametrize("name", SMOOTH)
def test_elementwise_gradients(name, rng):
    x = rng.random((2, 3)) + 0.5
    f = getattr(gb, name)
    expected = numeric(lambda x: float(f(gb.tensor(x)).sum()), x)
    np.testing.assert_allclose(gb.grad(lambda x: f(x).sum())(gb.tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("axes", [(0, 2), (0, 1), (-1, 0, 1), None])
def test_equal_extremes_share_the_gradient(name, axes):
    x = np.array([[[1.0, 1], [1, 3]], [[0, 1], [3, 3]]], "float32") * (1 if name == "max" else -1)
    y = getattr(gb, name)(gb.tensor(x), axis=axes, keepdims=True).numpy()
    hits = (x == y).astype("float32")
    expected = hits / hits.sum(axes if axes is None else tuple(axes), keepdims=True)
    np.testing.assert_allclose(gb.grad(lambda x: getattr(gb, name)(x, axis=axes).sum())(gb.tensor(x)).numpy(), expected)


def test_a_power_of_zero_has_no_second_derivative():
    first = gb.grad(lambda x: (x**0).sum())
    assert gb.grad(lambda x: first(x).sum())(gb.tensor([0.0, 2.0])).tolist() == [0, 0]


@pytest.mark.parametrize("name", ["max", "min"])
def test_an_infinite_gradient_reaches_the_extremes_alone(name):
    """The derivative of asin at 1 is infinite; the other elements do not get infinity times 0."""
    x = gb.tensor([1.0, 1.0, 0.5] if name == "max" else [1.0, 1.0, 2.0])
    assert gb.grad(lambda x: gb.asin(getattr(gb, name)(x)))(x).tolist() == [math.inf, math.inf, 0.0]


@pytest.mark.parametrize("dtype", [gb.float32, gb.float16, gb.float64])
def test_a_query_that_attends_to_nothing_has_no_gradient(dtype):
    ones = gb.ones((1, 2, 4), dtype=dtype)
    mask = gb.tensor([[0.0], [-np.inf]], dtype=dtype)

    def f(q, k, v):
        y = gb.scaled_dot_product_attention(q, k, v, mask)
        assert y[0, 1].tolist() == [0] * 4
        return y.sum()

    dq, dk, dv = gb.grad(f, range(3))(ones, ones[:, :1], ones[:, :1])
    assert dq.tolist() == [[[0] * 4] * 2] and dk.tolist() == [[[0] * 4]] and dv.tolist() == [[[1] * 4]]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weights", [None, [np.inf, 1.0]])
def test_ignored_rows_count_for_nothing(smoothing, weights):
    x = gb.tensor([[1.0, 1.0], [np.nan, np.inf], [2.0, 1.0]])
    target = gb.tensor([1, 0, 0])
    weight = None if weights is None else gb.tensor(weights)

    def loss(x, weight):
        return gb.nn.functional.cross_entropy(
            x, target, weight, ignore_index=0, reduction="none", label_smoothing=smoothing
        )

    assert loss(x, weight)[1:].tolist() == [0, 0]
    roots = gb.grad(lambda x: gb.sqrt(loss(x, None)).sum())
    assert roots(gb.ones((3, 2)))[1:].tolist() == [[0, 0], [0, 0]]


def both(f, *arrays):
    """f of Gabbro's and of PyTorch's tensors, and the gradients by all of them."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ours, theirs = [gb.tensor(a).requires_grad_() for a in arrays], [torch.tensor(a).requires_grad_() for a in arrays]
    value, expected = f(gb, gb, *ours), f(torch, torch.nn.functional, *theirs)
    close(value, expected.detach().numpy(), epsilons=256)
    value.sum().backward()
    expected.sum().backward()
    for x, y in zip(ours, theirs, strict=True):
        close(x.grad, y.grad.numpy(), epsilons=512)


@pytest.mark.parametrize(
    "f",
    [
        lambda np, nn, x, y: (x * y + x / y - y) ** 2,
        lambda np, nn, x, y: np.where(x > y, x, y * 2),
        lambda np, nn, x, y: np.maximum(x, y) @ y.T,
        lambda np, nn, x, y: nn.softmax(x, -1) * nn.log_softmax(y, -1),
        lambda np, nn, x, y: np.einsum("ij,kj->ik", x, y),
        lambda np, nn, x, y: nn.linear(x, y),
        lambda np, nn, x, y: nn.mse_loss(x, y) + nn.l1_loss(x, y),
        lambda np, nn, x, y: x[1:, ::2] * y[:-1, 1:3] + x[0, 0],
        lambda np, nn, x, y: nn.gelu(x) + nn.silu(y),
        lambda np, nn, x, y: nn.scaled_dot_product_attention(x[None], y[None], y[None], is_causal=True),
        lambda np, nn, x, y: np.logsumexp(x, -1) + y.max(),
        lambda np, nn, x, y: np.stack([x, y])[:, 0].var(correction=1),
    ],
)
def test_gradients_are_pytorchs(f, rng):
    both(f, rng.random((3, 4)).astype("float32"), rng.random((3, 4)).astype("float32") + 0.1)


def test_gradients_of_networks_are_pytorchs(rng):
    both(
        lambda np, nn, x, w, b: nn.max_pool2d(nn.relu(nn.conv2d(x, w, b, stride=1, padding=1)), 2),
        *(rng.random(shape).astype("float32") for shape in ((2, 3, 6, 6), (4, 3, 3, 3), (4,))),
    )
