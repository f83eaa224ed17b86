"""Makes an operation that locate.py found as small as it stays wrong, and writes a program of torch alone that shows it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import locate
import machine
import support
from locate import Operation, Verdict

SECONDS = 12.0  # for making shapes smaller
MOST_INLINE = 64  # elements of an index or a mask that are written down

PROGRAM = '''"""{name} in {dtype} on {gfx}: {wrong}.

Found by gabbro testgen in {module}. Exit code 1: wrong.
"""
import sys

import torch

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "{device}"
LIMIT = {limit!r}  # 3 times the CPU's error in this data type, plus a few rounding errors
torch.backends.cudnn.allow_tf32 = False
generator = torch.Generator().manual_seed(0)
{values}


def call(wide, {names}):
    {body}


def of(x, device, wide=None):
    return x.to(device, wide if wide and x.is_floating_point() else x.dtype)


values = [{names}]
got = call(torch.float32, *[of(x, DEVICE) for x in values]).cpu().double()
expected = call(torch.float64, *[of(x, "cpu", torch.float64) for x in values]).double()
worst = int((got - expected).abs().nan_to_num(torch.inf).argmax())
error = {norm}
print(f"torch {{torch.__version__}}, hip {{torch.version.hip}}, cuda {{torch.version.cuda}}, {{DEVICE}}")
print(f"element {{worst}}: got {{got.flatten()[worst]:.9g}}, expected {{expected.flatten()[worst]:.9g}}")
print(f"relative error {{error:.3g}}, limit {{LIMIT:.3g}}")
sys.exit(int(not error <= LIMIT))
'''
NORM = "max(float((got - expected).norm(p) / expected.norm(p).clamp_min(1e-30)) for p in (2, torch.inf))"


def changed(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """The structure with its tensors replaced, in the order of locate.tensors_of()."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: changed(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [changed(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def with_tensors(operation: Operation, change: Callable[[torch.Tensor], Any]) -> Operation:
    args, kwargs = changed((operation.args, operation.kwargs), change)
    made = dataclasses.replace(operation, args=args, kwargs=kwargs)
    return seed_values(made) if operation.seeded else made


def seed_values(operation: Operation) -> Operation:
    """The operation with seeded values in its floating-point tensors, as the reproducer makes them."""
    generator = torch.Generator().manual_seed(0)

    def seeded(x: torch.Tensor) -> torch.Tensor:
        if not x.is_floating_point():
            return x
        values = torch.randn(x.shape, generator=generator).to(x.dtype)
        dense = x.is_contiguous() or 0 in x.shape
        return values if dense else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(values)

    args, kwargs = changed((operation.args, operation.kwargs), seeded)
    return dataclasses.replace(operation, args=args, kwargs=kwargs, seeded=True)


def with_length(operation: Operation, old: int, new: int, numbers: bool, only: int = -1) -> Operation:
    """Every axis of length `old` cut to `new`, and with `numbers` the arguments of that value too."""
    seen = [-1]

    def cut(x: torch.Tensor) -> torch.Tensor:
        seen[0] += 1
        if only in (-1, seen[0]):
            for axis in [a for a, length in enumerate(x.shape) if length == old]:
                x = x.narrow(axis, 0, new)
        return x.clone()

    def renumbered(value: Any) -> Any:
        if type(value) is int:
            return new if value == old else value
        if isinstance(value, dict):
            return {key: renumbered(item) for key, item in value.items()}
        if type(value) in (list, tuple, torch.Size):
            return type(value)(renumbered(item) for item in value)
        return value

    if numbers:
        operation = dataclasses.replace(operation, args=renumbered(operation.args), kwargs=renumbered(operation.kwargs))
    return with_tensors(operation, cut)


def smaller(operation: Operation) -> Iterator[Operation]:
    """Simpler operations to try, the largest steps first."""
    if not operation.seeded:
        yield seed_values(operation)
    if not all(x.is_contiguous() for x in locate.tensors_of((operation.args, operation.kwargs))):
        yield with_tensors(operation, lambda x: x.contiguous())
    for name, value in operation.kwargs.items():
        if isinstance(value, torch.Tensor):
            yield dataclasses.replace(operation, kwargs={**operation.kwargs, name: None})
    tensors = list(locate.tensors_of((operation.args, operation.kwargs)))
    for old in sorted({length for x in tensors for length in x.shape if length > 1}, reverse=True):
        for new in dict.fromkeys((1, old // 2, old - 1)):
            yield with_length(operation, old, new, numbers=True)
            yield with_length(operation, old, new, numbers=False)
            for only in range(len(tensors)):
                yield with_length(operation, old, new, numbers=False, only=only)


def shrink(operation: Operation, verdict: Verdict) -> tuple[Operation, Verdict]:
    """The smallest operation that was found to be wrong."""
    end, progress = time.monotonic() + SECONDS, True
    while progress and time.monotonic() < end:
        progress = False
        for candidate in smaller(operation):
            tried = still_wrong(candidate)
            if tried is not None:
                operation, verdict, progress = candidate, tried, True
                break
            if time.monotonic() > end:
                break
    return operation, verdict


def still_wrong(operation: Operation) -> Verdict | None:
    try:
        verdict = locate.try_on_device(operation)
    except locate.NotComparable:
        return None  # the CPU refuses these shapes
    return verdict if verdict is not None and verdict.ratio > 1 else None


class Kernels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the names of the kernels that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if str(func) not in self.names:
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def variants(operation: Operation) -> Iterator[tuple[str, Any]]:
    """(name, context) of each library that can run the operation."""
    name = locate.short_name(operation)
    on_gpu = operation.device != "cpu"
    amd = torch.version.hip is not None
    if name == "scaled_dot_product_attention":
        from torch.nn.attention import SDPBackend, sdpa_kernel

        for backend in ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"):
            if on_gpu or backend in ("MATH", "FLASH_ATTENTION"):
                yield f"SDPA {backend}", sdpa_kernel([getattr(SDPBackend, backend)])
    if on_gpu and any(word in name for word in ("linear", "mm", "matmul", "einsum")):
        for library, title in (
            ("cublas", "rocBLAS" if amd else "cuBLAS"),
            ("cublaslt", "hipBLASLt" if amd else "cuBLASLt"),
        ):
            yield title, preferred_blas(library)
    if on_gpu and "conv" in name:
        yield f"without {'MIOpen' if amd else 'cuDNN'}", torch.backends.cudnn.flags(enabled=False)
    if not on_gpu:
        yield "without oneDNN", torch.backends.mkldnn.flags(enabled=False)


@contextlib.contextmanager
def preferred_blas(library: str) -> Iterator[None]:
    before = torch.backends.cuda.preferred_blas_library()
    torch.backends.cuda.preferred_blas_library(library)
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(before)


def libraries(operation: Operation) -> list[str]:
    """One line for each library: right, wrong, or what it says."""
    cases = [(title, context, operation.func) for title, context in variants(operation)]
    if operation.device != "cpu":
        cases.append(("inductor", contextlib.nullcontext(), torch.compile(operation.func)))
    lines = []
    for title, context, func in cases:
        try:
            with context:
                verdict = locate.try_on_device(operation, func)
        except (RuntimeError, locate.NotComparable) as error:
            lines.append(f"{title}: {str(error).splitlines()[0]}")
        else:
            wrong = verdict is not None and verdict.ratio > 1
            lines.append(f"{title}: wrong, {verdict.text}" if verdict is not None and wrong else f"{title}: right")
    return lines


def literal(value: Any, names: Iterator[str]) -> str:
    """The argument as Python text; tensors by their names, f32 as `wide`."""
    if isinstance(value, torch.Tensor):
        return next(names)
    if isinstance(value, torch.dtype):
        return "wide" if value in (torch.float32, torch.float64) else str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, slice):
        return f"slice({', '.join(literal(v, names) for v in (value.start, value.stop, value.step))})"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(literal(v, names) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {literal(item, names)}" for key, item in value.items()) + "}"
    if isinstance(value, torch.device):
        return "DEVICE"
    return str(value) if isinstance(value, (torch.memory_format, torch.layout)) else repr(value)


def body_of(operation: Operation, part: str, names: Iterator[str]) -> str:
    parts = [literal(value, names) for value in operation.args]
    words = parts + [f"{key}={literal(value, names)}" for key, value in operation.kwargs.items()]
    text = f"{operation.name}({', '.join(words)})"
    if operation.name.endswith("__setitem__"):
        return f"{text}\n    return {parts[0]}"
    return f"return {text}{part}"


def value_text(x: torch.Tensor, seeded: bool) -> str:
    """The statement's right side that makes the tensor; empty where its values have to be stored."""
    if x.is_floating_point():
        random = f"torch.randn({list(x.shape)}, generator=generator).to({x.dtype})"
        strided = f"torch.empty_strided({list(x.shape)}, {list(x.stride())}, dtype={x.dtype}).copy_({random})"
        return "" if not seeded else random if x.is_contiguous() else strided
    return f"torch.tensor({x.tolist()}, dtype={x.dtype})" if x.numel() <= MOST_INLINE else ""


def write(operation: Operation, verdict: Verdict, out: pathlib.Path) -> pathlib.Path:
    """Writes repro_<op>_<gfx>.py, and next to it a .pt with the values where seeded ones do not show the fault."""
    gfx = target_of(operation.device)
    path = out / f"repro_{locate.short_name(operation)}_{gfx}.py"
    tensors = list(locate.tensors_of((operation.args, operation.kwargs)))
    names = [f"x{index}" for index in range(len(tensors))]
    texts = [value_text(x, operation.seeded) for x in tensors]
    lines = [f"{name} = {text}" for name, text in zip(names, texts, strict=True)]
    if "" in texts:
        stored = path.with_suffix(".pt")
        torch.save([x.clone() for x in tensors], stored)
        lines = [f'{", ".join(names)}, = torch.load(__file__.removesuffix(".py") + ".pt", weights_only=True)']
    norm = NORM if math.isfinite(verdict.error) and verdict.limit > 0 else "float((got != expected).any())"
    fields: dict[str, Any] = {"name": operation.name, "dtype": support.NAMES[operation.dtype], "gfx": gfx}
    fields |= {"wrong": verdict.text, "module": operation.module, "device": operation.device, "limit": verdict.limit}
    body = body_of(operation, verdict.part, iter(names))
    path.write_text(PROGRAM.format(**fields, values="\n".join(lines), names=", ".join(names), body=body, norm=norm))
    return path


def target_of(device: str) -> str:
    """gfx1100, sm_90 or cpu."""
    if device == "cpu":
        return "cpu"
    index = torch.device(device).index or 0
    cards: list[dict[str, Any]] = machine.torch_facts().get("devices", [])
    return str(cards[index]["gfx"] or cards[index]["sm"]) if index < len(cards) else "gpu"


def explain(operation: Operation, verdict: Verdict, out: pathlib.Path, run: bool = True) -> dict[str, Any]:
    """The document's part about the operation. With `run` off, nothing runs on the device any more."""
    document: dict[str, Any] = {"operation": operation.name, "module": operation.module, "wrong": verdict.text}
    document["shapes"] = [list(x.shape) for x in locate.tensors_of((operation.args, operation.kwargs))]
    if run:
        kernels = Kernels()
        with kernels, contextlib.suppress(RuntimeError):
            locate.on_device(
                operation.func, *support.on(locate.before(operation.args, operation.kwargs), operation.device)
            )
        document["kernels"] = kernels.names
        operation, verdict = shrink(operation, verdict)
        document["libraries"] = libraries(operation)
    else:
        operation = seed_values(operation)
    document["smallest"] = [list(x.shape) for x in locate.tensors_of((operation.args, operation.kwargs))]
    document.update(error=verdict.error, limit=verdict.limit, file=str(write(operation, verdict, out)))
    return document
