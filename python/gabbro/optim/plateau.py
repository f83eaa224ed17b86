"""The schedule that follows a measure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .checks import at_least, finite_number, number, of_groups
from .optimizer import Optimizer


class ReduceLROnPlateau:
    """Multiplies the rates by a factor when a measure, which is given to `step`, has stopped getting better.

    Parameters
    ----------
    optimizer : Optimizer
    mode : str
        ``"min"``: the smaller, the better; or ``"max"``.
    factor : float
    patience : int
        Steps without progress that are borne.
    threshold : float
    threshold_mode : str
        The best value has to be bettered by this share of it (``"rel"``) or by this amount (``"abs"``).
    cooldown : int
        Steps after a reduction that are not counted.
    min_lr : float, or one for each group
    eps : float
        Smaller changes of a rate are not made.

    >>> optimizer = gb.optim.SGD([gb.nn.Parameter(gb.ones(1))], lr=1.0)
    >>> scheduler = gb.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    >>> for loss in (2.0, 1.0, 1.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"[lr_scheduler] mode is 'min' or 'max', not '{mode}'")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"[lr_scheduler] threshold_mode is 'rel' or 'abs', not {threshold_mode!r}")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"[lr_scheduler] a {type(optimizer).__name__} is not an optimizer")
        number("factor", factor, 0, 1, above=True)
        if factor == 1:
            raise ValueError("[lr_scheduler] a factor of 1 reduces nothing")
        at_least("patience", patience, 0)
        at_least("cooldown", cooldown, 0)
        finite_number("threshold", threshold)
        number("eps", eps, 0)
        self.min_lrs = of_groups("min_lr", min_lr, len(optimizer.param_groups))
        for least in self.min_lrs:
            number("min_lr", least, 0)
        self.optimizer = optimizer
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    @property
    def min_lr(self) -> list[float]:
        """The least rate of each group."""
        return self.min_lrs

    @min_lr.setter
    def min_lr(self, value: float | Sequence[float]) -> None:
        self.min_lrs = of_groups("min_lr", value, len(self.optimizer.param_groups))

    def _is_better(self, value: float) -> bool:
        down = self.mode == "min"
        change = -self.threshold if down else self.threshold
        limit = self.best + change if self.threshold_mode == "abs" else self.best * (1 + change)
        return value < limit if down else value > limit

    def step(self, metrics: float, epoch: int | None = None) -> None:
        """Looks at the measure of one more step."""
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                rate = max(group["lr"] * self.factor, least)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """The rates that the last step has left."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` goes on from: all attributes but the optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state. The rates are part of the optimizer's state."""
        vars(self).update(state_dict)
