"""Muon (Jordan et al. 2024): momentum whose matrices are made nearly orthogonal."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Tensor
from .engine import FormulaOptimizer, State
from .optimizers import Parameters


def _rounded(x: Tensor) -> Tensor:
    return x.astype(_core.bfloat16).astype(_core.float32)


def _orthogonal(g: Tensor, factors: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """A matrix with singular values near 1: Newton and Schulz's iteration, whose steps are rounded to bfloat16."""
    a, b, c = factors
    is_tall = g.shape[0] > g.shape[1]
    x = _rounded(g.T if is_tall else g)
    norm = _rounded(_core.sqrt(_core.sum(_core.square(x))))
    x = _rounded(x / _core.clip(norm, eps))
    for _ in range(steps):
        gram = _rounded(x @ x.T)
        update = _rounded(gram * b + gram @ gram * c)
        x = _rounded(x * a + update @ x)
    return x.T if is_tall else x


class Muon(FormulaOptimizer):
    """b = β · b + (1 - β) · g, with Nesterov's form; p -= lr · scale · orthogonal(b), for matrices alone.

    `adjust_lr_fn`: ``"original"`` or None scales by sqrt(max(1, rows / columns)), ``"match_rms_adamw"`` by
    0.2 · sqrt(max(rows, columns)).

    >>> weight = gb.nn.Parameter(gb.ones((2, 2)))
    >>> optimizer = gb.optim.Muon([weight], lr=0.1)
    >>> (3 * weight).sum().backward()
    >>> optimizer.step()
    >>> bool((weight < 1).all())
    True
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        options = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
            "maximize": False,
        }
        super().__init__(params, options)

    @classmethod
    def _check_options(cls, groups: list[dict[str, Any]]) -> None:
        super()._check_options(groups)
        for group in groups:
            if group["momentum"] < 0:
                raise ValueError(f"[optim] momentum of a Muon is {group['momentum']}")
            if group["ns_steps"] >= 100 or len(group["ns_coefficients"]) != 3:
                raise ValueError("[optim] a Muon has fewer than 100 ns_steps and three ns_coefficients")
            if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
                raise ValueError(f"[optim] adjust_lr_fn of a Muon is {group['adjust_lr_fn']!r}")
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(f"[optim] Muon is for matrices, not for a parameter of shape {parameter.shape}")

    @staticmethod
    def _initial(p: Tensor, group: dict[str, Any]) -> State:
        return {"momentum_buffer": _core.zeros_like(p)}

    @staticmethod
    def _moved(p: Tensor, g: Tensor, group: dict[str, Any], state: State) -> Any:
        beta, lr = group["momentum"], group["lr"]
        buffer = state["momentum_buffer"] + (g - state["momentum_buffer"]) * (1 - beta)
        state["momentum_buffer"] = buffer
        update = g + (buffer - g) * beta if group["nesterov"] else buffer
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            scale = 0.2 * math.sqrt(max(rows, columns))
        else:
            scale = math.sqrt(max(1, rows / columns))
        return p * (1 - lr * group["weight_decay"]) - update.astype(p.dtype) * (lr * scale)
