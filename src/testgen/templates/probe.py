"""Single operations before any model: three calls each, in every data type, against f64 on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

import support

Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
OPERATIONS: dict[str, Operation] = {
    "gemm": lambda a, b: a @ b.T,
    "gemm_strided": lambda a, b: a[:, ::2] @ b[:, ::2].T,
    "softmax": lambda a, b: torch.softmax(4 * a, -1),
    "layer_norm": lambda a, b: functional.layer_norm(a, a.shape[-1:]),
    "gelu": lambda a, b: functional.gelu(a),
    "silu": lambda a, b: functional.silu(a),
    "sum": lambda a, b: a.sum(0),
    "cumsum": lambda a, b: a.cumsum(-1),
    "gather": lambda a, b: a[torch.arange(a.shape[0] - 1, -1, -1, device=a.device)],
    "conv": lambda a, b: functional.conv1d(a[:, None], b[:, None, :5]),
    "attention": lambda a, b: functional.scaled_dot_product_attention(a[None, None], b[None, None], b[None, None]),
}
SHAPES = [(5, 64, 33), (64, 96, 64), (1, 257, 129), (2049, 64, 17)]  # (M, K, N): prompts, tails of K, tall


def scan(a: torch.Tensor) -> torch.Tensor:
    """cumsum() by doubling, as parallel devices do: each of its steps rounds the partial sums to the data type."""
    step = 1
    while step < a.shape[-1]:
        a = torch.cat([a[..., :step], a[..., step:] + a[..., :-step]], -1)
        step *= 2
    return a


def check(device: str, dtype: torch.dtype, name: str) -> None:
    """The operation computes, thrice alike, and within the tolerance of f64 on the CPU, in each shape."""
    operation = OPERATIONS[name]
    for rows, depth, columns in SHAPES:
        generator = torch.Generator().manual_seed(rows)
        a = torch.randn(rows, depth, generator=generator).to(dtype)
        b = torch.randn(columns, depth, generator=generator).to(dtype)
        exact, close = operation(a.double(), b.double()), scan(a) if name == "cumsum" else operation(a, b)
        results = [operation(a.to(device), b.to(device)) for _ in range(3)]
        for got in results:
            support.compare(f"{name} {rows}x{depth}x{columns}", got, close, exact, dtype, max(rows, depth, columns))
        assert all(torch.equal(results[0], got) for got in results[1:]), f"{name} differs from call to call"
