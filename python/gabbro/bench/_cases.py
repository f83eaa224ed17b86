"""What is measured: the ops of cases.json, how each is called, and its inputs."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import gabbro as gb

DTYPES = {"f32": gb.float32, "f16": gb.float16, "bf16": gb.bfloat16}
SIZES = ("tiny", "small", "large")
EPSILON = 1e-5


@dataclasses.dataclass(frozen=True)
class Case:
    group: str
    op: str
    name: str
    """Such as ``conv2d 1x64x56x56 64x64x3x3 padding=1``."""
    shapes: list[list[int]]
    dtypes: list[str]
    attributes: dict[str, Any]


# Calls with the inputs in their order, and the attributes by their names, if they are not calls of the function with
# the op's name. A tuple if there are several results.
CALLS: dict[str, Callable[..., Any]] = {
    "depthwise_conv2d": lambda x, weight, **a: gb.conv2d(x, weight, groups=x.shape[1], **a),
    "max_pool2d": lambda x, kernel, **a: gb.max_pool2d(x, kernel, **a),
    "add": lambda a, b: a + b,
    "mul_add": lambda a, b, c: a * b + c,
    "silu_mul": lambda a, b: gb.silu(a) * b,
    "where": lambda a, b: gb.where(a > b, a, b),
    "var": lambda x, axis: gb.var(x, axis=axis, correction=1),
    "rms_norm": lambda x, weight: gb.rms_norm(x, weight, EPSILON),
    "layer_norm": lambda x, weight, bias: gb.layer_norm(x, weight, bias, EPSILON),
    "group_norm_nhwc": lambda x, weight, bias, groups: gb.group_norm_nhwc(x, groups, weight, bias, EPSILON, silu=True),
    "group_norm": lambda x, weight, bias, groups: gb.group_norm(x, groups, weight, bias, EPSILON),
    "batch_norm": lambda x, mean, var, weight, bias: gb.batch_norm(x, mean, var, weight, bias, eps=EPSILON),
    "attention": lambda q, k, v, causal=False: gb.scaled_dot_product_attention(q, k, v, is_causal=causal),
    "embedding": lambda weight, ids: gb.take(weight, ids, axis=0),
    "concat": lambda a, b: gb.concat([a, b], 0),
    "add_transposed": lambda x: x + x.T,
}
INDICES = {"embedding": 1}  # the input that holds row numbers of input 0
POSITIVE = {"batch_norm": 2}  # the input that may not be negative


def call_of(op: str) -> Callable[..., Any]:
    return CALLS.get(op) or getattr(gb, op)


@functools.cache
def entries() -> list[dict[str, Any]]:
    text = pathlib.Path(__file__).with_name("cases.json").read_text(encoding="utf-8")
    result: list[dict[str, Any]] = json.loads(text)
    return result


def groups() -> list[str]:
    """The groups, in the order of the list."""
    return list(dict.fromkeys(entry["group"] for entry in entries()))


def _name(entry: dict[str, Any], shapes: list[list[int]]) -> str:
    """As apps/cli/bench_ops_cases.cc makes it."""
    words = [entry["op"], *("x".join(map(str, shape)) for shape in shapes)]
    for key, value in entry.get("attributes", {}).items():
        words.append(key if value is True else f"{key}={value}")
    return " ".join(words)


def cases(size: str) -> list[Case]:
    """All cases of a size: ``tiny`` (for tests, and the simulator), ``small`` (for CPUs) or ``large`` (for GPUs)."""
    return [
        Case(
            group=entry["group"],
            op=entry["op"],
            name=_name(entry, entry[size]),
            shapes=entry[size],
            dtypes=entry.get("dtypes", list(DTYPES)),
            attributes=entry.get("attributes", {}),
        )
        for entry in entries()
    ]


def inputs(case: Case, dtype: str, device: gb.Device) -> list[gb.Tensor]:
    """Tensors with values: normal numbers, the same ones in each run; never zeros, which some chips multiply faster."""
    gb.seed(1)
    tensors = []
    for number, shape in enumerate(case.shapes):
        if number == INDICES.get(case.op):
            tensors.append(gb.randint(0, case.shapes[0][0], shape, device=device))
        else:
            x = gb.randn(shape, device=device)
            tensors.append(gb.astype(gb.abs(x) if number == POSITIVE.get(case.op) else x, DTYPES[dtype]))
        tensors[-1].eval()
    return tensors


def results(case: Case, tensors: tuple[gb.Tensor, ...]) -> list[gb.Tensor]:
    """Records the op on these inputs; nothing is computed."""
    made = call_of(case.op)(*tensors, **case.attributes)
    return list(made) if isinstance(made, tuple) else [made]
