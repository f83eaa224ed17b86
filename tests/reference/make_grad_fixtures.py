#!/usr/bin/env python3
"""Writes tests/data/ops/gradients.npy and gradients.json: PyTorch's gradients of the cases in tests/data/ops/*.json.

A case's output gets the gradient ((7 i + 3) mod 11 - 5) / 4 at element i; what comes to its inputs in f64 is written, in f32,
in sequence. The test that reads it is tests/ops/op_gradients_test.cc. Needs torch. Usage: make_grad_fixtures.py [folder]
"""
import collections
import json
import math
import pathlib
import sys

import numpy as np
import torch
from torch.nn import functional

DATA = pathlib.Path(__file__).parent.parent / "data" / "ops"
FILES = ["values", "sort", "norm", "conv", "tensor"]
# Nothing that has a gradient comes out, or goes in; a state is written; bits are asked for.
WITHOUT = {"argmax", "argmin", "argsort", "topk_indices", "less_equal", "less", "logical_and", "logical_or", "logical_not",
           "eq", "ne", "gt", "ge", "le", "lt", "iota", "floor", "random_bits", "rand_as_bits", "randn_as_bits", "randn", "randint"}


def reduction(name):
    return lambda i, a: getattr(torch, name)(i[0], -1, keepdim=True)


def unary(f):
    return lambda i, a: f(i[0])


def binary(f):
    return lambda i, a: f(i[0], i[1])


def rope(i, a):
    x, positions, inverse = i
    r = 2 * len(inverse)
    angle = positions[:, None] * inverse[None]
    c, s = (a["magnitude"] * f(angle)[:, None] for f in (torch.cos, torch.sin))
    if a["interleaved"]:
        p, q = x[..., 0:r:2], x[..., 1:r:2]
        y = torch.stack([p * c - q * s, q * c + p * s], -1).flatten(-2)
    else:
        p, q = x[..., : r // 2], x[..., r // 2 : r]
        y = torch.cat([p * c - q * s, q * c + p * s], -1)
    return torch.cat([y, x[..., r:]], -1)


def attention(i, a):
    q, k, v = i
    tokens, heads = k.shape[0], q.shape[1] // k.shape[1]
    at, own = torch.arange(tokens)[None], torch.arange(tokens - q.shape[0], tokens)[:, None]
    visible = at <= own
    if a["window"]:
        visible &= own - at < a["window"]
    qs, ks, vs = q.transpose(0, 1), *(x.repeat_interleave(heads, 1).transpose(0, 1) for x in (k, v))
    scores = qs @ ks.transpose(1, 2) / math.sqrt(k.shape[2])
    if a["softcap"]:
        scores = a["softcap"] * torch.tanh(scores / a["softcap"])
    return (torch.softmax(scores.masked_fill(~visible, -math.inf), -1) @ vs).transpose(0, 1)


def conv(f):
    return lambda i, a: f(i[0], i[1], i[2] if len(i) == 3 else None, a.get("stride", 1), a.get("padding", 0),
                          dilation=a.get("dilation", 1), groups=a.get("groups", 1))


def conv_transpose2d(i, a):
    return functional.conv_transpose2d(i[0], i[1], i[2] if len(i) == 3 else None, a.get("stride", 1), a.get("padding", 0),
                                       a.get("output_padding", 0), a.get("groups", 1), a.get("dilation", 1))


def axes(a, name, count, otherwise):
    value = a.get(name, otherwise)
    return list(value) * (count // len(value)) if isinstance(value, list) else [value] * count


def im2col(i, a):
    x = i[0]
    count = x.ndim - 2
    kernel, stride, padding, dilation = (axes(a, n, count, d) for n, d in [("kernel", 1), ("stride", 1), ("padding", 0), ("dilation", 1)])
    x = functional.pad(x, [p for axis in reversed(padding) for p in (axis, axis)])
    for axis in range(count):
        x = x.unfold(2 + axis, (kernel[axis] - 1) * dilation[axis] + 1, stride[axis])
        x = x[..., :: dilation[axis]]
    order = [0, 1, *range(2 + count, 2 + 2 * count), *range(2, 2 + count)]
    x = x.permute(order)
    return x.reshape(x.shape[0], x.shape[1] * math.prod(kernel), -1)


def max_pool(f):
    return lambda i, a: f(i[0], a["kernel"], a.get("stride") or None, a.get("padding", 0), a.get("dilation", 1))


def avg_pool(i, a):
    """Also with dilation: the mean of the columns; by the elements that are not padding where the case says so."""
    x = i[0]
    count = x.ndim - 2
    attributes = dict(a, stride=a.get("stride") or a["kernel"])
    planes = x.reshape(-1, 1, *x.shape[2:])
    columns = im2col([planes], attributes)
    counts = im2col([torch.ones_like(planes)], attributes).sum(1)
    divisor = columns.shape[1] if a.get("counts_padding", True) else counts
    kernel, stride, padding, dilation = (axes(attributes, n, count, d) for n, d in [("kernel", 1), ("stride", 1), ("padding", 0), ("dilation", 1)])
    out = [(x.shape[2 + k] + 2 * padding[k] - (kernel[k] - 1) * dilation[k] - 1) // stride[k] + 1 for k in range(count)]
    return (columns.sum(1) / divisor).reshape(*x.shape[:2], *out)


def batch_norm(i, a):
    mean, variance, *parameters = (x.reshape(-1, *[1] * (i[0].ndim - 2)) for x in i[1:])
    y = (i[0] - mean) / torch.sqrt(variance + 1e-5)
    y = y * parameters[0] if parameters else y
    return y + parameters[1] if len(parameters) > 1 else y


def batch_norm_training(i, a):
    return functional.batch_norm(i[0], None, None, *i[3:5], training=True, eps=1e-5)


def running(i, variance):
    x = i[0].transpose(0, 1).flatten(1)
    now = x.var(1) if variance else x.mean(1)
    old = i[2] if variance else i[1]
    return old + 0.25 * (now - old)


def group_norm(i, a):
    return functional.group_norm(i[0], a["groups"], *i[1:3], eps=1e-5)


def layer_norm(i, a):
    shape = i[1].shape if len(i) > 1 else i[0].shape[-1:]
    return functional.layer_norm(i[0], shape, *i[1:3], eps=1e-5)


def clamp(i, a):
    return torch.clamp(*i) if len(i) == 3 else torch.clamp(i[0], a["low"], a["high"])


def ordered(i, a, descending, count=None):
    return torch.sort(i[0], dim=a["axis"], descending=descending, stable=True).values.narrow(a["axis"], 0, i[0].shape[a["axis"]] if count is None else count)


def by_index(i, a, f):
    """Negative indices count from the end."""
    x, axis = i[0], a.get("axis", 0)
    index = i[1].long()
    return f(x, axis, torch.where(index < 0, index + x.shape[axis], index))


def index_add(i, a):
    return by_index(i, a, lambda x, axis, index: x.index_add(0, index, i[2]))


def loss(f):
    return lambda i, a: f(i[0], i[1].long() if i[1].dtype == torch.int32 else i[1], reduction=a["reduce"])


def upsample(mode):
    return lambda i, a: functional.interpolate(i[0], (a["height"], a["width"]), mode=mode,
                                               align_corners=a["align_corners"] if mode == "bilinear" else None)


FUNCTIONS = {
    **{name: unary(getattr(torch, name)) for name in
       ["neg", "abs", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "erf", "relu"]},
    "silu": unary(functional.silu),
    "gelu": unary(functional.gelu),
    "gelu_tanh": unary(lambda x: functional.gelu(x, approximate="tanh")),
    **{name: binary(getattr(torch, name)) for name in ["add", "sub", "mul", "div", "maximum", "minimum", "pow", "matmul"]},
    "matmul_transposed": binary(lambda a, b: a @ b.T),
    "clamp": clamp,
    "where": lambda i, a: torch.where(*i),
    "cast": lambda i, a: i[0],
    "through_f16": lambda i, a: i[0],
    "through_bf16": lambda i, a: i[0],
    **{name: reduction(torch_name) for name, torch_name in
       [("sum", "sum"), ("mean", "mean"), ("max", "amax"), ("min", "amin"), ("prod", "prod")]},
    "var": lambda i, a: i[0].var(-1, correction=a["correction"], keepdim=True),
    "cumsum": lambda i, a: i[0].cumsum(a["axis"]),
    "softmax": unary(lambda x: torch.softmax(x, -1)),
    "log_softmax": unary(lambda x: torch.log_softmax(x, -1)),
    "rms_norm": lambda i, a: functional.rms_norm(i[0], i[1].shape, i[1], a["epsilon"]),
    "layer_norm": layer_norm,
    "group_norm": group_norm,
    "batch_norm": batch_norm,
    "batch_norm_training": batch_norm_training,
    "batch_norm_running_mean": lambda i, a: running(i, False),
    "batch_norm_running_variance": lambda i, a: running(i, True),
    "reshape": lambda i, a: i[0].reshape(a["shape"]),
    "permute": lambda i, a: i[0].permute(a["axes"]),
    "permute_reshape": lambda i, a: i[0].permute(a["axes"]).reshape(a["shape"]),
    "broadcast_to": lambda i, a: i[0].expand(a["shape"]),
    "slice": lambda i, a: i[0].narrow(a["axis"], a["start"], (a["length"] - 1) * a["step"] + 1).index_select(
        a["axis"], torch.arange(0, (a["length"] - 1) * a["step"] + 1, a["step"])),
    "gather": lambda i, a: by_index(i, a, lambda x, axis, index: x[index]),
    "embedding": lambda i, a: by_index(i, a, lambda x, axis, index: x[index]),
    "concat": lambda i, a: torch.cat(i, a["axis"]),
    "linear": lambda i, a: functional.linear(*i),
    "rope": rope,
    "attention": attention,
    "sort": lambda i, a: ordered(i, a, a["descending"]),
    "topk": lambda i, a: ordered(i, a, a["largest"], a["k"]),
    "take_along_axis": lambda i, a: by_index(i, a, lambda x, axis, index: torch.gather(x, axis, index)),
    "scatter_add": lambda i, a: by_index(i, a, lambda x, axis, index: x.scatter_add(axis, index, i[2])),
    "index_add": index_add,
    "tril": lambda i, a: torch.tril(i[0], a["diagonal"]),
    "triu": lambda i, a: torch.triu(i[0], a["diagonal"]),
    "conv1d": conv(functional.conv1d),
    "conv2d": conv(functional.conv2d),
    "conv3d": conv(functional.conv3d),
    "conv_transpose2d": conv_transpose2d,
    "im2col": im2col,
    "max_pool1d": max_pool(functional.max_pool1d),
    "max_pool2d": max_pool(functional.max_pool2d),
    "max_pool3d": max_pool(functional.max_pool3d),
    "avg_pool1d": avg_pool,
    "avg_pool2d": avg_pool,
    "avg_pool3d": avg_pool,
    "adaptive_avg_pool2d": lambda i, a: functional.adaptive_avg_pool2d(i[0], (a["height"], a["width"])),
    "upsample_nearest2d": upsample("nearest"),
    "upsample_bilinear2d": upsample("bilinear"),
    "mse_loss": loss(functional.mse_loss),
    "l1_loss": loss(functional.l1_loss),
    "bce_loss": loss(functional.binary_cross_entropy),
    "kl_div": loss(functional.kl_div),
    "nll_loss": loss(functional.nll_loss),
    "cross_entropy": loss(functional.cross_entropy),
}
REAL = {"f32", "f16", "bf16"}


def read(tensor, dtype):
    if tensor["dtype"] in REAL:
        return torch.tensor([float(v) for v in tensor["data"]], dtype=dtype).reshape(tensor["shape"])
    torch_dtype = torch.int32 if tensor["dtype"] == "i32" else torch.bool
    return torch.tensor(tensor["data"], dtype=torch_dtype).reshape(tensor["shape"])


def wanted(case):
    """Which inputs' gradients are compared."""
    which = [k for k, x in enumerate(case["inputs"]) if x["dtype"] in REAL]
    if case["op"] == "attention":
        return [0]  # keys and values are written into a state
    if case["op"] in {"bce_loss", "kl_div"}:
        return [0]  # PyTorch's are infinite or NaN for targets of 0
    if case["op"] == "batch_norm_training":
        return [k for k in which if k not in (1, 2)]  # the running moments
    return which


def gradients(case, dtype):
    inputs = [read(x, dtype) for x in case["inputs"]]
    which = wanted(case)
    for k in which:
        inputs[k].requires_grad_()
    y = FUNCTIONS[case["op"]](inputs, case["attributes"])
    assert list(y.shape) == case["output"]["shape"], (case["op"], y.shape, case["output"]["shape"])
    seed = ((7 * torch.arange(y.numel()) + 3) % 11 - 5).to(dtype).reshape(y.shape) / 4
    found = torch.autograd.grad(y, [inputs[k] for k in which], seed, allow_unused=True) if y.requires_grad else [None] * len(which)
    return which, [torch.zeros_like(inputs[k]) if g is None else g for k, g in zip(which, found)]


index, values, left_out = [], [], collections.Counter()
for file in FILES:
    for number, case in enumerate(json.loads((DATA / f"{file}.json").read_text())):
        if case["op"] in WITHOUT or case["output"]["dtype"] not in REAL or not wanted(case):
            continue
        if any(isinstance(v, str) for x in case["inputs"] for v in x["data"]):
            left_out["an input is not finite"] += 1
            continue
        which, exact = gradients(case, torch.float64)
        if not all(g.isfinite().all() for g in exact):
            left_out[f"PyTorch's gradient of {case['op']} is not finite"] += 1
            continue
        # PyTorch's own error in f32 says how badly conditioned the case is.
        single = gradients(case, torch.float32)[1]
        error = max([float((s.double() - g).abs().max()) for s, g in zip(single, exact) if g.numel()], default=0)
        index.append({"file": file, "case": number, "op": case["op"], "inputs": which, "error": float(f"{error:.3g}")})
        values += [g.flatten().float().numpy() for g in exact]
target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
np.save(target / "gradients.npy", np.concatenate(values))
(target / "gradients.json").write_text("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in index) + "]\n")
print(f"{len(index)} cases, {sum(map(len, values))} numbers; left out: {dict(left_out)}")
