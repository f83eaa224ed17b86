"""Functions of tensors of shape (), without elements or without columns: shapes and values against NumPy's formulas."""

import math

import numpy as np
import pytest

import gabbro as gb
import gabbro.nn.functional as F


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [gb.float32, gb.float16])
@pytest.mark.parametrize(
    ("loss", "expected", "slope"),
    [
        (F.mse_loss, 0.0625, -0.5),
        (F.l1_loss, 0.25, -1.0),
        (F.binary_cross_entropy, -0.75 * math.log(0.5) - 0.25 * math.log(0.5), -1.0),
        (F.kl_div, 0.75 * (math.log(0.75) - 0.5), -0.75),
        (F.smooth_l1_loss, 0.03125, -0.25),
        (F.huber_loss, 0.03125, -0.25),
    ],
)
def test_losses_of_shape_nothing(loss, expected, slope, dtype, reduction):
    x, target = gb.tensor(0.5, dtype=dtype), gb.tensor(0.75, dtype=dtype)
    y = loss(x, target, reduction=reduction)
    gradient = gb.grad(lambda x: loss(x, target, reduction=reduction))(x)
    assert y.shape == y.numpy().shape == () and gradient.shape == gradient.numpy().shape == ()
    error = 2e-3 if dtype == gb.float16 else 1e-6
    np.testing.assert_allclose([y.item(), gradient.item()], [expected, slope], rtol=error)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (2, 3, 0)])
def test_linear_without_columns_is_the_bias_and_has_gradients(shape):
    x, weight, bias = gb.zeros(shape), gb.zeros((4, 0)), gb.tensor([1.0, 2.0, 3.0, 4.0])
    y, gradients = gb.value_and_grad(lambda *of: F.linear(*of).sum(), (0, 1, 2))(x, weight, bias)
    rows = math.prod(shape[:-1])
    assert y.item() == 10 * rows
    assert [g.shape for g in gradients] == [shape, (4, 0), (4,)]
    assert gradients[2].tolist() == [rows] * 4


@pytest.mark.parametrize("shape", [(), (1,), (2, 1), (4,)])
def test_running_moments_have_the_shape_of_the_channels(shape):
    x = gb.ones((3, 2, 2))
    for moments in ((gb.zeros(shape), gb.ones(2)), (gb.zeros(2), gb.ones(shape))):
        with pytest.raises(ValueError, match="batch_norm"):
            gb.batch_norm_training(x, *moments)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_searchsorted_puts_nan_last(side, dtype):
    ordered = np.array([-np.inf, 1, 2, 2, np.inf, np.nan, np.nan], dtype)
    wanted = np.array([np.nan, 2, -np.inf, np.inf, 0, 5], dtype)
    found = gb.searchsorted(gb.tensor(ordered), gb.tensor(wanted), side=side)
    assert found.tolist() == np.searchsorted(ordered, wanted, side=side).tolist()


def test_flatten_of_shape_nothing_checks_its_axes():
    assert gb.flatten(gb.tensor(2.0)).tolist() == gb.flatten(gb.tensor(2.0), -1, 0).tolist() == [2.0]
    for axes in ((0, -3), (1, 1), (-2, 0)):
        with pytest.raises(ValueError, match="flatten"):
            gb.flatten(gb.tensor(2.0), *axes)
