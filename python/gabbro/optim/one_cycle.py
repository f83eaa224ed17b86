"""The schedule of one cycle, of rates and momenta."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .checks import finite_number, number, of_groups, steps
from .optimizer import Optimizer
from .scheduler import LRScheduler

# The last step of a phase, and the names of a group's numbers that it leads from and to: rates, momenta.
Phase = tuple[float, tuple[str, str], tuple[str, str]]


class OneCycleLR(LRScheduler):
    """Up to `max_lr` and down to next to nothing (Smith and Topin 2018); the momentum, or first beta, the other way.

    Parameters
    ----------
    optimizer : Optimizer
    max_lr : float, or one for each group
    total_steps : int, optional
        Or `epochs` and `steps_per_epoch`, whose product it is.
    pct_start : float
        The share of the steps in which the rate rises.
    anneal_strategy : str
        ``"cos"`` or ``"linear"``.
    cycle_momentum : bool
        The momentum falls from `max_momentum` to `base_momentum` as the rate rises, and rises as it falls.
    base_momentum, max_momentum : float, or one for each group
    div_factor, final_div_factor : float
        `max_lr` by the first rate, and the first rate by the last one.
    three_phase : bool
        Down to the first rate as fast as up, and from there to the last one.
    last_epoch : int
        As that of `LRScheduler`.

    Raises
    ------
    ValueError
        For numbers that make no sense, for an optimizer without momentum or betas where the momentum is to cycle, and
        for steps beyond `total_steps`.

    >>> optimizer = gb.optim.AdamW([gb.nn.Parameter(gb.ones(1))])
    >>> scheduler = gb.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=10)
    >>> optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["betas"]
    (0.02, (0.95, 0.999))
    """

    _fixed = frozenset({
        "max_lr", "total_steps", "epochs", "steps_per_epoch", "pct_start", "anneal_strategy", "base_momentum",
        "max_momentum", "div_factor", "final_div_factor", "three_phase",
    })  # fmt: skip

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"[lr_scheduler] a {type(optimizer).__name__} is not an optimizer")
        self.optimizer = optimizer
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("[lr_scheduler] OneCycleLR needs total_steps, or epochs and steps_per_epoch")
            steps("epochs", epochs)
            steps("steps_per_epoch", steps_per_epoch)
            total_steps = epochs * steps_per_epoch
        steps("total_steps", total_steps)
        number("pct_start", pct_start, 0, 1)
        number("div_factor", div_factor, 0, above=True)
        number("final_div_factor", final_div_factor, 0, above=True)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"[lr_scheduler] anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}")
        self.max_lr, self.total_steps, self.epochs = max_lr, total_steps, epochs
        self.steps_per_epoch, self.pct_start, self.anneal_strategy = steps_per_epoch, pct_start, anneal_strategy
        self.base_momentum, self.max_momentum = base_momentum, max_momentum
        self.div_factor, self.final_div_factor, self.three_phase = div_factor, final_div_factor, three_phase
        self.cycle_momentum = cycle_momentum
        self.use_beta1 = "betas" in optimizer.defaults
        if cycle_momentum and not self.use_beta1 and "momentum" not in optimizer.defaults:
            raise ValueError(f"[lr_scheduler] {type(optimizer).__name__} has no momentum: cycle_momentum=False")
        self._note_in_groups(last_epoch)
        super().__init__(optimizer, last_epoch)

    def _note_in_groups(self, last_epoch: int) -> None:
        groups = self.optimizer.param_groups
        rates = of_groups("max_lr", self.max_lr, len(groups))
        most = of_groups("max_momentum", self.max_momentum, len(groups))
        least = of_groups("base_momentum", self.base_momentum, len(groups))
        for rate in rates:
            number("max_lr", rate, 0)
        for momentum in (*most, *least):
            finite_number("a momentum", momentum)
        if last_epoch != -1:
            return
        for group, rate, high, low in zip(groups, rates, most, least, strict=True):
            first = rate / self.div_factor
            group.update(initial_lr=first, max_lr=rate, min_lr=first / self.final_div_factor)
            if self.cycle_momentum:
                group.update(max_momentum=high, base_momentum=low)

    def _phases(self) -> list[Phase]:
        top = float(self.pct_start * self.total_steps) - 1
        up: Phase = (top, ("initial_lr", "max_lr"), ("max_momentum", "base_momentum"))
        end = self.total_steps - 1
        if not self.three_phase:
            return [up, (end, ("max_lr", "min_lr"), ("base_momentum", "max_momentum"))]
        down: Phase = (
            float(2 * self.pct_start * self.total_steps) - 2,
            ("max_lr", "initial_lr"),
            ("base_momentum", "max_momentum"),
        )
        return [up, down, (end, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum"))]

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[float]:
        """The rates of this step; momenta are set with them."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"[lr_scheduler] step {step} of a cycle of {self.total_steps} steps")
        begin, phases = 0.0, self._phases()
        while len(phases) > 1 and step > phases[0][0]:
            begin = phases.pop(0)[0]
        end, rate, momentum = phases[0]
        share = (step - begin) / (end - begin) if end != begin else 1.0
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                self._set_momentum(group, self._between(group[momentum[0]], group[momentum[1]], share))
        return [self._between(group[rate[0]], group[rate[1]], share) for group in self.optimizer.param_groups]

    def _set_momentum(self, group: dict[str, float | tuple[float, ...]], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])  # type: ignore[index]
        else:
            group["momentum"] = value
