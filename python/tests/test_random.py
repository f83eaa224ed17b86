"""Random numbers stay within their bounds in every dtype, and have the same bits on every backend."""

import math

import numpy as np
import pytest

import gabbro as gb

SPACING = {gb.float16: 2**-11, gb.bfloat16: 2**-8}


@pytest.mark.parametrize("dtype", SPACING)
def test_numbers_of_16_bits_stay_below_one(dtype):
    gb.seed(0)
    x = gb.rand(300_000, dtype=dtype).astype(gb.float32).numpy()
    step = SPACING[dtype]
    assert x.min() == 0 and x.max() == 1 - step
    assert np.array_equal(x, np.floor(x / step) * step)
    # Evenly spread: each of 8 equal ranges has its share within 5 standard deviations of the binomial distribution.
    counts = np.histogram(x, 8, (0, 1))[0]
    assert np.abs(counts - len(x) / 8).max() < 5 * math.sqrt(len(x) * 7 / 64)


@pytest.mark.parametrize("dtype", [gb.float32, gb.float64, *SPACING])
@pytest.mark.parametrize("low, high", [(0.0, 1.0), (-1.0, 1.0), (0.1, 0.3), (-3.0, -1.0), (1.0, 1.0 + 2**-6), (5, 1e4)])
def test_uniform_numbers_stay_within_their_bounds(dtype, low, high):
    gb.seed(1)
    x = gb.nn.init.uniform_(gb.zeros(100_000, dtype=dtype), low, high).astype(gb.float64).numpy()
    assert low <= x.min() and x.max() < high
    assert x.mean() == pytest.approx((low + high) / 2, abs=(high - low) * (0.01 + (0.25 if high - low < 0.1 else 0)))


def test_bounds_that_make_no_sense():
    for low, high in ((1.0, 0.0), (math.nan, 1.0), (0.0, math.inf)):
        with pytest.raises(ValueError, match="uniform"):
            gb.nn.init.uniform_(gb.zeros(2), low, high)
    with pytest.raises(ValueError, match="uniform"):
        gb.nn.init.uniform_(gb.zeros(2, dtype=gb.float16), 0.0, 1e6)
    assert gb.nn.init.uniform_(gb.zeros(2), 3.0, 3.0).tolist() == [3.0, 3.0]


def test_whole_numbers_stay_within_their_bounds():
    gb.seed(2)
    for dtype in (gb.int32, gb.int8, gb.float16, gb.bfloat16, gb.float32):
        x = gb.randint(-3, 5, 20_000, dtype=dtype).astype(gb.int32).numpy()
        assert (x.min(), x.max()) == (-3, 4)
    x = gb.randint(2**31 - 3, 2**31, 1000).numpy()
    assert (x.min(), x.max()) == (2**31 - 3, 2**31 - 1)


def test_the_bits_are_those_of_the_simulator(device_named):
    def drawn():
        gb.seed(9)
        tensors = [gb.rand(99, dtype=dtype).astype(gb.float32) for dtype in SPACING]
        tensors += [gb.randint(0, 7, 99), gb.nn.init.uniform_(gb.zeros(99, dtype=gb.float16), -1, 1).astype(gb.float32)]
        return [tensor.tolist() for tensor in tensors]

    expected = drawn()
    device_named("sim:0")
    assert drawn() == expected
