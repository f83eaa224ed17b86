#!/usr/bin/env python3
"""Writes tests/data/ops/conv.json: convolutions, pooling and resizing of small images as PyTorch computes them.

Inputs are multiples of 1/16 up to 1, exact in f16 and bf16 as in f32. Needs torch. Usage: make_conv_fixtures.py [output]
"""
import math

import torch
from torch.nn import functional

from op_fixture import Cases

torch.manual_seed(8)
cases = Cases("conv")
HALF = {"f16": (torch.float16, 2.0**13), "bf16": (torch.bfloat16, 2.0**16)}


def grid(*shape):
    return torch.randint(-16, 17, shape).float() / 16


def add(op, inputs, expected, ulps, half_precision=False, images=1, **attributes):
    """`images` of the inputs are images or weights, which have the dtype of an f16 or bf16 case."""
    cases.add(op, [x.numpy() for x in inputs], expected.numpy(), ulps, **attributes)
    for dtype, (torch_dtype, epsilon) in HALF.items() if half_precision else ():
        given = [(x.numpy(), dtype) if i < images else x.numpy() for i, x in enumerate(inputs)]
        cases.add(op, given, (expected.to(torch_dtype).float().numpy(), dtype), epsilon, **attributes)


def convolutions():
    for x, w, stride, padding, dilation, groups in [
            ((1, 1, 5), (1, 1, 1), 1, 0, 1, 1), ((2, 3, 17), (4, 3, 3), 2, 1, 1, 1), ((1, 4, 20), (6, 2, 4), [3], [2], [2], 2),
            ((1, 1, 1, 1), (1, 1, 1, 1), 1, 0, 1, 1), ((2, 3, 5, 7), (5, 3, 3, 3), 1, 1, 1, 1),
            ((1, 4, 5, 6), (4, 1, 3, 2), [2, 1], [1, 0], [1, 2], 4), ((1, 6, 3, 3), (18, 3, 1, 1), 1, 0, 1, 2),
            ((1, 2, 6, 7), (17, 2, 5, 2), [2, 3], [4, 1], [1, 3], 1), ((0, 2, 4, 4), (3, 2, 2, 2), 1, 0, 1, 1),
            ((1, 2, 3, 4, 5), (3, 2, 2, 2, 2), 1, [1, 0, 1], 1, 1), ((1, 4, 5, 3, 4), (2, 2, 3, 1, 2), [2, 1, 1], 0, [1, 1, 2], 2)]:
        axes = len(x) - 2
        image, weight, bias = grid(*x), grid(*w), grid(w[0])
        function = [functional.conv1d, functional.conv2d, functional.conv3d][axes - 1]
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        ulps = 4 * math.prod(w[1:]) + 8
        add(f"conv{axes}d", [image, weight, bias], function(image, weight, bias, **options), ulps, half_precision=axes == 2 and w[0] < 9, images=2,
            **options)
        add(f"conv{axes}d", [image, weight], function(image, weight, **options), ulps, **options)
        if axes == 2 and x[0] > 0:
            unfolded = functional.unfold(image, w[2:], dilation=dilation, padding=padding, stride=stride)
            add("im2col", [image], unfolded, 0, kernel=list(w[2:]), stride=stride, padding=padding,
                dilation=dilation)


def transposed():
    for x, w, stride, padding, output_padding, dilation, groups in [
            ((1, 1, 1, 1), (1, 1, 1, 1), 1, 0, 0, 1, 1), ((1, 3, 3, 4), (3, 2, 3, 3), 2, 1, 1, 1, 1),
            ((1, 4, 3, 5), (4, 1, 2, 4), [3, 1], [0, 2], [2, 0], [1, 2], 2), ((1, 6, 3, 3), (6, 1, 3, 1), 1, 1, 0, 1, 6),
            ((1, 2, 3, 3), (2, 3, 2, 2), 1, [1, 1], [0, 1], 2, 1)]:
        image, weight, bias = grid(*x), grid(*w), grid(w[1] * groups)
        options = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation,
                   "groups": groups}
        add("conv_transpose2d", [image, weight, bias], functional.conv_transpose2d(image, weight, bias, **options),
            4 * math.prod(w) + 8, half_precision=True, images=2, **options)
        add("conv_transpose2d", [image, weight], functional.conv_transpose2d(image, weight, **options), 4 * math.prod(w) + 8,
            **options)


def pooling():
    for x, kernel, stride, padding, dilation in [
            ((2, 3, 7), 2, None, 0, 1), ((1, 1, 1), 1, None, 0, 1), ((1, 2, 17), [5], [3], [2], 2),
            ((1, 3, 6, 5), 2, None, 0, 1), ((1, 2, 5, 7), [3, 2], [2, 1], [1, 1], 1), ((1, 1, 7, 7), 3, 1, 1, [1, 2]),
            ((1, 1, 4, 5, 6), 2, None, 0, 1), ((1, 1, 5, 4, 7), [3, 1, 2], [2, 1, 3], [1, 0, 1], 1)]:
        axes = len(x) - 2
        image = grid(*x)
        options = {"kernel": kernel, "padding": padding}
        if stride is not None:
            options["stride"] = stride
        largest = [functional.max_pool1d, functional.max_pool2d, functional.max_pool3d][axes - 1]
        mean = [functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d][axes - 1]
        add(f"max_pool{axes}d", [image], largest(image, kernel, stride, padding, dilation), 0, half_precision=axes == 2,
            dilation=dilation, **options)
        for counted in [True, False]:
            add(f"avg_pool{axes}d", [image], mean(image, kernel, stride, padding, count_include_pad=counted), 64,
                counts_padding=counted, **options)
    image = grid(1, 1, 4, 4)
    image[0, 0, 1, 2] = math.nan
    image[0, 0, 3, 0] = math.inf
    add("max_pool2d", [image], functional.max_pool2d(image, 2), 0, kernel=2, padding=0)


def resizing():
    for x, out in [((2, 1, 5, 7), (3, 4)), ((1, 1, 1, 1), (1, 1)), ((1, 2, 5, 6), (1, 1)), ((1, 1, 3, 4), (7, 5)),
                   ((1, 1, 2, 4), (4, 8)), ((2, 1, 6, 6), (6, 3))]:
        image = grid(*x)
        size = {"height": out[0], "width": out[1]}
        add("adaptive_avg_pool2d", [image], functional.adaptive_avg_pool2d(image, out), 64, half_precision=True, **size)
        add("upsample_nearest2d", [image], functional.interpolate(image, size=out, mode="nearest"), 0, **size)
        for align in [False, True]:
            resized = functional.interpolate(image, size=out, mode="bilinear", align_corners=align)
            # A place in the image is rounded to a unit in its last place, which counts as much as an element does.
            add("upsample_bilinear2d", [image], resized, 16 * max(x[2:]), half_precision=not align, align_corners=align, **size)


def channels_last():
    for x, w, stride, padding, dilation in [
            ((1, 1, 1, 1), (1, 1, 1, 1), 1, 0, 1), ((2, 8, 5, 7), (5, 8, 3, 3), 1, 1, 1), ((1, 16, 6, 4), (6, 16, 2, 3), [2, 1], [1, 2], [2, 1]),
            ((1, 3, 4, 4), (8, 3, 3, 3), 2, 1, 1)]:
        image, weight, bias, options = grid(*x), grid(*w), grid(w[0]), {"stride": stride, "padding": padding, "dilation": dilation}
        y = functional.conv2d(image, weight, bias, **options)
        shift, residual = grid(x[0], w[0]), grid(*y.shape)
        last = [tensor.permute(0, 2, 3, 1).contiguous() for tensor in (image, weight, residual)]
        ulps = 4 * math.prod(w[1:]) + 8
        add("conv2d_nhwc", [last[0], last[1], bias], y.permute(0, 2, 3, 1).contiguous(), ulps, half_precision=True, images=3, **options)
        all_of_it = (y + shift[:, :, None, None] + residual).permute(0, 2, 3, 1).contiguous()
        add("conv2d_nhwc", [last[0], last[1], bias, shift, last[2]], all_of_it, ulps, half_precision=True, images=5, **options)


convolutions()
transposed()
pooling()
resizing()
channels_last()
cases.write()
