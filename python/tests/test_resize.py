"""Resizing against torch.nn.functional.interpolate (torch 2.15) of x = arange(15)² / 7 as 3 rows of 5.

Each case: the options, the size, the values, and the gradient of their sum weighted with arange % 5 - 1.5.
"""

import numpy as np
import pytest

import gabbro as gb

CASES = [
    (
        {"scale_factor": 0.5, "mode": "bilinear"},
        (1, 2),
        "2.21429 4.5",
        "-0.375 -0.375 -0.125 -0.125 0 -0.375 -0.375 -0.125 -0.125 0 0 0 0 0 0",
    ),
    (
        {"scale_factor": 1.5, "mode": "bilinear"},
        (4, 7),
        "0 0.07143 0.21429 0.5 0.92857 1.45238 2.11905 1.78571 2.21429 2.83333 3.59524 4.5 5.5 6.64286 "
        "5.35714 6.26191 7.51587 8.9127 10.45238 12.0873 13.86508 12.5 13.88095 15.76984 17.80159 19.97619 "
        "22.24603 24.65873",
        "-1.125 1.70833 2.04167 0.125 -0 2.04167 0.70833 0.625 2.18056 0.02778 0.08333 1.41667 1.5 -0.47222 0.13889",
    ),
    (
        {"scale_factor": (0.7, 1.3), "mode": "bilinear"},
        (2, 6),
        "0.76531 1.05887 1.52512 2.14521 2.93014 3.92386 10.45918 12.08713 14.12323 16.31319 18.66798 21.23156",
        "-1.31456 -0.03022 1.19368 1.79808 -0.86126 -0.47527 0.41758 1.25275 0.0989 -0.36538 -0.21016 0.76648 "
        "1.66896 -0.70467 -0.23489",
    ),
    (
        {"scale_factor": 1.5, "mode": "bilinear", "recompute_scale_factor": True},
        (4, 7),
        "0 0.08163 0.26531 0.57143 1.08163 1.71429 2.28571 2.23214 2.82398 3.64541 4.58929 5.73725 7.00765 "
        "8.08929 7.58929 8.79337 10.3801 12.08929 14.00255 16.03827 17.73214 14.28571 16 18.22449 20.57143 "
        "23.12245 25.79592 28",
        "-1.28571 1.0625 2.00893 0.90179 -0.5 1.875 0.89286 -0.08929 1.51786 0.80357 0.41071 0.90179 2.79464 "
        "-0.41964 0.125",
    ),
    (
        {"scale_factor": 1.5, "mode": "bilinear", "align_corners": True},
        (4, 7),
        "0 0.09524 0.28571 0.57143 1.04762 1.61905 2.28571 2.38095 3.11111 3.93651 4.85714 5.96825 7.1746 "
        "8.47619 7.14286 8.50794 9.96826 11.52381 13.26984 15.11111 17.04762 14.28571 16.28572 18.38095 "
        "20.57143 22.95238 25.42857 28",
        "-1.33333 0.88889 2.22222 0.66667 -0.44444 2 0.88889 -0 1.77778 0.66667 0.33333 0.88889 2.77778 "
        "-0.44444 0.11111",
    ),
    (
        {"scale_factor": 0.7, "mode": "nearest"},
        (2, 3),
        "0 0.14286 0.57143 3.57143 5.14286 7",
        "-1.5 -0.5 0.5 0 0 1.5 2.5 -1.5 0 0 0 0 0 0 0",
    ),
    (
        {"scale_factor": 1.3, "mode": "nearest"},
        (3, 6),
        "0 0 0.14286 0.57143 1.28571 1.28571 3.57143 3.57143 5.14286 7 9.14286 9.14286 14.28571 14.28571 "
        "17.28572 20.57143 24.14286 24.14286",
        "-2 0.5 1.5 1 0 0 1.5 2.5 -2 0 2 2.5 -1.5 0 0",
    ),
    (
        {"scale_factor": 1.3, "mode": "nearest", "recompute_scale_factor": True},
        (3, 6),
        "0 0 0.14286 0.57143 1.28571 2.28571 3.57143 3.57143 5.14286 7 9.14286 11.57143 14.28571 14.28571 "
        "17.28572 20.57143 24.14286 28",
        "-2 0.5 1.5 2.5 -1.5 0 1.5 2.5 -1.5 -0.5 2 2.5 -1.5 -0.5 0.5",
    ),
    (
        {"scale_factor": 1.7, "mode": "nearest-exact"},
        (5, 8),
        "0 0 0.14286 0.57143 0.57143 1.28571 1.28571 2.28571 0 0 0.14286 0.57143 0.57143 1.28571 1.28571 "
        "2.28571 3.57143 3.57143 5.14286 7 7 9.14286 9.14286 11.57143 14.28571 14.28571 17.28572 20.57143 "
        "20.57143 24.14286 24.14286 28 14.28571 14.28571 17.28572 20.57143 20.57143 24.14286 24.14286 28",
        "2 -1 4 2 -1 0 1.5 1 0 1.5 3 2 0 3 2",
    ),
    (
        {"size": (4, 3), "mode": "nearest-exact"},
        (4, 3),
        "0 0.57143 2.28571 3.57143 7 11.57143 3.57143 7 11.57143 14.28571 20.57143 28",
        "-1.5 0 -0.5 0 0.5 1 0 3 0 0 2.5 0 -1.5 0 -0.5",
    ),
    (
        {"scale_factor": 0.7, "mode": "area"},
        (2, 3),
        "2.21429 3.88095 6.07143 10.07143 13.88095 18.21429",
        "-0.375 -0.45833 -0.08333 0.04167 0.125 0 0.33333 0.33333 0.08333 -0.25 0.375 0.79167 0.41667 0.04167 -0.375",
    ),
    (
        {"scale_factor": 2, "mode": "bilinear"},
        (6, 10),
        "0 0.03571 0.10714 0.25 0.46429 0.75 1.10714 1.53571 2.03571 2.28571 0.89286 1.01786 1.26786 1.58929 "
        "1.98214 2.44643 2.98214 3.58929 4.26786 4.60714 2.67857 2.98214 3.58929 4.26786 5.01786 5.83929 "
        "6.73214 7.69643 8.73214 9.25 6.25 6.73214 7.69643 8.73214 9.83929 11.01786 12.26786 13.58929 "
        "14.98214 15.67857 11.60714 12.26786 13.58929 14.98214 16.44643 17.98214 19.58928 21.26786 23.01786 "
        "23.89286 14.28571 15.03572 16.53572 18.10714 19.75 21.46429 23.25 25.10714 27.03571 28",
        "-3.5 4 2 0 7.5 -3.5 4 2 0 7.5 -3.5 4 2 0 7.5",
    ),
]
CASES = [pytest.param(*case, id=" ".join(map(str, case[0].values()))) for case in CASES]


def numbers(text):
    return [float(word) for word in text.split()]


def image(dtype=gb.float32):
    return gb.tensor((np.arange(15, dtype="f4") ** 2 / 7).reshape(1, 1, 3, 5), dtype=dtype)


@pytest.mark.parametrize("options, size, values, gradient", CASES)
def test_interpolate(options, size, values, gradient):
    x = image().requires_grad_()
    y = gb.interpolate(x, **options)
    assert y.shape == (1, 1, *size)
    np.testing.assert_allclose(y.numpy().ravel(), numbers(values), atol=2e-5)
    weights = gb.tensor((np.arange(y.size) % 5 - 1.5).astype("f4").reshape(y.shape))
    (y * weights).sum().backward()
    np.testing.assert_allclose(x.grad.numpy().ravel(), numbers(gradient), atol=2e-5)
    layer = gb.nn.Upsample(**options)
    assert layer(x).tolist() == y.tolist() == gb.nn.functional.interpolate(x, **options).tolist()
    half = gb.interpolate(image(gb.float16), **options)
    assert half.dtype == gb.float16
    np.testing.assert_allclose(half.astype(gb.float32).numpy().ravel(), numbers(values), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("options, size, values, gradient", CASES)
def test_interpolate_on_a_gpu(options, size, values, gradient, device_named):
    device_named("sim:0")
    np.testing.assert_allclose(gb.interpolate(image(), **options).numpy().ravel(), numbers(values), atol=2e-5)


def test_options_that_do_not_fit():
    x = image()
    for options in (
        {},
        {"size": 2, "scale_factor": 2.0},
        {"size": 2, "recompute_scale_factor": True},
        {"scale_factor": 0.0},
        {"scale_factor": -1.0},
        {"scale_factor": float("nan")},
        {"scale_factor": 0.1},  # no rows are left
        {"scale_factor": (1.0, 2.0, 3.0)},
        {"scale_factor": 1e30},
        {"size": 0},
        {"size": 2, "mode": "cubic"},
        {"size": 2, "mode": "nearest", "align_corners": True},
        {"size": 2, "mode": "area", "align_corners": True},
    ):
        with pytest.raises(ValueError):
            gb.interpolate(x, **options)
    with pytest.raises(ValueError):
        gb.interpolate(gb.ones((2, 3, 4)), 2)
    with pytest.raises(TypeError):
        gb.interpolate(x, scale_factor="2")
