"""One program for two libraries: Gabbro and PyTorch, with the same numbers in parameters and inputs."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

ORDINARY = (TypeError, ValueError, AttributeError, IndexError, KeyError, RuntimeError, NotImplementedError,
            OverflowError, ZeroDivisionError, AssertionError)  # fmt: skip
Outcome = dict[str, Any]  # {"error": ...} or {"values": [...]}


class Side:
    """A library and its names."""

    def __init__(self, name: str) -> None:
        self.is_torch = name == "torch"
        if self.is_torch:
            import torch

            self.library: Any = torch
        else:
            import gabbro

            self.library = gabbro
        self.nn = self.library.nn
        self.functional = self.library.nn.functional
        self.optim = self.library.optim

    def tensor(self, array: np.ndarray, requires_grad: bool = False) -> Any:
        if self.is_torch:
            made = self.library.from_numpy(np.array(array))
            return made.requires_grad_(requires_grad)
        made = self.library.tensor(np.array(array))
        return made.requires_grad_() if requires_grad else made

    def array(self, value: Any) -> np.ndarray:
        return value.detach().numpy() if self.is_torch else value.numpy()


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Between -2 and 2, and none of them next to a place where functions have a kink."""
    drawn = np.random.default_rng(seed).uniform(0.05, 2, shape) * np.random.default_rng(seed + 1).choice([-1, 1], shape)
    return drawn.astype(np.float32)


def fill(side: Side, module: Any) -> None:
    """Gives parameters and buffers numbers that their names choose."""
    state = {}
    for name, tensor in module.state_dict().items():
        before = side.array(tensor)
        if before.dtype != np.float32:
            state[name] = tensor
            continue
        drawn = numbers(before.shape, zlib.crc32(name.encode()) % 1000) / 2
        state[name] = side.tensor(np.abs(drawn) + 0.1 if name.endswith("var") else drawn)
    module.load_state_dict(state)


def flat(side: Side, value: Any) -> list[np.ndarray]:
    """The arrays in a result: a tensor, an array, a number, or tuples and lists of them."""
    if value is None:
        return []
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, (list, tuple)):
        return [array for item in value for array in flat(side, item)]
    if isinstance(value, (bool, int, float)):
        return [np.asarray(value)]
    return [side.array(value)]


def outcome(side: Side, run: Callable[[], Any]) -> Outcome:
    """What a call gives, or the kind of its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {"values": [stored(array) for array in flat(side, run())]}
    except ORDINARY as error:
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"}


def stored(array: np.ndarray) -> Any:
    """Shape and numbers, with fewer digits than the comparison needs."""
    plain = array.astype(np.float64) if array.dtype.kind == "f" else array.astype(np.int64)
    values = plain.reshape(-1).tolist()
    return [list(array.shape), [float(f"{value:.6g}") if array.dtype.kind == "f" else value for value in values]]


def difference(ours: Outcome, theirs: Outcome, tolerance: float = 3e-5) -> str | None:
    """None if the results agree, or if Gabbro or PyTorch refuses the arguments."""
    if "refused" in theirs:
        return None if "error" in ours else "it is taken"
    if "error" in ours or "error" in theirs:
        return None
    if len(ours["values"]) != len(theirs["values"]):
        return f"{len(ours['values'])} results instead of {len(theirs['values'])}"
    for (shape, got), (wanted_shape, wanted) in zip(ours["values"], theirs["values"], strict=True):
        if shape != wanted_shape:
            return f"shape {shape} instead of {wanted_shape}"
        a, b = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
        wrong = ~np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        if wrong.any():
            at = int(np.argmax(wrong))
            return f"{a[at]} instead of {b[at]} at {at}"
    return None
