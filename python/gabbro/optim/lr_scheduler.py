"""Learning rates that change with the step, under the names of torch.optim.lr_scheduler.

Most schedulers multiply the rates that are there: several of them work on one optimizer, and a rate that was set by
hand is what they go on from. `LambdaLR`, `CosineAnnealingWarmRestarts` and `OneCycleLR` replace the rates, as in torch.
"""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .checks import finite_number, number, steps
from .more_schedulers import ChainedScheduler as ChainedScheduler
from .more_schedulers import CyclicLR as CyclicLR
from .more_schedulers import MultiplicativeLR as MultiplicativeLR
from .one_cycle import OneCycleLR as OneCycleLR
from .optimizer import Optimizer
from .plateau import ReduceLROnPlateau as ReduceLROnPlateau
from .scheduler import LRScheduler as LRScheduler


class LambdaLR(LRScheduler):
    """The first rate times what a function gives for the number of the step; one function, or one for each group."""

    _fixed = frozenset({"lr_lambda"})

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        several = isinstance(lr_lambda, (list, tuple))
        groups = len(getattr(optimizer, "param_groups", ()))
        functions: list[Callable[[int], float]] = list(lr_lambda) if several else [lr_lambda] * groups  # type: ignore[arg-type,list-item]
        for function in functions if several else [lr_lambda]:
            if not callable(function):
                raise TypeError(f"[lr_scheduler] {function!r} is not a function of a step")
        if isinstance(optimizer, Optimizer) and len(functions) != groups:
            raise ValueError(f"[lr_scheduler] {len(functions)} functions for {groups} groups")
        self.lr_lambda = lr_lambda
        self.lr_lambdas = functions
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The first rates times the functions' factors."""
        return [base * factor(self.last_epoch) for factor, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """The state; of functions that are objects their attributes, and None for the others."""
        hidden = ("lr_lambda", "lr_lambdas")
        state = {name: value for name, value in super().state_dict().items() if name not in hidden}
        plain = (types.FunctionType, types.BuiltinFunctionType)
        return state | {"lr_lambdas": [None if isinstance(f, plain) else dict(vars(f)) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state; functions stay those that are here."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict.get("lr_lambdas", []), strict=False):
            if attributes is not None:
                vars(function).update(attributes)


class _Multiplied(LRScheduler):
    """Each step multiplies the rates that are there by a factor."""

    def _factor(self) -> float:
        raise NotImplementedError

    def _share(self) -> float:
        """The rate at `last_epoch` as a multiple of the first one, where nothing else changes it."""
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        """The rates that are there, times the factor of this step."""
        factor = self._factor()
        return [rate * factor for rate in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self._share() for base in self.base_lrs]


class ConstantLR(_Multiplied):
    """The rate times `factor` in the first `total_iters` steps."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        number("factor", factor, 0, 1)
        steps("total_iters", total_iters, 0)
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates that are there, times the factor of this step."""
        if self.factor == 0 and self.last_epoch == self.total_iters > 0:  # which no factor undoes
            return list(self.base_lrs)
        return super().get_lr()

    def _factor(self) -> float:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 if self.last_epoch != self.total_iters else 1.0 / self.factor

    def _share(self) -> float:
        return self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)


class LinearLR(_Multiplied):
    """The rate times a factor that goes from the first to the last in `total_iters` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        number("start_factor", start_factor, 0, 1, above=True)
        number("end_factor", end_factor, 0, 1)
        steps("total_iters", total_iters)
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        change = self.end_factor - self.start_factor
        return 1.0 + change / (self.total_iters * self.start_factor + (self.last_epoch - 1) * change)

    def _share(self) -> float:
        change = self.end_factor - self.start_factor
        return self.start_factor + change * min(self.total_iters, self.last_epoch) / self.total_iters


class StepLR(_Multiplied):
    """Times `gamma` every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        steps("step_size", step_size)
        number("gamma", gamma, 0)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return 1.0 if self.last_epoch == 0 or self.last_epoch % self.step_size != 0 else self.gamma

    def _share(self) -> float:
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_Multiplied):
    """Times `gamma` at each of the milestones."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        given = list(milestones)
        for milestone in given:
            steps("a milestone", milestone, 0)
        number("gamma", gamma, 0)
        self.milestones = Counter(given)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return self.gamma ** Counter(self.milestones)[self.last_epoch]

    def _share(self) -> float:
        return self.gamma ** bisect_right(sorted(Counter(self.milestones).elements()), self.last_epoch)


class ExponentialLR(_Multiplied):
    """Times `gamma` in each step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        number("gamma", gamma, 0)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return 1.0 if self._is_initial else self.gamma

    def _share(self) -> float:
        return self.gamma**self.last_epoch


class PolynomialLR(_Multiplied):
    """The rate times (1 - step / total_iters) ** power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        steps("total_iters", total_iters)
        number("power", power, 0)
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _left(self, epoch: int) -> float:
        return 1.0 - epoch / self.total_iters

    def _factor(self) -> float:
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        factor: float = (self._left(self.last_epoch) / self._left(self.last_epoch - 1)) ** self.power
        return factor

    def _share(self) -> float:
        share: float = self._left(min(self.total_iters, self.last_epoch)) ** self.power
        return share


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate down to `eta_min` in `T_max` steps (Loshchilov and Hutter 2017)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        steps("T_max", T_max)
        finite_number("eta_min", eta_min)
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch: int) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def get_lr(self) -> list[float]:
        """The rates that are there, moved along the cosine."""
        if self._is_initial:
            return self._current()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the cosine was 0: there is no ratio
            up = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - self.eta_min) * up for rate, base in zip(self._current(), self.base_lrs, strict=True)
            ]
        ratio = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [ratio * (rate - self.eta_min) + self.eta_min for rate in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        height = self._height(self.last_epoch)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The same again and again, each time `T_mult` times as long. It replaces the rates."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        steps("T_0", T_0)
        steps("T_mult", T_mult)
        finite_number("eta_min", eta_min)
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at this point of the cosine."""
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Sets the rates of the next step, or of step `epoch`, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._restart(epoch)
        self.last_epoch = math.floor(epoch)
        self._assign(self.get_lr())

    def _restart(self, epoch: float) -> None:
        """The cosine that step `epoch` is in, and where in it."""
        if epoch < 0:
            raise ValueError(f"[lr_scheduler] step {epoch} is below 0")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**restarts


class SequentialLR(LRScheduler):
    """One scheduler after another: number i ends at milestone i, where the next begins at its step 0."""

    _fixed = frozenset({"schedulers", "milestones"})

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if len(schedulers) != len(milestones) + 1 or list(milestones) != sorted(milestones):
            raise ValueError(f"[lr_scheduler] {len(schedulers)} schedulers and {len(milestones)} milestones")
        for scheduler in schedulers:
            if not isinstance(scheduler, LRScheduler):
                raise TypeError(f"[lr_scheduler] a {type(scheduler).__name__} is not a scheduler of rates by steps")
            if scheduler.optimizer is not optimizer:
                raise ValueError("[lr_scheduler] the schedulers are of different optimizers")
        for milestone in milestones:
            steps("a milestone", milestone, 0)
        self.schedulers = self._schedulers = list(schedulers)
        self.milestones = self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self._undo()
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def _undo(self) -> None:
        """Takes back the first steps of the schedulers."""
        for scheduler in self._schedulers:
            if isinstance(scheduler, SequentialLR):
                scheduler._undo()
            else:
                scheduler.last_epoch -= 1

    def step(self, epoch: int | None = None) -> None:
        """Sets the rates of the next step."""
        if epoch is not None:
            raise TypeError("[lr_scheduler] a SequentialLR takes one step after another")
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._go_to(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """The state, with the states of the schedulers."""
        hidden = ("schedulers", "milestones", "_schedulers")
        state = {name: value for name, value in super().state_dict().items() if name not in hidden}
        return state | {"_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state, with the schedulers."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)
