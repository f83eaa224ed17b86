"""What the tests share: a generator of numbers, devices, and the comparison with NumPy."""

from pathlib import Path

import numpy as np
import pytest

import gabbro as gb


@pytest.fixture
def rng():
    return np.random.default_rng(7)


SIMULATOR = Path(gb._core.__file__).parents[2] / "lib" / "libgabbro_sim.so"  # in the folder of the build


@pytest.fixture
def device_named(monkeypatch):
    """A function that makes a device the one that new tensors live on, until the test ends."""

    def choose(name):
        if name.startswith("sim"):
            if not SIMULATOR.exists():
                pytest.skip(f"{SIMULATOR} is not built")
            monkeypatch.setenv("GABBRO_PLUGIN_PATH", str(SIMULATOR.parent))
        gb.set_device(name)
        return gb.get_device()

    yield choose
    gb.set_device("cpu")


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
