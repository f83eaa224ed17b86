"""What the tests share: a generator of numbers, and the comparison with NumPy."""

import numpy as np
import pytest

import gabbro as gb


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def close(actual, expected, epsilons=4):
    """Equal within a few rounding errors of the result's dtype, element by element; and of one shape and dtype."""
    actual = actual.numpy() if isinstance(actual, gb.Tensor) else np.asarray(actual)
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    if actual.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
        return
    epsilon = np.finfo(actual.dtype).eps * epsilons
    np.testing.assert_allclose(actual, expected, rtol=epsilon, atol=epsilon)
