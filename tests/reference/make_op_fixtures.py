#!/usr/bin/env python3
"""Writes tests/data/ops/values.json: what PyTorch computes for each op, on small inputs.

Inputs are multiples of 1/64 below 4, exact in f16 as in f32. Needs torch. Usage: make_op_fixtures.py [output file]
"""
import json
import math
import pathlib
import sys

import torch

torch.manual_seed(5)
cases = []


def grid(*shape, low=-2.0, high=2.0):
    return torch.randint(int(low * 64), int(high * 64) + 1, shape).float() / 64


def ints(*shape, low=-9, high=9):
    return torch.randint(low, high + 1, shape, dtype=torch.int32)


def pack(x):
    names = {torch.float32: "f32", torch.int32: "i32", torch.bool: "bool"}
    flat = x.flatten().tolist()
    if x.dtype == torch.float32:
        flat = [("inf" if v > 0 else "-inf") if math.isinf(v) else float(f"{v:.8g}") for v in flat]
    else:
        flat = [int(v) for v in flat]
    return {"dtype": names[x.dtype], "shape": list(x.shape), "data": flat}


def case(op, inputs, output, ulps, **attributes):
    """`ulps`: the largest error, in units of 2^-24 of the largest element of the output."""
    cases.append({"op": op, "inputs": [pack(x) for x in inputs], "attributes": attributes, "output": pack(output),
                  "ulps": ulps})


def elementwise():
    x = grid(3, 17)
    positive = grid(3, 17, low=1 / 64, high=4)
    for name in ["neg", "abs"]:
        case(name, [x], getattr(torch, name)(x), 0)
    for name in ["exp", "sin", "cos", "tanh", "sigmoid"]:
        case(name, [x], getattr(torch, name)(x), 8)
    for name in ["log", "sqrt", "rsqrt"]:
        case(name, [positive], getattr(torch, name)(positive), 8)
    case("exp", [torch.tensor([-200.0, -87.0, 0.0, 88.0])], torch.exp(torch.tensor([-200.0, -87.0, 0.0, 88.0])), 16)
    case("silu", [4 * x], torch.nn.functional.silu(4 * x), 8)
    pairs = [(grid(3, 1, 5), grid(4, 1)), (grid(7), grid(7)), (grid(2, 3), grid(1)), (grid(1), grid(2, 1, 2)),
             (grid(0, 3), grid(3)), (ints(3, 4), ints(4)), (ints(2, 1), ints(1, 5))]
    for a, b in pairs:
        for name in ["add", "sub", "mul", "maximum", "minimum"]:
            case(name, [a, b], getattr(torch, name)(a, b), 1)
        case("less_equal", [a, b], a <= b, 0)
        case("less", [a, b], a < b, 0)
    a, b = grid(3, 4), grid(3, 1, low=0.5)
    case("div", [a, b], a / b, 1)
    a, b = ints(5, low=0), ints(5, low=1)
    case("trunc_divide", [a, b], torch.div(a, b, rounding_mode="trunc"), 0)
    p, q = torch.rand(3, 4) > 0.5, torch.rand(4) > 0.5
    case("logical_and", [p, q], p & q, 0)
    a, b = grid(4), grid(3, 1)
    case("where", [p, a, b], torch.where(p, a, b), 0)
    a, b = ints(3, 4), ints(1)
    case("where", [q, a, b], torch.where(q, a, b), 0)
    x = torch.tensor([-2.75, -1.0, 0.0, 0.5, 1.5, 127.25])
    case("cast", [x], x.int(), 0, dtype="i32")
    case("cast", [x], x.bool(), 0, dtype="bool")
    i = ints(7)
    case("cast", [i], i.float(), 0, dtype="f32")
    case("cast", [p], p.float(), 0, dtype="f32")
    y = torch.randn(33)
    case("through_f16", [y], y.half().float(), 0)
    case("through_bf16", [y], y.bfloat16().float(), 0)


def reductions():
    for shape in [(5, 37), (1,), (2, 3, 16), (3, 1)]:
        x = grid(*shape)
        case("sum", [x], x.sum(-1, keepdim=True), 4 * shape[-1])
        case("mean", [x], x.mean(-1, keepdim=True), 4 * shape[-1])
        case("max", [x], x.max(-1, keepdim=True).values, 0)
        case("argmax", [x], torch.tensor([[r.tolist().index(r.max())] for r in x.reshape(-1, shape[-1])])
             .reshape(*shape[:-1], 1).int(), 0)
        case("softmax", [3 * x], torch.softmax(3 * x, -1), 4 * shape[-1] + 16)
        w = grid(shape[-1])
        case("rms_norm", [x, w], torch.nn.functional.rms_norm(x, (shape[-1],), w, 1e-5), 4 * shape[-1] + 16,
             epsilon=1e-5)
    x = torch.tensor([[float("-inf"), 0.0, 90.0, 89.0], [-1e4, -1e4, -1e4, -1e4]])
    case("softmax", [x], torch.softmax(x, -1), 32)


def structure():
    x = grid(4, 6)
    case("reshape", [x], x.reshape(2, 12), 0, shape=[2, 12])
    case("permute", [x], x.permute(1, 0), 0, axes=[1, 0])
    y = grid(2, 3, 4)
    case("permute", [y], y.permute(2, 0, 1), 0, axes=[2, 0, 1])
    case("permute_reshape", [y], y.permute(2, 0, 1).reshape(8, 3), 0, axes=[2, 0, 1], shape=[8, 3])
    z = grid(3, 1)
    case("broadcast_to", [z], z.expand(2, 3, 5), 0, shape=[2, 3, 5])
    case("slice", [x], x[:, 1:6:2], 0, axis=1, start=1, length=3, step=2)
    case("slice", [x], x[2:3], 0, axis=-2, start=2, length=1, step=1)
    case("gather", [x, torch.tensor([3, 0, 3], dtype=torch.int32)], x[[3, 0, 3]], 0)
    # negative indices count from the end
    case("gather", [y, torch.tensor([-2, 1, -1], dtype=torch.int32)], y[[0, 1, 1]], 0)
    i = ints(3, 2)
    case("gather", [i, torch.tensor([2], dtype=torch.int32)], i[[2]], 0)
    case("concat", [x, grid(0, 6), x[:1]], torch.cat([x, x[:1]]), 0, axis=0)
    case("concat", [x, x[:, :1]], torch.cat([x, x[:, :1]], 1), 0, axis=-1)
    case("concat", [y, y, y], torch.cat([y, y, y], 1), 0, axis=1)
    case("concat", [i, i], torch.cat([i, i]), 0, axis=0)
    case("iota", [], torch.arange(5).float() * 0.25 + 3, 0, count=5, dtype="f32", start=3, step=0.25)
    case("iota", [], torch.arange(4, dtype=torch.int32) * -2 + 1, 0, count=4, dtype="i32", start=1, step=-2)


def products():
    for a, b in [(grid(3, 5), grid(5, 2)), (grid(1, 64), grid(64, 17)), (grid(2, 1, 3, 4), grid(5, 4, 2)),
                 (grid(3, 0), grid(0, 2))]:
        case("matmul", [a, b], a @ b, 4 * max(a.shape[-1], 1))
    a, b = grid(3, 5), grid(2, 5)
    case("matmul_transposed", [a, b], a @ b.T, 20)
    w, bias = grid(7, 33), grid(7)
    for shape in [(33,), (1, 33), (5, 33), (2, 3, 33)]:
        x = grid(*shape)
        case("linear", [x, w], torch.nn.functional.linear(x, w), 4 * 33)
        case("linear", [x, w, bias], torch.nn.functional.linear(x, w, bias), 4 * 33)
    case("embedding", [w, torch.tensor([6, 0, 6], dtype=torch.int32)], w[[6, 0, 6]], 0)


def rope():
    positions = torch.tensor([0, 3, 200], dtype=torch.int32)
    for d, r in [(8, 8), (32, 32), (20, 12)]:
        x = grid(3, 2, d)
        inverse = (10000.0 ** (-torch.arange(0, r, 2).double() / r)).float()
        angles = positions[:, None].double() * inverse[None].double()
        turn = torch.polar(torch.full_like(angles, 1.25), angles)[:, None]  # [T, 1, R/2]
        head, tail = x[..., :r].double(), x[..., r:]
        # Pairs of neighbors are complex numbers (Llama's own code); pairs i, i + R/2 are GPT-NeoX's.
        pairs = torch.view_as_complex(head.reshape(3, 2, r // 2, 2).contiguous())
        y = torch.view_as_real(pairs * turn).reshape(3, 2, r)
        case("rope", [x, positions, inverse], torch.cat([y.float(), tail], -1), 2 * 200 + 16, interleaved=True,
             magnitude=1.25)
        pairs = torch.complex(head[..., : r // 2], head[..., r // 2 :])
        y = pairs * turn
        case("rope", [x, positions, inverse], torch.cat([y.real.float(), y.imag.float(), tail], -1), 2 * 200 + 16,
             interleaved=False, magnitude=1.25)


def attention():
    for tokens, new, h, g, d, page, window, softcap in [(37, 3, 4, 2, 16, 16, 0, 0), (19, 1, 3, 1, 32, 16, 0, 0),
                                                        (24, 24, 2, 2, 16, 16, 7, 0), (20, 3, 4, 2, 16, 32, 0, 1.5)]:
        q, k, v = grid(new, h, d), grid(tokens, g, d), grid(tokens, g, d)
        scale = 1 / math.sqrt(d)
        at = torch.arange(tokens)
        own = torch.arange(tokens - new, tokens)
        visible = at[None] <= own[:, None]
        if window:
            visible &= own[:, None] - at[None] < window
        qs, ks, vs = q.transpose(0, 1), *(x.repeat_interleave(h // g, 1).transpose(0, 1) for x in (k, v))
        if softcap:
            scores = softcap * torch.tanh(scale * (qs @ ks.transpose(1, 2)) / softcap)
            y = torch.softmax(scores.masked_fill(~visible, -math.inf), -1) @ vs
        else:
            y = torch.nn.functional.scaled_dot_product_attention(qs[None], ks[None], vs[None], visible, scale=scale)[0]
        case("attention", [q, k, v], y.transpose(0, 1).contiguous(), 8 * d + 4 * tokens, page=page, window=window,
             softcap=softcap)


elementwise()
reductions()
structure()
products()
rope()
attention()
target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                      pathlib.Path(__file__).parent.parent / "data" / "ops" / "values.json")
target.write_text("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "]\n")
