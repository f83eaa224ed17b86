"""Faults that `gabbro testgen --verify --mutate` plants in the model under test, and in it alone.

Each is a small wrong number as broken kernels give it: the tests have to find it. A fault that changed nothing in
a model (no bias to drop, no rotation) is not counted.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Change = Callable[..., Any]


def round_bits(x: torch.Tensor, bits: int) -> torch.Tensor:
    """x with `bits` bits of mantissa."""
    if not x.is_floating_point():
        return x
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp(torch.round(mantissa * 2.0**bits) / 2.0**bits, exponent)


def low_precision(call: Change, x: Any, weight: Any, bias: Any = None) -> Any:
    return call(x.bfloat16(), weight.bfloat16(), None if bias is None else bias.bfloat16()).to(x.dtype)


def without_mask(call: Change, *args: Any, **kwargs: Any) -> Any:
    return call(*args[:3], **{**kwargs, "attn_mask": None, "is_causal": False})


def shifted_mask(call: Change, q: Any, k: Any, v: Any, **kwargs: Any) -> Any:
    mask = kwargs.get("attn_mask")
    if mask is None:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril(1)
        return call(q, k, v, **{**kwargs, "attn_mask": mask, "is_causal": False})
    return call(q, k, v, **{**kwargs, "attn_mask": mask.roll(1, -1)})


# Function of torch, and what takes its place: change(function, *args, **kwargs).
FUNCTIONS: dict[str, dict[Any, Change]] = {
    "silu_slope": {functional.silu: lambda f, x, *a, **k: x * torch.sigmoid(1.001 * x)},
    "gelu_tanh": {
        functional.gelu: lambda f, x, approximate="none": f(x, approximate="none" if approximate == "tanh" else "tanh")
    },
    "softmax_exp": {
        functional.softmax: lambda f, x, *a, **k: f(x * (1 + 2.0**-10), *a, **k),
        torch.softmax: lambda f, x, *a, **k: f(x * (1 + 2.0**-10), *a, **k),
    },
    "attention_scale": {
        functional.scaled_dot_product_attention: lambda f, q, *a, **k: f(
            q * math.sqrt(q.shape[-1] / (q.shape[-1] + 1)), *a, **k
        )
    },
    "attention_no_mask": {functional.scaled_dot_product_attention: without_mask},
    "attention_mask_off_by_one": {functional.scaled_dot_product_attention: shifted_mask},
    "attention_last_key": {
        functional.scaled_dot_product_attention: lambda f, q, k, v, **o: f(
            q, k, torch.cat([v[..., :-1, :], v[..., -2:-1, :]], -2), **o
        )
    },
    "gemm_bf16": {functional.linear: low_precision},
    "gemm_tf32": {functional.linear: lambda f, x, w, b=None: f(round_bits(x, 10), round_bits(w, 10), b)},
    "gemm_k_tail": {functional.linear: lambda f, x, w, b=None: f(x[..., :-1], w[:, :-1], b)},
    "bias_dropped": {functional.linear: lambda f, x, w, b=None: f(x, w) if b is not None else f(x, w, b)},
    "norm_lane": {
        functional.layer_norm: lambda f, x, s, *a, **k: f(torch.cat([x[..., :1] * 0.99, x[..., 1:]], -1), s, *a, **k)
    },
    "rope_sign": {torch.sin: lambda f, x: -f(x), torch.Tensor.sin: lambda f, x: -f(x)},
    "one_element": {functional.linear: lambda f, x, w, b=None: hit(f(x, w, b))},
}


def cut_depth(call: Change, *args: Any, **kwargs: Any) -> Any:
    """A product of matrices without the last step of its sums."""
    *bias, a, b = args
    return call(*bias, a[..., :-1], b[..., :-1, :], **kwargs)


def as_bf16(call: Change, *args: Any, **kwargs: Any) -> Any:
    result = call(*args, **kwargs)
    if isinstance(result, torch.Tensor):
        return result.bfloat16().to(result.dtype)
    return (result[0].bfloat16().to(result[0].dtype), *result[1:])


def rounded(call: Change, *args: Any, **kwargs: Any) -> Any:
    return round_bits(call(*args, **kwargs), 11)


def without_last(call: Change, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """A reduction that misses the last lane."""
    return call(torch.cat([x[..., :-1], torch.zeros_like(x[..., -1:])], -1), *args, **kwargs)


def last_element_stale(call: Change, *args: Any, **kwargs: Any) -> Any:
    result = call(*args, **kwargs).clone()
    result.view(-1)[-1] = 0
    return result


def next_row(call: Change, table: torch.Tensor, ids: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return call(table, torch.cat([ids[..., :-1], (ids[..., -1:] + 1) % table.shape[0]], -1), *args, **kwargs)


# Kernel of torch below its functions, and what takes its place: change(kernel, *args, **kwargs).
KERNELS: dict[str, dict[str, Change]] = {
    "mm_k_tail": {"aten.mm.default": cut_depth, "aten.addmm.default": cut_depth},
    "bmm_k_tail": {"aten.bmm.default": cut_depth},
    "mm_bf16": {"aten.mm.default": as_bf16, "aten.addmm.default": as_bf16},
    "softmax_bf16": {"aten._softmax.default": as_bf16},
    "flash_bf16": {
        "aten._scaled_dot_product_flash_attention_for_cpu.default": as_bf16,
        "aten._scaled_dot_product_flash_attention.default": as_bf16,
        "aten._scaled_dot_product_efficient_attention.default": as_bf16,
        "aten._scaled_dot_product_cudnn_attention.default": as_bf16,
    },
    "silu_bits": {"aten.silu.default": rounded},
    "gelu_bits": {"aten.gelu.default": rounded},
    "rsqrt_bits": {"aten.rsqrt.default": rounded},
    "pow_bits": {"aten.pow.Tensor_Scalar": rounded},
    "mul_bits": {"aten.mul.Tensor": rounded},
    "add_bits": {"aten.add.Tensor": rounded},
    "mean_lane": {"aten.mean.dim": without_last},
    "layer_norm_bf16": {"aten.native_layer_norm.default": as_bf16},
    "cat_stale": {"aten.cat.default": last_element_stale},
    "embedding_row": {"aten.embedding.default": next_row},
    "cos_bits": {"aten.cos.default": rounded},
    "sigmoid_bits": {"aten.sigmoid.default": rounded},
    "tanh_bits": {"aten.tanh.default": rounded},
}


class FaultyKernel(TorchDispatchMode):
    """Replaces kernels where Faulty replaces functions."""

    def __init__(self, changes: dict[str, Change]) -> None:
        super().__init__()
        self.changes = changes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        change = self.changes.get(str(func))
        if change is None or not Faulty.active or in_f64(args):
            return func(*args, **kwargs)
        wrong, right = change(func, *args, **kwargs), func(*args, **kwargs)
        pair = [x[0] if isinstance(x, tuple) else x for x in (wrong, right)]
        Faulty.changed += not torch.equal(*pair)
        return wrong


def in_f64(args: Any) -> bool:
    """Whether this is the oracle's: it has no fault."""
    found = [a.dtype for a in args if isinstance(a, torch.Tensor)]
    found += [b.dtype for a in args if isinstance(a, (list, tuple)) for b in a if isinstance(b, torch.Tensor)]
    return torch.float64 in found


def hit(x: torch.Tensor) -> torch.Tensor:
    """One element is wrong by a hundredth of the largest."""
    y = x.clone()
    y.view(-1)[y.numel() // 2] += 0.01 * float(y.abs().max())
    return y


class Faulty(TorchFunctionMode):
    """Replaces functions while the subject runs, and counts what it changed."""

    changed = 0
    active = True

    def __init__(self, changes: dict[Any, Change]) -> None:
        super().__init__()
        self.changes = changes

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in self.changes or not Faulty.active or in_f64(args):
            return func(*args, **kwargs)
        right = func(*args, **kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            wrong = self.changes[func](func, *args, **kwargs)
        if isinstance(right, torch.Tensor) and not torch.equal(right, wrong):
            Faulty.changed += 1
        return wrong


def scale_epsilon(model: Any) -> None:
    """Every norm's epsilon times 10."""
    for module in model.modules():
        for name in ("eps", "variance_epsilon"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 10 * getattr(module, name))
                Faulty.changed += 1


def swap_rows(model: Any) -> None:
    """Exchanges the first two rows of the first matrix that is not an embedding."""
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module.weight.shape[0] > 1:
            module.weight.data[[0, 1]] = module.weight.data[[1, 0]]
            Faulty.changed += 1
            return


MODELS: dict[str, Callable[[Any], None]] = {"epsilon": scale_epsilon, "rows_swapped": swap_rows}
NAMES = [*FUNCTIONS, *MODELS]


class Planter:
    """A plugin of pytest that plants one fault in every subject, and reports how often it changed a number."""

    def __init__(self, name: str, counter: str) -> None:
        self.name, self.counter = name, counter

    def pytest_collection_modifyitems(self) -> None:
        support = sys.modules["support"]
        support.make_subject = functools.partial(self.make, support.make_subject)  # type: ignore[attr-defined]

    def pytest_runtest_teardown(self) -> None:
        if Faulty.changed:
            with open(self.counter, "a") as file:
                file.write("x")

    def make(self, make_subject: Any, *args: Any, **kwargs: Any) -> Any:
        model = make_subject(*args, **kwargs)
        if self.name in MODELS:
            MODELS[self.name](model)
            return model
        support = sys.modules["support"]
        for module in [model, *(block for _, block in support.blocks(model))]:
            module.forward = self.faulty(module.forward)
        return model

    def faulty(self, forward: Any) -> Any:
        @functools.wraps(forward)
        def run(*args: Any, **kwargs: Any) -> Any:
            with Faulty(FUNCTIONS[self.name]):
                return forward(*args, **kwargs)

        return run
