"""The first function of torch that a device's run calls otherwise than the oracle's: another function, another argument, or
another result. It finds what is wrong before a kernel runs: a scale, an axis, a shift."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

import support
from choices import with_attention

Run = Callable[[Any], Any]
# Conversions differ between data types; properties of tensors are not operations.
SKIPPED = {
    "to",
    "type",
    "type_as",
    "float",
    "double",
    "half",
    "bfloat16",
    "contiguous",
    "clone",
    "detach",
    "get",
    "set",
}
SKIPPED |= {"finfo", "is_floating_point", "item", "size", "dim", "stride", "element_size", "numel", "is_contiguous"}
SKIPPED |= {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}  # what memory happens to hold
HUGE = 1e30  # numbers that stand for infinity depend on the data type


@dataclasses.dataclass
class Called:
    """A call: the function, the module that runs, its arguments that are not tensors, and its results on the CPU."""

    name: str
    module: str
    constants: dict[str, Any]
    results: list[torch.Tensor]


class Log(TorchFunctionMode):
    """Records every call while a model runs."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.calls: list[Called] = []
        self.modules = [""]
        self.model = model

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = (resolve_name(func) or getattr(func, "__name__", "")).rsplit(".", 1)[-1].strip("_")
        results = [x.detach().cpu().clone() for _, x in support.leaves(result)]
        if len(self.modules) > 1 and name not in SKIPPED and results:
            given = {**dict(enumerate_arguments(args)), **(kwargs or {})}
            self.calls.append(Called(name, self.modules[-1], dict(constants_of(given)), results))
        return result

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Knows which module runs."""
        handles = []
        for path, module in self.model.named_modules():

            def enter(_module: Any, _args: Any, path: str = path) -> None:
                self.modules.append(path)

            def leave(_module: Any, _args: Any, _output: Any) -> None:
                self.modules.pop()

            handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()


def enumerate_arguments(args: Any) -> Iterator[tuple[str, Any]]:
    yield from ((f"argument {index + 1}", value) for index, value in enumerate(args))


def constants_of(given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Numbers, texts, and tuples of them; numbers that stand for infinity are left out."""
    for name, value in given.items():
        if isinstance(value, (bool, int, str)) or (isinstance(value, float) and abs(value) < HUGE):
            yield name, value
        elif isinstance(value, (tuple, list)) and all(isinstance(x, (bool, int)) for x in value):
            yield name, tuple(value)


def log_of(model: Any, run: Run) -> list[Called]:
    log = Log(model)
    with log.following():
        run(model)
    return log.calls


def differing(mine: Called, oracles: Called) -> str:
    """How the arguments differ; empty where they do not."""
    for name in mine.constants.keys() & oracles.constants.keys():
        one, other = mine.constants[name], oracles.constants[name]
        close = isinstance(one, float) and isinstance(other, (int, float)) and math.isclose(one, other, rel_tol=1e-6)
        if one != other and not close:
            return f"{name} is {one}, the oracle's {other}"
    only = sorted(mine.constants.keys() ^ oracles.constants.keys())
    return f"{', '.join(only)} is given in one run alone" if only else ""


def first_difference(run: Run, oracle: Any, reference: Any, subject: Any, dtype: torch.dtype) -> dict[str, str] | None:
    """{"operation", "module", "wrong"} of the first call that differs; None where all are as the oracle's."""
    twins = [with_attention(model, subject) for model in (oracle, reference)]
    exact, close, got = (log_of(model, run) for model in (*twins, subject))
    depth = support.depth_of(oracle)
    for index, mine in enumerate(got):
        place = {"operation": mine.name, "module": mine.module or "the model"}
        if index >= len(exact) or mine.name != exact[index].name:
            other = exact[index].name if index < len(exact) else "nothing more"
            return {**place, "wrong": f"the oracle calls {other} there"}
        difference = differing(mine, exact[index])
        if difference:
            return {**place, "wrong": f"an argument differs from the oracle's: {difference}"}
        comparable = index < len(close) and close[index].name == mine.name
        for x, y, z in zip(
            mine.results, close[index].results if comparable else [], exact[index].results, strict=False
        ):
            if (
                x.dtype == dtype
                and x.shape == z.shape == y.shape
                and support.measure("", x, y, z, dtype, depth)["ratio"] > 3
            ):
                return {**place, "wrong": "its result is the first beyond three times the limit"}
    return None


def explain(run: Run, oracle: Any, reference: Any, subject: Any, dtype: torch.dtype) -> str:
    """A line of a failure that names the operation; empty where none can be named."""
    try:
        found = first_difference(run, oracle, reference, subject, dtype)
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
        return f"operations cannot be compared: {str(error).splitlines()[0]}"
    return f"operation: {found['operation']} in {found['module']}: {found['wrong']}" if found else ""


def explain_block(call: support.Call, oracle: Any, reference: Any, subject: Any, dtype: torch.dtype) -> str:
    """explain() of one block with the oracle's inputs."""

    def run(model: Any) -> Any:
        parameter = next(p for p in model.parameters() if p.is_floating_point())
        return support.run_block(model, call, parameter.device, parameter.dtype)

    return explain(run, oracle, reference, subject, dtype)


def explain_loss(call: support.Call, oracle: Any, reference: Any, dtype: torch.dtype) -> str:
    """A line that names the first operation of a block whose result has half of the block's error in `dtype` on the CPU."""

    def run(model: Any) -> Any:
        return support.run_block(model, call, "cpu", next(p for p in model.parameters() if p.is_floating_point()).dtype)

    try:
        exact, close = log_of(oracle, run), log_of(reference, run)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return f"operations cannot be compared: {str(error).splitlines()[0]}"
    if not exact or not close:
        return ""
    whole = max(support.distance(x, y)[0] for x, y in zip(close[-1].results, exact[-1].results, strict=False))
    for mine, oracles in zip(close, exact, strict=False):
        where = f"operation: {mine.name} in {mine.module or 'the model'}"
        if mine.name != oracles.name:
            return f"{where}: the oracle calls {oracles.name} there"
        errors = [support.distance(x, y)[0] for x, y in zip(mine.results, oracles.results, strict=False)]
        finite = [error for error in errors if math.isfinite(error)]  # masks have each type's smallest number
        if max(finite, default=0.0) >= whole / 2:
            return f"{where} has half of the block's error for the first time"
    return ""
