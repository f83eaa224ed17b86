"""What the schedulers have in common: steps, the rates of the groups, states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .checks import at_least
from .optimizer import Optimizer

Rate = Callable[[float, int], float]


class LRScheduler:
    """Sets the rates of an optimizer's groups: immediately for step 0, and with each `step` for the next.

    Parameters
    ----------
    optimizer : Optimizer
    rate : callable, optional
        Of a group's first rate and the number of the step; it gives the rate. A class that is derived from this one has
        a method ``get_lr`` instead, which gives the rates of all groups. A number here is `last_epoch`.
    last_epoch : int
        The step to go on from. -1 begins, and notes the groups' rates as ``initial_lr``; for another one they have it.

    Attributes
    ----------
    last_epoch : int
        The number of the step.
    base_lrs : list of float
        The first rates of the groups.

    Raises
    ------
    KeyError
        With `last_epoch`, for groups without ``initial_lr``.

    >>> optimizer = gb.optim.SGD([gb.nn.Parameter(gb.ones(1))], lr=1.0)
    >>> scheduler = gb.optim.lr_scheduler.LRScheduler(optimizer, lambda base, step: base / (step + 1))
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    # Arguments whose effect ends with the constructor: they can be read, and setting them raises AttributeError.
    _fixed: frozenset[str] = frozenset()
    _is_initial = False

    def __init__(self, optimizer: Optimizer, rate: Rate | int | None = None, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"[lr_scheduler] a {type(optimizer).__name__} is not an optimizer")
        if isinstance(rate, int) and not isinstance(rate, bool):
            last_epoch, rate = rate, None
        if rate is not None and not callable(rate):
            raise TypeError(f"[lr_scheduler] {rate!r} is not a function of a rate and a step")
        if rate is not None:
            self.rate = rate
        at_least("last_epoch", last_epoch, -1)
        self.optimizer = optimizer
        for position, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(f"[lr_scheduler] group {position} has no 'initial_lr': last_epoch={last_epoch} needs it")
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._fixed and name in vars(self) and vars(self)[name] is not value:
            raise AttributeError(f"[lr_scheduler] {name} of a {type(self).__name__} is chosen when it is made")
        super().__setattr__(name, value)

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[float]:
        """The rates of the groups at step `last_epoch`; classes that are derived have their own."""
        rate = vars(self).get("rate")
        if rate is None:
            raise NotImplementedError(f"[lr_scheduler] a {type(self).__name__} has no get_lr")
        return [rate(base, self.last_epoch) for base in self.base_lrs]

    def _current(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Sets the rates of the next step, or of step `epoch`."""
        self._step_count += 1
        self._go_to(epoch)

    def _go_to(self, epoch: int | None) -> None:
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            rates = closed() if closed is not None else self.get_lr()
        self._assign(rates)

    def _assign(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._current()

    def get_last_lr(self) -> list[float]:
        """The rates that the last step has set."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` goes on from: all attributes but the optimizer."""
        return {name: value for name, value in vars(self).items() if name not in ("optimizer", "rate")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state. The rates are part of the optimizer's state."""
        vars(self).update(state_dict)
