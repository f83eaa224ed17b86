"""Learning rates that change with the step, under the names of torch.optim.lr_scheduler."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .optimizer import Optimizer

Rate = Callable[[float, int], float]


def _number(name: str, value: Any, low: float, high: float = math.inf, *, above: bool = False) -> None:
    """Raises where a number is not within [low, high], or with `above` (low, high]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"[lr_scheduler] {name} is a number, not {value!r}")
    number = float(value)
    if not (low < number if above else low <= number) or not number <= high or math.isinf(number):
        raise ValueError(f"[lr_scheduler] {name} {value} is not in {'(' if above else '['}{low}, {high}]")


def _steps(name: str, value: Any, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"[lr_scheduler] {name} is a number of steps, not {value!r}")
    if value < least:
        raise ValueError(f"[lr_scheduler] {name} {value} is below {least}")


class _Formula:
    """A rate that C++ computes, and what it was made with: so it can be pickled."""

    def __init__(self, name: str, *arguments: Any) -> None:
        self._made_with = (name, *arguments)
        self._schedule = getattr(_core, name)(*arguments)

    def __call__(self, base: float, step: int) -> float:
        rate: float = self._schedule(base, step)
        return rate

    def __reduce__(self) -> tuple[Any, ...]:
        return _formula, self._made_with


def _formula(name: str, *arguments: Any) -> _Formula:
    if name not in ("_constant_lr", "_linear_lr", "_step_lr", "_multi_step_lr", "_exponential_lr", "_polynomial_lr",
                    "_cosine_lr", "_cosine_restarts_lr", "_one_cycle_lr"):  # fmt: skip
        raise ValueError(f"[unpickle] there is no schedule {name!r}")
    return _Formula(name, *arguments)


class _Scaled:
    def __init__(self, factor: Callable[[int], float]) -> None:
        self._factor = factor

    def __call__(self, base: float, step: int) -> float:
        return base * self._factor(step)


class _Sequence:
    def __init__(self, rates: list[Rate], starts: list[int]) -> None:
        self._rates = rates
        self._starts = starts

    def __call__(self, base: float, step: int) -> float:
        last = max(i for i, start in enumerate(self._starts) if step >= start)
        return self._rates[last](base, step - self._starts[last])


class LRScheduler:
    """Sets the rates of an optimizer's groups: at once those of step 0, and with each `step` the next.

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
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"[lr_scheduler] a {type(optimizer).__name__} is not an optimizer")
        if not callable(rate):
            raise TypeError(f"[lr_scheduler] {rate!r} is not a function of a rate and a step")
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
        if not callable(lr_lambda):
            raise TypeError(f"[lr_scheduler] {lr_lambda!r} is not a function of a step")
        super().__init__(optimizer, _Scaled(lr_lambda))


class ConstantLR(LRScheduler):
    """The own rate times `factor` in the first `total_iters` steps."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5) -> None:
        _number("factor", factor, 0, 1)
        _steps("total_iters", total_iters, 0)
        super().__init__(optimizer, _Formula("_constant_lr", factor, total_iters))


class LinearLR(LRScheduler):
    """The own rate times a factor that goes from the first to the last in `total_iters` steps."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5
    ) -> None:
        _number("start_factor", start_factor, 0, 1, above=True)
        _number("end_factor", end_factor, 0, 1)
        _steps("total_iters", total_iters)
        super().__init__(optimizer, _Formula("_linear_lr", start_factor, end_factor, total_iters))


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        _steps("step_size", step_size)
        _number("gamma", gamma, 0)
        super().__init__(optimizer, _Formula("_step_lr", step_size, gamma))


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the milestones."""

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        for milestone in milestones:
            _steps("a milestone", milestone, 0)
        _number("gamma", gamma, 0)
        super().__init__(optimizer, _Formula("_multi_step_lr", list(milestones), gamma))


class ExponentialLR(LRScheduler):
    """Times `gamma` in each step."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        _number("gamma", gamma, 0)
        super().__init__(optimizer, _Formula("_exponential_lr", gamma))


class PolynomialLR(LRScheduler):
    """The own rate times (1 - step / total_iters) ** power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        _steps("total_iters", total_iters)
        _number("power", power, 0)
        super().__init__(optimizer, _Formula("_polynomial_lr", total_iters, power))


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the own rate down to `eta_min` in `T_max` steps (Loshchilov and Hutter 2017)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        _steps("T_max", T_max)
        _number("eta_min", eta_min, 0)
        super().__init__(optimizer, _Formula("_cosine_lr", T_max, eta_min))


class CosineAnnealingWarmRestarts(LRScheduler):
    """The same again and again, each time `T_mult` times as long."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:
        _steps("T_0", T_0)
        _steps("T_mult", T_mult)
        _number("eta_min", eta_min, 0)
        super().__init__(optimizer, _Formula("_cosine_restarts_lr", T_0, T_mult, eta_min))


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
        _number("max_lr", max_lr, 0)
        _steps("total_steps", total_steps)
        _number("pct_start", pct_start, 0, 1)
        _number("div_factor", div_factor, 0, above=True)
        _number("final_div_factor", final_div_factor, 0, above=True)
        super().__init__(
            optimizer, _Formula("_one_cycle_lr", max_lr, total_steps, pct_start, div_factor, final_div_factor)
        )


class SequentialLR(LRScheduler):
    """One scheduler after another: number i ends at milestone i, where the next begins at its step 0."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]) -> None:
        if len(schedulers) != len(milestones) + 1 or list(milestones) != sorted(milestones):
            raise ValueError(f"[lr_scheduler] {len(schedulers)} schedulers and {len(milestones)} milestones")
        for scheduler in schedulers:
            if not isinstance(scheduler, LRScheduler):
                raise TypeError(f"[lr_scheduler] a {type(scheduler).__name__} is not a scheduler of rates by steps")
            if scheduler.optimizer is not optimizer:
                raise ValueError("[lr_scheduler] the schedulers are of different optimizers")
        for milestone in milestones:
            _steps("a milestone", milestone, 0)
        super().__init__(optimizer, _Sequence([scheduler.rate for scheduler in schedulers], [0, *milestones]))


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
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"[lr_scheduler] a {type(optimizer).__name__} is not an optimizer")
        self.optimizer = optimizer
        self._options = (mode == "min", factor, patience, cooldown, threshold, min_lr)
        self._scheduler = _core._PlateauScheduler(optimizer._optimizer, *self._options)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_scheduler": self._scheduler._state()}

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict) or not {"optimizer", "_options", "_scheduler"} <= state.keys():
            raise ValueError(f"[unpickle] this is not the state of a {type(self).__name__}")
        vars(self).update(state)
        self._scheduler = _core._PlateauScheduler(self.optimizer._optimizer, *self._options)
        self._scheduler._set_state(*state["_scheduler"])

    def step(self, metrics: float) -> None:
        """Looks at the measure of one more step."""
        self._scheduler.step(float(metrics))
        for i, group in enumerate(self.optimizer.param_groups):
            group["lr"] = self.optimizer._optimizer.lr(i)

    def get_last_lr(self) -> list[float]:
        """The rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]
