"""L-BFGS: steps along the inverse of an approximate Hessian, from the last gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Tensor
from ..nn.utils.vectors import vector_to_parameters
from .engine import FormulaOptimizer, State
from .optimizers import Parameters


class LBFGS(FormulaOptimizer):
    """Liu and Nocedal 1989, without a line search: a step calls the closure up to `max_iter` times.

    Parameters
    ----------
    params : iterable of Tensor
        One group.
    lr : float
    max_iter : int
        Iterations of a step.
    max_eval : int, optional
        Calls of the closure in a step; without it max_iter · 5 / 4.
    tolerance_grad, tolerance_change : float
        A step ends where the largest gradient, or the change, is smaller.
    history_size : int
    line_search_fn : str, optional
        ``"strong_wolfe"`` is not supported.

    >>> weight = gb.nn.Parameter(gb.tensor([1.0]))
    >>> optimizer = gb.optim.LBFGS([weight], lr=0.5)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (weight * weight).sum()
    ...     loss.backward()
    ...     return loss
    >>> float(optimizer.step(closure))
    1.0
    >>> abs(weight.item()) < 1e-3
    True
    """

    _numbers = ()

    def __init__(
        self,
        params: Parameters,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn is not None:
            raise ValueError(f"[LBFGS] line_search_fn={line_search_fn!r} is not supported: None")
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
                "maximize": False,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError("[LBFGS] parameters are in one group")
        self._memory: dict[str, Any] = {"iterations": 0, "calls": 0}

    @staticmethod
    def _initial(p: Tensor, group: dict[str, Any]) -> State:
        return {}

    def _gradient(self) -> Tensor:
        parts = []
        for parameter in self.param_groups[0]["params"]:
            gradient = parameter.grad
            parts.append(_core.reshape(_core.zeros_like(parameter) if gradient is None else gradient, -1))
        return _core.concat([part.detach() for part in parts], 0).eval()

    def _direction(self, gradient: Tensor) -> Tensor:
        """-H · gradient, by the two loops."""
        memory = self._memory
        changes, steps, shares = memory["old_dirs"], memory["old_stps"], memory["ro"]
        q: Tensor = -gradient
        alphas: list[float] = []
        for change, step, share in reversed(list(zip(changes, steps, shares, strict=True))):
            alpha = float(_core.sum(step * q)) * share
            alphas.append(alpha)
            q = q - alpha * change
        r: Tensor = q * memory["H_diag"]
        for change, step, share, alpha in zip(changes, steps, shares, reversed(alphas), strict=True):
            beta = float(_core.sum(change * r)) * share
            r = r + step * (alpha - beta)
        return r.eval()

    def _remember(self, gradient: Tensor, group: dict[str, Any]) -> None:
        memory = self._memory
        change = gradient - memory["gradient"]
        step = memory["d"] * memory["t"]
        curvature = float(_core.sum(change * step))
        if curvature <= 1e-10:
            return
        for name, value in (("old_dirs", change), ("old_stps", step), ("ro", 1 / curvature)):
            if len(memory[name]) == group["history_size"]:
                memory[name].pop(0)
            memory[name].append(value)
        memory["H_diag"] = curvature / float(_core.sum(change * change))

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Up to `max_iter` steps; the closure computes the loss and its gradients. The result is the first loss."""
        if closure is None:
            raise TypeError("[LBFGS] a step needs a closure, which computes the loss and its gradients")
        self._read_groups()
        group, memory = self.param_groups[0], self._memory
        first = closure()
        loss, calls, rounds = float(first), 1, 0
        memory["calls"] += 1
        gradient = self._gradient()
        if _largest(gradient) <= group["tolerance_grad"]:
            return first
        while rounds < group["max_iter"]:
            rounds += 1
            memory["iterations"] += 1
            if memory["iterations"] == 1:
                memory.update(d=-gradient, old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            else:
                self._remember(gradient, group)
                memory["d"] = self._direction(gradient)
            memory["gradient"], previous = gradient, loss
            first_step = memory["iterations"] == 1
            size = float(_core.sum(_core.abs(gradient)))
            memory["t"] = (min(1.0, 1 / size) if size else 1.0) * group["lr"] if first_step else group["lr"]
            slope = float(_core.sum(gradient * memory["d"]))
            if slope > -group["tolerance_change"]:
                break
            self._move(memory["d"] * memory["t"])
            if rounds != group["max_iter"]:
                loss = float(closure())
                gradient = self._gradient()
                calls += 1
                memory["calls"] += 1
            if rounds == group["max_iter"] or calls >= group["max_eval"]:
                break
            small = _largest(memory["d"] * memory["t"]) <= group["tolerance_change"]
            if _largest(gradient) <= group["tolerance_grad"] or small:
                break
            if math.isnan(loss) or abs(loss - previous) < group["tolerance_change"]:
                break
        return first

    def _move(self, change: Tensor) -> None:
        parameters = self.param_groups[0]["params"]
        vector = _core.concat([_core.reshape(parameter.detach(), -1) for parameter in parameters], 0)
        vector_to_parameters((vector + change).eval(), parameters)

    def state_dict(self) -> dict[str, Any]:
        """The groups, and the memory of the last steps under ``"state"``."""
        return {**super().state_dict(), "state": {0: dict(self._memory)}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state."""
        super().load_state_dict({**state_dict, "state": {}})
        self._memory = {
            name: list(value) if isinstance(value, list) else value for name, value in state_dict["state"][0].items()
        }


def _largest(x: Tensor) -> float:
    return float(_core.max(_core.abs(x)))
