"""Schedulers with a function for the factor, with cycles of rates, and several at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .checks import of_groups, steps
from .optimizer import Optimizer
from .scheduler import LRScheduler


class MultiplicativeLR(LRScheduler):
    """The rate that is there times what a function gives for the number of the step."""

    _fixed = frozenset({"lr_lambda"})

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(getattr(optimizer, "param_groups", ()))
        self.lr_lambda = lr_lambda
        self.lr_lambdas: list[Any] = of_groups("lr_lambda", lr_lambda, groups)
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"[lr_scheduler] {function!r} is not a function of a step")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates that are there, times the functions' factors."""
        if self._is_initial:
            return self._current()
        return [rate * factor(self.last_epoch) for factor, rate in zip(self.lr_lambdas, self._current(), strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """The state without the functions."""
        hidden = ("lr_lambda", "lr_lambdas")
        return {name: value for name, value in super().state_dict().items() if name not in hidden}


class CyclicLR(LRScheduler):
    """Between `base_lr` and `max_lr` and back, again and again; the momentum the other way (Smith 2017)."""

    _fixed = frozenset({"base_lr", "max_lr", "step_size_up", "step_size_down", "mode", "scale_fn", "scale_mode"})

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"[lr_scheduler] a {type(optimizer).__name__} is not an optimizer")
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"[lr_scheduler] mode is 'triangular', 'triangular2' or 'exp_range', not {mode!r}")
        steps("step_size_up", step_size_up)
        down = step_size_up if step_size_down is None else step_size_down
        steps("step_size_down", down)
        groups = optimizer.param_groups
        self.base_lr, self.max_lr, self.mode, self.gamma = base_lr, max_lr, mode, gamma
        self.step_size_up, self.step_size_down = step_size_up, step_size_down
        self.scale_fn, self.scale_mode = scale_fn, scale_mode if scale_fn is not None else ""
        self.cycle_momentum = cycle_momentum
        self.total_size, self.step_ratio = float(step_size_up + down), step_size_up / (step_size_up + down)
        self.max_lrs = of_groups("max_lr", max_lr, len(groups))
        self.use_beta1 = "betas" in optimizer.defaults
        if cycle_momentum:
            if not self.use_beta1 and "momentum" not in optimizer.defaults:
                raise ValueError(f"[lr_scheduler] {type(optimizer).__name__} has no momentum: cycle_momentum=False")
            self.base_momentums = of_groups("base_momentum", base_momentum, len(groups))
            self.max_momentums = of_groups("max_momentum", max_momentum, len(groups))
        if last_epoch == -1:
            for group, rate in zip(groups, of_groups("base_lr", base_lr, len(groups)), strict=True):
                group["lr"] = group["initial_lr"] = rate
        super().__init__(optimizer, last_epoch)

    def _scale(self, cycle: float) -> float:
        if self.scale_fn is not None:
            return self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (cycle - 1) if self.mode == "triangular2" else float(self.gamma**self.last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at this point of the cycle; sets the momenta."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self._scale(cycle)
        if self.cycle_momentum:
            for group, base, most in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                momentum = most - (most - base) * height * scale
                if self.use_beta1:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return [base + (most - base) * height * scale for base, most in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """The state without the function."""
        return {name: value for name, value in super().state_dict().items() if name != "scale_fn"}


class ChainedScheduler(LRScheduler):
    """Several schedulers that step together, each from the rates that the one before leaves."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError("[lr_scheduler] there are no schedulers")
        chosen = optimizer or schedulers[0].optimizer
        for scheduler in schedulers:
            if scheduler.optimizer is not chosen:
                raise ValueError("[lr_scheduler] the schedulers are of different optimizers")
        self._schedulers = list(schedulers)
        self.optimizer = chosen
        self.last_epoch = 0
        self.base_lrs = [group["initial_lr"] for group in chosen.param_groups]
        self._last_lr = self._current()

    def step(self, epoch: int | None = None) -> None:
        """Sets the rates of the next step."""
        if epoch is not None:
            raise TypeError("[lr_scheduler] a ChainedScheduler takes one step after another")
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()

    def state_dict(self) -> dict[str, Any]:
        """The state, with the schedulers' states."""
        state = {name: value for name, value in super().state_dict().items() if name != "_schedulers"}
        return state | {"_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state, with the schedulers."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)
