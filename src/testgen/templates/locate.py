"""Finds the operation behind a failed test: block, operation, smallest shape, and a program with torch alone.

    PYTHONPATH=. python gabbro_testgen/locate.py 'test_layers[cuda:0-f32-tiny-lively]' [--output DIR] [--limit SECONDS] [--json]

It runs in the folder of a pack.

Blocks are run with the oracle's inputs; inside the first wrong one, each operation runs with the device's own inputs
on the device, on the CPU in the same data type, and on the CPU in f64. The work is done in a child process: where the
device ends it, the operation that was running is the answer.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import math
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name

import calls
import case
import sizes
import support
from choices import Again
from inputs import make_inputs

# Operations whose indices may differ where values are equal; and those that have no one right result.
TIES = ("topk", "sort", "argsort", "argmax", "argmin", "max", "min", "median", "kthvalue", "mode")
ROUNDING = 3.0  # times the limit: above, it is not rounding that adds up
RANDOM = ("rand", "dropout", "multinomial", "bernoulli", "normal_", "uniform_", "empty", "new_empty", "exponential_")


@dataclasses.dataclass
class Operation:
    """One call of a function of torch; tensors are on the CPU, as they were before the call."""

    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    name: str
    dtype: torch.dtype
    device: str
    block: str = ""
    module: str = ""
    seeded: bool = False  # the values are the seeded ones of a reproducer


@dataclasses.dataclass
class Verdict:
    """How wrong the worst output is: at most 1 is right. `part` selects the output, as in "[0]"."""

    ratio: float
    error: float
    limit: float
    part: str
    text: str


class NotComparable(Exception):
    """The CPU does not have the operation, in f64 or in the data type, or refuses the arguments."""


class Stop(Exception):
    """Ends the model's run: the operation is known."""


def on_device(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Runs the operation under test. Everything that locate.py runs on the device passes here or through run_block()."""
    return func(*args, **kwargs)


def references(operation: Operation) -> tuple[Any, Any]:
    """The result on the CPU in f64, and in the operation's data type."""
    exact_args = support.on(support.clone((operation.args, operation.kwargs)), "cpu", torch.float64)
    close_args = support.clone((operation.args, operation.kwargs))
    try:
        with support.InDouble():
            exact = operation.func(*exact_args[0], **exact_args[1])
        close = operation.func(*close_args[0], **close_args[1])
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        raise NotComparable(str(error)) from error
    return result_of(exact, exact_args[0]), result_of(close, close_args[0])


def result_of(result: Any, args: Any) -> Any:
    """The result, or the first argument of an operation that writes to it and returns nothing."""
    return args[0] if result is None and args else result


def depth_of(operation: Operation) -> int:
    """The longest sum that the operation can have, from its tensors' sizes."""
    sizes = [1]
    for tensor in tensors_of((operation.args, operation.kwargs)):
        sizes += list(tensor.shape)
        if "conv" in operation.name and tensor.dim() > 2:
            sizes.append(tensor[0].numel())
        if short_name(operation) in ("sum", "mean", "norm", "einsum"):
            sizes.append(tensor.numel())
    return max(sizes)


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)


def short_name(operation: Operation) -> str:
    return operation.name.rsplit(".", 1)[-1].strip("_")


def outputs_of(value: Any, part: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of a result with the Python text that selects each."""
    if isinstance(value, torch.Tensor):
        yield part, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from outputs_of(item, f"{part}[{index}]")


def judge(operation: Operation, got: Any, exact: Any, close: Any) -> Verdict | None:
    """The worst output's verdict; None where nothing can be compared."""
    worst: Verdict | None = None
    of_exact, of_close = dict(outputs_of(exact)), dict(outputs_of(close))
    for part, value in outputs_of(support.on(got, "cpu")):
        if part not in of_exact or part not in of_close:
            continue
        verdict = judge_part(operation, part, value, of_exact[part], of_close[part])
        if verdict is not None and (worst is None or verdict.ratio > worst.ratio):
            worst = verdict
    return worst


def judge_part(
    operation: Operation, part: str, got: torch.Tensor, exact: torch.Tensor, close: torch.Tensor
) -> Verdict | None:
    if not got.is_floating_point():
        if short_name(operation) in TIES or got.is_complex():
            return None
        wrong = got.shape != exact.shape or not torch.equal(got, exact.to("cpu", got.dtype))
        return Verdict(math.inf if wrong else 0.0, float(wrong), 0.0, part, "other integers than the CPU's")
    dtype = got.dtype if got.dtype in support.UNIT else operation.dtype
    errors, floor = support.distance(got, exact), support.floor_of(dtype, depth_of(operation))
    limits = [support.FACTOR[dtype] * r + floor for r in support.distance(close, exact)]
    if not all(math.isfinite(limit) for limit in limits):
        return None  # the CPU overflows too
    ratio, error, limit = max((e / limit, e, limit) for e, limit in zip(errors, limits, strict=True))
    return Verdict(ratio, error, limit, part, f"error {error:.3g}, limit {limit:.3g}")


def try_on_device(operation: Operation, func: Callable[..., Any] | None = None) -> Verdict | None:
    """Runs the operation, or on the device `func` in its place: the CPU first, since what it refuses can hang a device."""
    exact, close = references(operation)
    args, kwargs = support.on(support.clone((operation.args, operation.kwargs)), operation.device)
    try:
        got = result_of(on_device(func or operation.func, args, kwargs), args)
    except RuntimeError as error:
        return Verdict(math.inf, math.inf, 0.0, "", f"raises {str(error).splitlines()[0]}")
    return judge(operation, got, exact, close)


class Watch(TorchFunctionMode):
    """Judges every operation while a block runs, and stops at the first that is wrong."""

    def __init__(self, dtype: torch.dtype, device: str, block: str, trail: pathlib.Path, stop_at: int = -1) -> None:
        super().__init__()
        self.dtype, self.device, self.block, self.trail, self.stop_at = dtype, device, block, trail, stop_at
        self.modules = [""]  # those that run, outermost first
        self.count = 0
        self.found: tuple[Operation, Verdict] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = resolve_name(func) or getattr(func, "__name__", "")
        plain = name.rsplit(".", 1)[-1].strip("_")
        outside = len(self.modules) == 1 or next(tensors_of((args, kwargs)), None) is None
        if outside or plain in ("get", "set") or plain.startswith(RANDOM):
            return func(*args, **kwargs)
        given, named = before(args, kwargs)
        operation = Operation(func, given, named, name, self.dtype, self.device, self.block, self.modules[-1])
        self.count += 1
        shapes = [list(t.shape) for t in tensors_of((args, kwargs))]
        step = {"block": self.block, "module": self.modules[-1], "operation": name, "shapes": shapes, "at": self.count}
        self.trail.write_text(json.dumps(step))
        if self.count == self.stop_at:
            self.found = (operation, Verdict(math.inf, math.inf, 0.0, "", "ends the process"))
            raise Stop
        result = self.run(operation, args, kwargs)
        try:
            verdict = judge(operation, result_of(result, args), *references(operation))
        except NotComparable:
            return result
        if verdict is not None and verdict.ratio > 1:
            self.found = (operation, verdict)
            raise Stop
        return result

    def run(self, operation: Operation, args: Any, kwargs: Any) -> Any:
        try:
            return on_device(operation.func, args, kwargs)
        except RuntimeError as error:
            self.found = (operation, Verdict(math.inf, math.inf, 0.0, "", f"raises {str(error).splitlines()[0]}"))
            raise Stop from error


def before(args: Any, kwargs: Any) -> Any:
    """A copy of the current arguments on the CPU, with their strides."""
    return support.on(support.clone((args, kwargs)), "cpu")


def follow(module: nn.Module, path: str, watch: Watch) -> list[Any]:
    """Hooks that tell the watch which module runs."""
    handles = []
    for name, child in module.named_modules():
        full = f"{path}.{name}".strip(".")

        def enter(_module: Any, _args: Any, full: str = full) -> None:
            watch.modules.append(full)

        def leave(_module: Any, _args: Any, _output: Any) -> None:
            watch.modules.pop()

        handles += [child.register_forward_pre_hook(enter), child.register_forward_hook(leave)]
    return handles


@dataclasses.dataclass
class Test:
    """The parameters in a test's name; a regime that is not in it means both."""

    device: str
    dtype: torch.dtype
    size: str
    regimes: list[str]

    @staticmethod
    def parse(name: str) -> Test:
        words = re.split(r"[\[\]-]", name)
        device = next((w for w in words[1:] if w.startswith(("cpu", "cuda"))), "cpu")
        dtype = next((support.DTYPES[w] for w in words if w in support.DTYPES), torch.float32)
        size = next((w for w in words if w in ("tiny", "heads", "true", "full")), "tiny")
        return Test(device, dtype, size, [w for w in words if w in ("lively", "faint")] or ["lively", "faint"])


def wrong_blocks(test: Test, regime: str) -> Iterator[tuple[support.Call, Any, str, float]]:
    """(call, subject, what is wrong, times the limit) of each block that exceeds its limit, in the order in which they run."""
    oracle = support.make_oracle(test.dtype, regime, test.size)
    reference = support.make_reference(test.dtype, regime, test.size)
    subject = support.make_subject(test.device, test.dtype, regime, test.size)
    depth = support.depth_of(oracle)
    inputs = support.on_grid(sizes.inputs_of(make_inputs, test.size)(oracle), test.dtype)
    for call in support.record(oracle, inputs):
        call = support.on_grid(call, test.dtype)
        exact = dict(support.run_block(oracle, call, "cpu", torch.float64))
        close = dict(support.run_block(reference, call, "cpu", test.dtype))
        try:
            got = support.run_block(subject, call, test.device, test.dtype)
        except RuntimeError as error:
            yield call, subject, str(error).splitlines()[0], math.inf
            continue
        entries = []
        for name, value in (pair for pair in got if pair[0] in exact):
            again = Again(functools.partial(support.block_output, call, name), reference, oracle, subject)
            pair = close[name], exact[name]
            entries.append(support.measure_fully(name, value, *pair, test.dtype, depth, again))
        worst = max(entries, key=lambda entry: float(entry["ratio"]), default=None)
        if worst is not None and worst["ratio"] > 1:
            what = f"{worst['block']}: error {worst['error']:.3g}, limit {worst['limit']:.3g}"
            yield call, subject, what, float(worst["ratio"])


def wrong_whole(test: Test, regime: str) -> tuple[support.Call, Any, str, float] | None:
    """The same of the model as one block, for what is between its blocks; None where it is right."""
    oracle = support.make_oracle(test.dtype, regime, test.size)
    subject = support.make_subject(test.device, test.dtype, regime, test.size)
    inputs = support.on_grid(sizes.inputs_of(make_inputs, test.size)(oracle), test.dtype)
    exact = support.outputs(oracle, inputs)
    reference = support.make_reference(test.dtype, regime, test.size)
    close, got, depth = support.outputs(reference, inputs), support.outputs(subject, inputs), support.depth_of(oracle)
    entries = []
    for name in (name for name in exact if name in got):
        again = Again(functools.partial(support.output, inputs, name), reference, oracle, subject)
        entries.append(support.measure_fully(name, got[name], close[name], exact[name], test.dtype, depth, again))
    worst = max(entries, key=lambda entry: float(entry["ratio"]), default=None)
    if worst is None or worst["ratio"] <= 1:
        return None
    options = {"use_cache": False} if case.HAS_CACHE else {}
    what = f"{worst['block']}: error {worst['error']:.3g}, limit {worst['limit']:.3g}, and no block by itself"
    return support.Call("", (), {**inputs, **options}), subject, what, float(worst["ratio"])


def wrong_operation(
    test: Test, call: support.Call, subject: Any, trail: pathlib.Path, stop_at: int
) -> tuple[Operation, Verdict] | None:
    """The first operation of the block that exceeds its limit."""
    watch = Watch(test.dtype, test.device, call.block, trail, stop_at)
    handles = follow(subject.get_submodule(call.block), call.block, watch)
    with contextlib.suppress(Stop), watch:
        support.run_block(subject, call, test.device, test.dtype)
    for handle in handles:
        handle.remove()
    return watch.found


def other_call(test: Test, call: support.Call, subject: Any) -> dict[str, Any] | None:
    """The first call that differs from the oracle's, where every operation is right by itself."""

    def run(model: Any) -> Any:
        parameter = next(p for p in model.parameters() if p.is_floating_point())
        return support.run_block(model, call, parameter.device, parameter.dtype)

    models = support.make_oracle(test.dtype, size=test.size), support.make_reference(test.dtype, size=test.size)
    return calls.first_difference(run, *models, subject, test.dtype)


def locate(name: str, out: pathlib.Path, trail: pathlib.Path, stop_at: int = -1) -> dict[str, Any]:
    """The document: block, operation, shapes, error, libraries, and the reproducer's file."""
    import reproduce

    torch.backends.cuda.matmul.allow_tf32 = False  # as in the tests
    torch.backends.cudnn.allow_tf32 = False
    started, test = time.monotonic(), Test.parse(name)
    document: dict[str, Any] = {"test": name, "block": None, "operation": None}
    wrong = (next(wrong_blocks(test, r), None) or wrong_whole(test, r) for r in test.regimes)
    first = next((found for found in wrong if found is not None), None)
    if first is None:
        return {**document, "what": "no block exceeds its limit, nor does the whole model"}
    call, subject, document["what"], document["ratio"] = first
    found = wrong_operation(test, call, subject, trail, stop_at)
    document["block"] = call.block or "the model"
    if found is not None:
        document.update(reproduce.explain(*found, out, run=stop_at < 0))
    else:
        document.update(other_call(test, call, subject) or {})
    document["seconds"] = round(time.monotonic() - started, 1)
    return document


def in_child(name: str, out: pathlib.Path, limit: float, stop_at: int = -1) -> dict[str, Any]:
    """locate() in a fork; where it dies, what it was doing, and once more up to that operation for the reproducer."""
    with tempfile.TemporaryDirectory() as folder:
        trail, answer = pathlib.Path(folder, "trail"), pathlib.Path(folder, "answer")
        process = os.fork()
        if process == 0:
            code = 1
            try:
                answer.write_text(json.dumps(locate(name, out, trail, stop_at), default=str))
                code = 0
            finally:
                if code:
                    sys.excepthook(*sys.exc_info())
                os._exit(code)
        ending = wait(process, limit)
        if answer.is_file():
            return dict(json.loads(answer.read_text()))
        step = json.loads(trail.read_text()) if trail.is_file() else {}
    if not step or stop_at >= 0:
        raise RuntimeError(f"{name}: the search {ending}")
    return {**in_child(name, out, limit, stop_at=step["at"]), **step, "test": name, "what": f"the process {ending}"}


def wait(process: int, limit: float) -> str:
    """How the process ended; it is killed after `limit` seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return f"was ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "failed"
        time.sleep(0.02)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return f"did not end in {limit:.0f} s and was killed"


def describe(document: dict[str, Any]) -> str:
    lines = [f"{document['test']}: {document['what']}"]
    if document["block"]:
        lines.append(f"block      {document['block']}")
    if document["operation"]:
        lines.append(f"operation  {document['operation']} in {document['module']}: {document.get('wrong', '')}")
        if "file" in document:
            lines.append(f"shapes     {document['shapes']}, smallest {document.get('smallest')}")
            lines += [f"           {line}" for line in document.get("libraries", [])]
            lines.append(f"reproducer {document['file']}")
    elif document["block"] and document.get("ratio", math.inf) <= ROUNDING:
        lines.append("operation  none exceeds its limit by itself: rounding errors add up in this block")
    elif document["block"]:
        lines.append("operation  none: each is right by itself, with the arguments and results of the oracle's")
    return "\n".join(lines)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="locate.py")
    parser.add_argument("test")
    parser.add_argument("--output", default=".")
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    out = pathlib.Path(options.output)
    out.mkdir(parents=True, exist_ok=True)
    document = in_child(options.test, out, options.limit)
    print(json.dumps(document, indent=1) if options.json else describe(document))
    return int(document["operation"] is None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
