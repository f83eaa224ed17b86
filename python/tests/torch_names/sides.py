"""Runs a line of a program in one of the libraries: its results and the gradients of its inputs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Between -2 and 2, and none of them next to a place where functions have a kink."""
    drawn = np.random.default_rng(seed).uniform(0.05, 2, shape) * np.random.default_rng(seed + 1).choice([-1, 1], shape)
    return drawn.astype(np.float32)


def positive(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return (np.abs(numbers(shape, seed)) * 0.4 + 0.05).astype(np.float32)  # below 0.9


# Inputs by their names; gradients of floating inputs are compared.
ARRAYS = {
    "X": numbers((3, 4)), "Y": numbers((3, 4), 2), "CUBE": numbers((2, 3, 4), 4), "SQUARE": numbers((3, 3), 3),
    "V": numbers((4,), 5), "U": numbers((4,), 6), "V3": numbers((3,), 7), "P": positive((3, 4)), "S": numbers((), 8),
    "LINE": numbers((2, 4, 7), 9), "IMAGE": numbers((2, 4, 6, 5), 10), "VOLUME": numbers((1, 2, 4, 5, 4), 11),
    "ONE": numbers((1, 3, 1), 12), "E": numbers((0, 4), 13), "D": numbers((3, 4), 14).astype(np.float64),
    "Q": numbers((2, 2, 5, 4), 15), "K": numbers((2, 2, 3, 4), 16),
    "SPECIAL": np.array([np.nan, np.inf, -np.inf, 1.5], "f4"),
    "B": numbers((2, 4, 3), 17),
    "IDS": np.array([[0, 2, 1], [1, 1, 0]]), "I": np.array([2, 0, 1]), "N": np.array([[6, 5, 3], [1, 0, -7]]),
    "COL": np.array([[1, 0, 3, 2], [0, 0, 1, 1]]), "C": np.array([1, 0, 3]),
    "FLAGS": np.array([[True, False, True, True]] * 3),
    "M": np.array([[1, 2, 2], [3, 2, 1]], np.int32), "SIGNS": np.array([1.0, -1.0, 1.0], "f4"),
    "W4": positive((4,), 20), "W34": positive((3, 4), 21),
    "MIXED": np.array([[1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 1, 0]], "f4"),
}  # fmt: skip


CONSTANTS = ("SPECIAL", "MIXED", "SIGNS", "W4", "W34")  # floats without gradients


class Library:
    """A library under the name torch."""

    def __init__(self, name: str) -> None:
        self.is_torch = name == "torch"
        if self.is_torch:
            import torch
        else:
            import gabbro as torch
        self.torch: Any = torch

    def inputs(self, line: str) -> dict[str, Any]:
        made = {}
        for name, array in ARRAYS.items():
            if name in line:
                made[name] = self.torch.from_numpy(np.array(array))
        return made

    def run(self, line: str) -> dict[str, Any]:
        """{"values": [[dtype, shape, numbers]], "gradients": {name: numbers}}, or {"error": text}."""
        torch = self.torch
        names = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "optim": torch.optim, "np": np}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                inputs = self.inputs(line)
                for name, x in inputs.items():
                    if name not in CONSTANTS and x.dtype in (torch.float32, torch.float64):
                        x.requires_grad_()
                scope = {**names, **inputs}
                *before, last = line.split("; ")
                for statement in before:
                    exec(statement, scope)
                results = self.flat(eval(last, scope))
                return {"values": [self.stored(x) for x in results], "gradients": self.gradients(results, inputs)}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}

    def flat(self, value: Any) -> list[Any]:
        if value is None:
            return []
        if isinstance(value, (list, tuple)):
            return [x for item in value for x in self.flat(item)]
        return [value]

    def array(self, x: Any) -> np.ndarray:
        if isinstance(x, self.torch.Tensor):
            x = x.detach()
            return x.to(self.torch.float32).numpy() if x.dtype == self.torch.bfloat16 else x.numpy()
        return np.asarray(x)

    def stored(self, x: Any) -> list[Any]:
        is_tensor = isinstance(x, self.torch.Tensor)
        array = self.array(x)
        kind = str(x.dtype).split(".")[-1] if is_tensor else type(x).__name__
        if array.dtype.kind not in "fiub":
            return ["object", [], [str(x).replace("torch.", "").replace("gabbro.", "")]]
        values = array.reshape(-1).astype(np.float64 if array.dtype.kind == "f" else np.int64).tolist()
        return [kind, list(array.shape), [float(f"{v:.7g}") if array.dtype.kind == "f" else v for v in values]]

    def gradients(self, results: list[Any], inputs: dict[str, Any]) -> dict[str, Any]:
        """By the inputs, of the sum of all float results, each element times its own factor."""
        torch = self.torch
        total = None
        for number, x in enumerate(results):
            if isinstance(x, torch.Tensor) and x.requires_grad:
                factors = np.linspace(0.5, 1.5, int(np.prod(tuple(x.shape)))).reshape(tuple(x.shape)) + 0.1 * number
                part = (x * torch.tensor(factors.astype(np.float32)).to(x.dtype)).sum().to(torch.float32)
                total = part if total is None else total + part
        if total is None:
            return {}
        total.backward()
        return {
            name: [float(f"{v:.6g}") for v in self.array(x.grad).reshape(-1).astype(np.float64).tolist()]
            for name, x in inputs.items()
            if x.requires_grad and x.grad is not None
        }


def difference(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float = 3e-5) -> str | None:
    """None where they agree."""
    if "error" in theirs:
        return None if "error" in ours else f"an answer, where PyTorch has {theirs['error']}"
    if "error" in ours:
        return ours["error"]
    if len(ours["values"]) != len(theirs["values"]):
        return f"{len(ours['values'])} results instead of {len(theirs['values'])}"
    for number, (mine, wanted) in enumerate(zip(ours["values"], theirs["values"], strict=True)):
        if mine[:2] != wanted[:2]:
            return f"result {number} is {mine[:2]} instead of {wanted[:2]}"
        if mine[2] and isinstance(wanted[2][0], str):
            if mine[2] != wanted[2]:
                return f"result {number} is {mine[2]} instead of {wanted[2]}"
            continue
        loose = 1e-2 if mine[0] == "bfloat16" else 2e-3 if mine[0] == "float16" else tolerance
        text = apart(mine[2], wanted[2], loose)
        if text:
            return f"result {number}: {text}"
    for name, wanted in theirs["gradients"].items():
        text = apart(ours["gradients"].get(name, [0.0] * len(wanted)), wanted, 10 * tolerance)
        if text:
            return f"gradient by {name}: {text}"
    return None


def apart(mine: list[float], wanted: list[float], tolerance: float) -> str | None:
    a, b = np.asarray(mine, np.float64), np.asarray(wanted, np.float64)
    if a.shape != b.shape:
        return f"{a.size} elements instead of {b.size}"
    wrong = ~np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    if not wrong.any():
        return None
    at = int(np.argmax(wrong))
    return f"{a[at]} instead of {b[at]} at {at}"
