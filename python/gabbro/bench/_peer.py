"""The same cases in PyTorch, as its users write them: eager calls, without gradients."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import gabbro as gb

from ._cases import EPSILON, Case


class PyTorch:
    """PyTorch on a device of the same kind, with the same number of threads."""

    name = "PyTorch"

    def __init__(self, torch: Any, device: str, threads: int | None) -> None:
        self.torch, self.device = torch, device
        self.version: str = torch.__version__
        if threads is not None:
            torch.set_num_threads(threads)
        self.calls = _calls(torch)

    def function(self, case: Case, tensors: list[gb.Tensor]) -> Callable[[], Any]:
        """What runs the case once, on the values of these tensors."""
        there = [self._copy(tensor) for tensor in tensors]
        call = self.calls.get(case.op) or getattr(self.torch, case.op)
        inference_mode = self.torch.inference_mode

        def run() -> Any:
            with inference_mode():
                return call(*there, **case.attributes)

        return run

    def synchronize(self) -> None:
        if self.device != "cpu":
            self.torch.cuda.synchronize(self.device)

    def _copy(self, tensor: gb.Tensor) -> Any:
        dtype = str(tensor.dtype).removeprefix("gabbro.")
        if dtype == "bfloat16":  # which NumPy does not have
            tensor = gb.astype(tensor, gb.float32)
        there = self.torch.from_numpy(tensor.numpy().copy()).to(self.device)
        return there.to(self.torch.bfloat16) if dtype == "bfloat16" else there


def find(device: str, threads: int | None) -> tuple[PyTorch | None, str]:
    """PyTorch on a device of this name, or None and the reason in one line."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        return None, f"PyTorch cannot be imported: {error}"
    kind = device.partition(":")[0]
    if kind == "cpu":
        return PyTorch(torch, "cpu", threads), ""
    if kind not in ("cuda", "rocm"):
        return None, f"PyTorch has no device like {device}"
    if not torch.cuda.is_available() or (torch.version.hip is not None) != (kind == "rocm"):
        return None, f"this PyTorch ({torch.__version__}) does not use {device}"
    return PyTorch(torch, device.replace("rocm", "cuda"), None), ""


def _calls(torch: Any) -> dict[str, Callable[..., Any]]:
    """Calls that differ from the call of the function of torch with the name of the op, as CALLS of _cases.py."""
    f = torch.nn.functional
    return {
        "linear": f.linear,
        "conv2d_nhwc": lambda x, weight, **a: f.conv2d(
            x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), **a
        ).permute(0, 2, 3, 1),
        "depthwise_conv2d": lambda x, weight, **a: f.conv2d(x, weight, groups=x.shape[1], **a),
        "max_pool2d": lambda x, kernel, **a: f.max_pool2d(x, kernel, **a),
        "add": lambda a, b: a + b,
        "mul_add": lambda a, b, c: a * b + c,
        "gelu": f.gelu,
        "silu_mul": lambda a, b: f.silu(a) * b,
        "where": lambda a, b: torch.where(a > b, a, b),
        "sum": lambda x, axis=None: torch.sum(x, axis),
        "max": torch.amax,
        "var": lambda x, axis: torch.var(x, axis, correction=1),
        "rms_norm": lambda x, weight: f.rms_norm(x, weight.shape, weight, EPSILON),
        "layer_norm": lambda x, weight, bias: f.layer_norm(x, weight.shape, weight, bias, EPSILON),
        "group_norm_nhwc": lambda x, weight, bias, groups: f.silu(
            f.group_norm(x.permute(0, 3, 1, 2), groups, weight, bias, EPSILON)
        ).permute(0, 2, 3, 1),
        "group_norm": lambda x, weight, bias, groups: f.group_norm(x, groups, weight, bias, EPSILON),
        "batch_norm": lambda x, mean, var, weight, bias: f.batch_norm(x, mean, var, weight, bias, eps=EPSILON),
        "softmax": lambda x, axis=-1: torch.softmax(x, axis),
        "log_softmax": lambda x: torch.log_softmax(x, -1),
        "attention": lambda q, k, v, causal=False: f.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=k.shape[1] != q.shape[1]
        ),
        "embedding": lambda weight, ids: f.embedding(ids, weight),
        "concat": lambda a, b: torch.cat([a, b], 0),
        "add_transposed": lambda x: x + x.T,
        "sort": lambda x: torch.sort(x, stable=True),
    }
