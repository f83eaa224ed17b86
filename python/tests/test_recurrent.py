"""Recurrent layers as one op: values against NumPy in f64, gradients of the kernel (f32) against the
composition's (f64)."""

import numpy as np
import pytest

import gabbro as gb

SHAPES = [(1, 1, 1, 1), (5, 3, 4, 16), (2, 17, 3, 17), (7, 2, 5, 33), (3, 26, 2, 130), (60, 1, 8, 64)]  # T, B, I, H


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(kind, x, w_ih, w_hh, b_ih, b_hh, reverse):
    """The formulas of torch.nn's documentation, step by step."""
    steps, batch, _ = x.shape
    hidden = w_hh.shape[1]
    h, c, outputs = np.zeros((batch, hidden)), np.zeros((batch, hidden)), [None] * steps
    for t in reversed(range(steps)) if reverse else range(steps):
        own, other = x[t] @ w_ih.T + b_ih, h @ w_hh.T + b_hh
        if kind == "LSTM":
            i, f, g, o = np.split(own + other, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        elif kind == "GRU":
            (r, z, n), (rh, zh, nh) = np.split(own, 3, axis=1), np.split(other, 3, axis=1)
            n = np.tanh(n + sigmoid(r + rh) * nh)
            z = sigmoid(z + zh)
            h = (1 - z) * n + z * h
        else:
            h = np.maximum(own + other, 0) if kind == "relu" else np.tanh(own + other)
        outputs[t] = h
    return np.stack(outputs), h, c


def layer_of(kind, inputs, hidden, dtype, **options):
    if kind in ("tanh", "relu"):
        return gb.nn.RNN(inputs, hidden, nonlinearity=kind, dtype=dtype, **options)
    return getattr(gb.nn, kind)(inputs, hidden, dtype=dtype, **options)


def numbers(rng, shape):
    return rng.uniform(-0.7, 0.7, shape).astype("float32")


@pytest.mark.parametrize("kind", ["tanh", "relu", "LSTM", "GRU"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_layer_in_both_directions_is_that_of_the_formulas(rng, kind, shape):
    steps, batch, inputs, hidden = shape
    layer = layer_of(kind, inputs, hidden, gb.float32, bidirectional=True)
    state = {name: numbers(rng, p.shape) * 2 / hidden**0.5 for name, p in layer.named_parameters()}
    layer.load_state_dict({name: gb.tensor(value) for name, value in state.items()})
    x = numbers(rng, (steps, batch, inputs))
    output, last = layer(gb.tensor(x))
    h = last[0] if kind == "LSTM" else last
    for direction, suffix in enumerate(("", "_reverse")):
        weights = [state[f"{n}_l0{suffix}"].astype("float64") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        y, h_end, c_end = reference(kind, x.astype("float64"), *weights, reverse=direction == 1)
        # Each step rounds a sum of I + H products, and what it hands on.
        bound = 2.0**-24 * (inputs + hidden + 40) * 2
        np.testing.assert_allclose(output.numpy()[..., direction * hidden :][..., :hidden], y, rtol=0, atol=bound)
        np.testing.assert_allclose(h.numpy()[direction], h_end, rtol=0, atol=bound)
        if kind == "LSTM":
            np.testing.assert_allclose(last[1].numpy()[direction], c_end, rtol=0, atol=2 * bound)


def gradients_of(kind, shape, dtype, state, x, weights, states):
    _, _, inputs, hidden = shape
    layer = layer_of(kind, inputs, hidden, dtype, bidirectional=True)
    layer.load_state_dict({name: gb.astype(gb.tensor(value), dtype) for name, value in state.items()})
    of_dtype = [gb.astype(gb.tensor(value), dtype) for value in (x, *weights, *states)]
    for tensor in (of_dtype[0], *of_dtype[3:]):
        tensor.requires_grad = True
    x, w_output, w_h, h, c = of_dtype
    if kind == "LSTM":
        output, (h_end, c_end) = layer(x, (h, c))
        loss = gb.sum(output * w_output) + gb.sum(h_end * w_h) + gb.sum(c_end * c_end)
    else:
        output, h_end = layer(x, h)
        loss = gb.sum(output * w_output) + gb.sum(h_end * w_h)
    loss.backward()
    found = {name: p.grad for name, p in layer.named_parameters()}
    found.update(x=x.grad, h=h.grad)
    if kind == "LSTM":
        found["c"] = c.grad
    return {name: value.numpy() for name, value in found.items()}


@pytest.mark.parametrize("kind", ["tanh", "relu", "LSTM", "GRU"])
@pytest.mark.parametrize("shape", SHAPES[:-1])
def test_gradients_of_the_kernel_are_those_of_the_composition(rng, kind, shape):
    steps, batch, inputs, hidden = shape
    names = layer_of(kind, inputs, hidden, gb.float32, bidirectional=True).named_parameters()
    state = {name: numbers(rng, p.shape) * 2 / hidden**0.5 for name, p in names}
    x, h, c = numbers(rng, (steps, batch, inputs)), numbers(rng, (2, batch, hidden)), numbers(rng, (2, batch, hidden))
    weights = [numbers(rng, (steps, batch, 2 * hidden)), numbers(rng, (2, batch, hidden))]
    actual = gradients_of(kind, shape, gb.float32, state, x, weights, (h, c))
    expected = gradients_of(kind, shape, gb.float64, state, x, weights, (h, c))
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        bound = 2.0**-24 * (4 * hidden + steps * batch + 40) * (1 + np.abs(value).max())
        np.testing.assert_allclose(actual[name], value, rtol=0, atol=bound, err_msg=name)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "tanh"])
def test_second_derivatives_are_those_of_differences(rng, kind):
    layer = layer_of(kind, 2, 3, gb.float64)
    x, step = gb.tensor(rng.uniform(-1, 1, (3, 2, 2))), 1e-5
    direction = gb.tensor(rng.uniform(-1, 1, (3, 2, 2)))

    def slope(x):
        return gb.grad(lambda x: gb.sum(layer(x)[0] ** 2))(x)

    second = gb.grad(lambda x: gb.sum(slope(x) * direction))(x)
    difference = (slope(x + step * direction) - slope(x - step * direction)) / (2 * step)
    np.testing.assert_allclose(second.numpy(), difference.numpy(), rtol=0, atol=1e-8)
