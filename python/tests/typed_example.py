"""What a program that uses Gabbro looks like to mypy --strict: checked by `./test python`, and never run."""

import numpy as np
from typing_extensions import assert_type

import gabbro as gb


def standardised(x: gb.Tensor, epsilon: float = 1e-5) -> gb.Tensor:
    centred = x - gb.mean(x)
    return centred / gb.sqrt(gb.mean(centred * centred) + epsilon)


def main() -> None:
    gb.set_device("cpu")
    x = gb.tensor(np.ones((2, 3), np.float32))
    y = standardised(x)[0, ::2, None]
    y[0] = 1.0
    y += 2
    assert_type(2 * y, gb.Tensor)
    assert_type(y == 3, gb.Tensor)
    assert_type(y.shape, tuple[int, ...])
    assert_type(y.dtype, gb.DType)
    assert_type(gb.topk(y, 1, axis=0), tuple[gb.Tensor, gb.Tensor])
    for row in x:
        print(row.item(), float(row), gb.zeros(3, dtype="float16", device=x.device))
    step = gb.compile(standardised)
    print(step(x, epsilon=0.1).numpy().sum(), gb.explain(standardised, x))
    print(gb.conv2d(gb.rand(1, 2, 5, 5), gb.rand((3, 2, 3, 3)), stride=(2, 1)).reshape(-1).tolist())
    print(gb.rocm_is_available(), gb.device_info()["name"], gb.float32 == gb.bool)
