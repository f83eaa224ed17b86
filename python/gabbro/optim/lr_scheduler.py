"""Learning rates that change with the step, under the names of torch.optim.lr_scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .optimizer import Optimizer

Rate = Callable[[float, int], float]


class LRScheduler:
    """Sets the rates of an optimiser's groups: at once those of step 0, and with each `step` the next.

    Parameters
    ----------
    optimizer : Optimizer
    rate : callable
        Of a group's own rate and the number of the step; it gives the rate.

    >>> optimizer = gb.optim.SGD([gb.nn.Parameter(gb.ones(1))], lr=1.0)
    >>> scheduler = gb.optim.lr_scheduler.LRScheduler(optimizer, lambda base, step: base / (step + 1))
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, rate: Rate) -> None:
        self.optimizer = optimizer
        self.rate = rate
        self.base_lrs: list[float] = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self._set(0)

    def _set(self, step: int) -> None:
        self.last_epoch = step
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = self.rate(base, step)

    def step(self) -> None:
        """Sets the rates of the next step."""
        self._set(self.last_epoch + 1)

    def get_last_lr(self) -> list[float]:
        """The rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` goes on from."""
        return {"last_epoch": self.last_epoch, "base_lrs": self.base_lrs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state, and sets its rates."""
        self.base_lrs = list(state_dict["base_lrs"])
        self._set(state_dict["last_epoch"])


class LambdaLR(LRScheduler):
    """The own rate times what a function gives for the number of the step."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float]) -> None:
        super().__init__(optimizer, lambda base, step: base * lr_lambda(step))


class ConstantLR(LRScheduler):
    """The own rate times `factor` in the first `total_iters` steps."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5) -> None:
        super().__init__(optimizer, _core._constant_lr(factor, total_iters))


class LinearLR(LRScheduler):
    """The own rate times a factor that goes from the first to the last in `total_iters` steps."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5
    ) -> None:
        super().__init__(optimizer, _core._linear_lr(start_factor, end_factor, total_iters))


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        super().__init__(optimizer, _core._step_lr(step_size, gamma))


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the milestones."""

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        super().__init__(optimizer, _core._multi_step_lr(list(milestones), gamma))


class ExponentialLR(LRScheduler):
    """Times `gamma` in each step."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        super().__init__(optimizer, _core._exponential_lr(gamma))


class PolynomialLR(LRScheduler):
    """The own rate times (1 - step / total_iters) ** power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        super().__init__(optimizer, _core._polynomial_lr(total_iters, power))


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the own rate down to `eta_min` in `T_max` steps (Loshchilov and Hutter 2017)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        super().__init__(optimizer, _core._cosine_lr(T_max, eta_min))


class CosineAnnealingWarmRestarts(LRScheduler):
    """The same again and again, each time `T_mult` times as long."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:
        super().__init__(optimizer, _core._cosine_restarts_lr(T_0, T_mult, eta_min))


class OneCycleLR(LRScheduler):
    """Up to `max_lr` and down to next to nothing, by cosines (Smith and Topin 2018)."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float,
        total_steps: int,
        pct_start: float = 0.3,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:
        super().__init__(optimizer, _core._one_cycle_lr(max_lr, total_steps, pct_start, div_factor, final_div_factor))


class SequentialLR(LRScheduler):
    """One scheduler after another: number i ends at milestone i, where the next begins at its step 0."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]) -> None:
        if len(schedulers) != len(milestones) + 1:
            raise ValueError(f"[lr_scheduler] {len(schedulers)} schedulers and {len(milestones)} milestones")
        starts = [0, *milestones]
        rates = [scheduler.rate for scheduler in schedulers]

        def rate(base: float, step: int) -> float:
            last = max(i for i, start in enumerate(starts) if step >= start)
            return rates[last](base, step - starts[last])

        super().__init__(optimizer, rate)


class ReduceLROnPlateau:
    """Multiplies the rates by a factor when a measure, which is given to `step`, has stopped getting better."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"[lr_scheduler] mode is 'min' or 'max', not '{mode}'")
        self.optimizer = optimizer
        self._scheduler = _core._PlateauScheduler(
            optimizer._optimiser, mode == "min", factor, patience, cooldown, threshold, min_lr
        )

    def step(self, metrics: float) -> None:
        """Looks at the measure of one more step."""
        self._scheduler.step(float(metrics))
        for i, group in enumerate(self.optimizer.param_groups):
            group["lr"] = self.optimizer._optimiser.lr(i)

    def get_last_lr(self) -> list[float]:
        """The rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]
