"""Every number of every optimizer changed after it was made, and every scheduler, alone and in pairs."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .sides import Outcome, Side, outcome

OPTIMIZERS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "SGD": (
        {"lr": 0.1, "momentum": 0.5},
        {"lr": [0.3], "momentum": [0.0, 0.9], "dampening": [0.5], "weight_decay": [0.2], "nesterov": [True],
         "maximize": [True]},
    ),
    "SGD without momentum": (
        {"lr": 0.1},
        {"lr": [0.3], "momentum": [0.9], "dampening": [0.5], "weight_decay": [0.2], "nesterov": [True]},
    ),
    "Adam": (
        {"lr": 0.1},
        {"lr": [0.3], "betas": [(0.5, 0.9)], "eps": [0.1], "weight_decay": [0.2], "amsgrad": [True],
         "maximize": [True], "decoupled_weight_decay": [True]},
    ),
    "AdamW": (
        {"lr": 0.1},
        {"lr": [0.3], "betas": [(0.5, 0.9)], "eps": [0.1], "weight_decay": [0.5, 0.0], "amsgrad": [True],
         "maximize": [True]},
    ),
    "Adagrad": (
        {"lr": 0.1},
        {"lr": [0.3], "lr_decay": [0.5], "weight_decay": [0.2], "initial_accumulator_value": [0.5], "eps": [0.1],
         "maximize": [True]},
    ),
    "RMSprop": (
        {"lr": 0.1},
        {"lr": [0.3], "alpha": [0.5], "eps": [0.1], "weight_decay": [0.2], "momentum": [0.5], "centered": [True],
         "maximize": [True]},
    ),
    "Adadelta": (
        {"lr": 0.1},
        {"lr": [0.3], "rho": [0.5], "eps": [0.1], "weight_decay": [0.2], "maximize": [True]},
    ),
    "Adamax": (
        {"lr": 0.1},
        {"lr": [0.3], "betas": [(0.5, 0.9)], "eps": [0.1], "weight_decay": [0.2], "maximize": [True]},
    ),
    "NAdam": (
        {"lr": 0.1},
        {"lr": [0.3], "betas": [(0.5, 0.9)], "eps": [0.1], "weight_decay": [0.2], "momentum_decay": [0.1],
         "decoupled_weight_decay": [True], "maximize": [True]},
    ),
    "RAdam": (
        {"lr": 0.1},
        {"lr": [0.3], "betas": [(0.5, 0.9)], "eps": [0.1], "weight_decay": [0.2], "decoupled_weight_decay": [True],
         "maximize": [True]},
    ),
    "ASGD": (
        {"lr": 0.1},
        {"lr": [0.3], "lambd": [0.1], "alpha": [0.5], "t0": [1.0], "weight_decay": [0.2], "maximize": [True]},
    ),
    "Rprop": (
        {"lr": 0.1},
        {"lr": [0.3], "etas": [(0.4, 1.5)], "step_sizes": [(0.01, 0.2)], "maximize": [True]},
    ),
    "Adafactor": (
        {"lr": 0.1},
        {"lr": [0.3], "beta2_decay": [-0.5], "eps": [(None, 0.1)], "d": [0.5], "weight_decay": [0.2],
         "maximize": [True]},
    ),
    "Muon": (
        {"lr": 0.1},
        {"lr": [0.3], "weight_decay": [0.5], "momentum": [0.5], "nesterov": [False], "eps": [0.1], "ns_steps": [3],
         "ns_coefficients": [(2.0, -1.5, 0.5)], "adjust_lr_fn": ["match_rms_adamw"]},
    ),
}  # fmt: skip


def assigned(group: dict[str, Any], name: str, value: Any) -> None:
    group[name] = value


def updated(group: dict[str, Any], name: str, value: Any) -> None:
    group.update({name: value})


def merged(group: dict[str, Any], name: str, value: Any) -> None:
    group |= {name: value}


def put_back(group: dict[str, Any], name: str, value: Any) -> None:
    group.pop(name, None)
    group.setdefault(name, value)


CHANGES: dict[str, Callable[[dict[str, Any], str, Any], None]] = {
    "assigned": assigned, "updated": updated, "merged": merged, "put back": put_back,
}  # fmt: skip


def parameter(side: Side, is_matrix: bool = False) -> Any:
    start = np.array([1.0, -2.0, 0.5], np.float32)
    return side.nn.Parameter(side.tensor(start.reshape(3, 1) if is_matrix else start))


def steps(side: Side, weight: Any, optimizer: Any, count: int) -> list[np.ndarray]:
    for _ in range(count):
        optimizer.zero_grad()
        (weight * weight * weight / 3 + weight).sum().backward()
        optimizer.step()
    return [np.array(side.array(weight))]


def made(side: Side, name: str, weight: Any, **more: Any) -> Any:
    return getattr(side.optim, name.split()[0])([weight], **(OPTIMIZERS[name][0] | more))


def after_change(side: Side, name: str, option: str, value: Any, how: str, before: int) -> Outcome:
    def run() -> list[np.ndarray]:
        weight = parameter(side, name == "Muon")
        optimizer = made(side, name, weight)
        found = steps(side, weight, optimizer, before)
        CHANGES[how](optimizer.param_groups[0], option, value)
        return found + steps(side, weight, optimizer, 3)

    return outcome(side, run)


def resumed(side: Side, name: str, option: str, value: Any) -> Outcome:
    """A state of an optimizer with another number, loaded by one without it."""

    def run() -> list[np.ndarray]:
        weight = parameter(side, name == "Muon")
        first = made(side, name, weight, **{option: value})
        steps(side, weight, first, 3)
        second = made(side, name, weight)
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        return steps(side, weight, second, 3)

    return outcome(side, run)


def cases() -> Iterator[tuple[str, Callable[[Side], Outcome]]]:
    for name, (_, options) in OPTIMIZERS.items():
        for option, values in options.items():
            for value in values:
                key = f"{name}.{option}={value!r}"
                for before in (0, 2):
                    how = "assigned"
                    yield (
                        f"{key} assigned after {before}",
                        lambda side, a=(name, option, value, how, before): after_change(side, *a),
                    )
                for how in ("updated", "merged", "put back"):
                    yield f"{key} {how}", lambda side, a=(name, option, value, how, 1): after_change(side, *a)
                yield f"{key} resumed", lambda side, a=(name, option, value): resumed(side, *a)


# (arguments, other values of each argument)
SCHEDULERS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "ConstantLR": ({"factor": 0.5, "total_iters": 4}, {"factor": [0.25], "total_iters": [8]}),
    "LinearLR": (
        {"start_factor": 0.5, "end_factor": 0.8, "total_iters": 12},
        {"start_factor": [0.7], "end_factor": [0.6], "total_iters": [15]},
    ),
    "StepLR": ({"step_size": 3, "gamma": 0.5}, {"step_size": [5], "gamma": [0.9]}),
    "MultiStepLR": ({"milestones": [2, 9, 9, 30], "gamma": 0.5}, {"gamma": [0.9]}),
    "ExponentialLR": ({"gamma": 0.9}, {"gamma": [0.95]}),
    "PolynomialLR": ({"total_iters": 40, "power": 2.0}, {"total_iters": [45], "power": [1.0]}),
    "CosineAnnealingLR": ({"T_max": 7, "eta_min": 0.01}, {"T_max": [9], "eta_min": [0.05]}),
    "CosineAnnealingWarmRestarts": (
        {"T_0": 3, "T_mult": 2, "eta_min": 0.01}, {"T_0": [5], "T_mult": [3], "eta_min": [0.05]},
    ),
    "OneCycleLR": (
        {"max_lr": 0.7, "total_steps": 51},
        {"max_lr": [0.5], "total_steps": [60], "pct_start": [0.5], "anneal_strategy": ["linear"],
         "cycle_momentum": [False], "base_momentum": [0.5], "max_momentum": [0.6], "div_factor": [10.0],
         "final_div_factor": [100.0], "three_phase": [True]},
    ),
    "MultiplicativeLR": ({"lr_lambda": lambda step: 0.9}, {"lr_lambda": [lambda step: 0.95]}),
    "CyclicLR": (
        {"base_lr": 0.1, "max_lr": 0.7, "step_size_up": 5},
        {"gamma": [0.5], "mode": ["triangular2", "exp_range"], "total_size": [20.0], "step_ratio": [0.3],
         "base_momentum": [0.5], "cycle_momentum": [False]},
    ),
    "LambdaLR": ({"lr_lambda": lambda step: 1 / (1 + step)}, {"lr_lambda": [lambda step: 0.5**step]}),
}  # fmt: skip
ONE_CYCLES = [
    {"max_lr": 0.7, "epochs": 10, "steps_per_epoch": 6}, {"max_lr": 0.7, "total_steps": 55, "three_phase": True},
    {"max_lr": 0.7, "total_steps": 55, "anneal_strategy": "linear", "pct_start": 0.4},
    {"max_lr": 0.7, "total_steps": 55, "cycle_momentum": False, "div_factor": 10.0, "final_div_factor": 10.0},
    {"max_lr": 0.7, "total_steps": 55, "base_momentum": 0.2, "max_momentum": 0.8},
]  # fmt: skip
PLATEAUS: list[dict[str, Any]] = [
    {"patience": 2}, {"patience": 1, "mode": "max"}, {"patience": 1, "cooldown": 3, "factor": 0.5},
    {"patience": 0, "threshold": 0.5}, {"patience": 0, "threshold": 0.3, "threshold_mode": "abs"},
    {"patience": 0, "min_lr": 0.2, "factor": 0.5}, {"patience": 0, "eps": 0.05, "factor": 0.5},
]  # fmt: skip
PLATEAU_SETTINGS = {"mode": ["max"], "factor": [0.5], "patience": [1], "threshold": [0.4], "threshold_mode": ["abs"],
                    "cooldown": [2], "min_lr": [0.3], "eps": [0.2]}  # fmt: skip


def numbers_of(optimizer: Any) -> list[float]:
    group = optimizer.param_groups[0]
    return [group["lr"], group["betas"][0] if "betas" in group else group["momentum"]]


class Loop:
    """Steps of an optimizer and its schedulers, with the rate and momentum of each."""

    def __init__(self, side: Side, kind: str = "SGD") -> None:
        self.side = side
        weight = parameter(side)
        more = {"momentum": 0.9} if kind == "SGD" else {}
        self.optimizer = getattr(side.optim, kind)([weight], lr=1.0, **more)
        self.schedulers: list[Any] = []
        self.found: list[float] = []

    def add(self, name: str, arguments: dict[str, Any]) -> Any:
        made = getattr(self.side.optim.lr_scheduler, name)(self.optimizer, **arguments)
        self.schedulers.append(made)
        return made

    def run(self, count: int, measures: Any = None) -> None:
        for step in range(count):
            self.found += numbers_of(self.optimizer)
            self.optimizer.step()
            for scheduler in self.schedulers:
                scheduler.step(*([] if measures is None else [measures(step)]))
        self.found += numbers_of(self.optimizer)
        self.found += self.schedulers[0].get_last_lr()

    def result(self) -> list[np.ndarray]:
        return [np.array(self.found)]


def alone(side: Side, kind: str, name: str, arguments: dict[str, Any]) -> Outcome:
    def run() -> list[np.ndarray]:
        loop = Loop(side, kind)
        loop.add(name, arguments)
        loop.run(50)
        return loop.result()

    return outcome(side, run)


def pair(side: Side, first: str, second: str, by_hand: bool) -> Outcome:
    def run() -> list[np.ndarray]:
        loop = Loop(side)
        loop.add(first, SCHEDULERS[first][0])
        loop.add(second, SCHEDULERS[second][0])
        loop.run(12)
        if by_hand:
            loop.optimizer.param_groups[0]["lr"] = 0.37
        loop.run(38)
        return loop.result()

    return outcome(side, run)


def by_hand(side: Side, name: str) -> Outcome:
    def run() -> list[np.ndarray]:
        loop = Loop(side)
        loop.add(name, SCHEDULERS[name][0])
        loop.run(5)
        loop.optimizer.param_groups[0]["lr"] = 0.37
        loop.run(20)
        return loop.result()

    return outcome(side, run)


def scheduler_set(side: Side, name: str, option: str, value: Any) -> Outcome:
    def run() -> list[np.ndarray]:
        loop = Loop(side)
        scheduler = loop.add(name, SCHEDULERS[name][0])
        loop.run(4)
        setattr(scheduler, option, value)
        loop.run(30)
        return loop.result()

    return outcome(side, run)


def scheduler_resumed(side: Side, name: str, with_optimizer: bool) -> Outcome:
    def run() -> list[np.ndarray]:
        loop = Loop(side)
        loop.add(name, SCHEDULERS[name][0])
        loop.run(8)
        again = Loop(side)
        scheduler = again.add(name, SCHEDULERS[name][0])
        if with_optimizer:
            again.optimizer.load_state_dict(copy.deepcopy(loop.optimizer.state_dict()))
        scheduler.load_state_dict(copy.deepcopy(loop.schedulers[0].state_dict()))
        again.run(20)
        return again.result()

    return outcome(side, run)


def from_last_epoch(side: Side, name: str) -> Outcome:
    def run() -> list[np.ndarray]:
        loop = Loop(side)
        loop.add(name, SCHEDULERS[name][0])
        loop.run(8)
        loop.schedulers.clear()
        loop.add(name, SCHEDULERS[name][0] | {"last_epoch": 8})
        loop.run(20)
        return loop.result()

    return outcome(side, run)


def in_sequence(side: Side, names: tuple[str, ...], milestones: list[int]) -> Outcome:
    def run() -> list[np.ndarray]:
        loop = Loop(side)
        parts = [getattr(side.optim.lr_scheduler, name)(loop.optimizer, **SCHEDULERS[name][0]) for name in names]
        loop.schedulers.append(side.optim.lr_scheduler.SequentialLR(loop.optimizer, parts, milestones))
        loop.run(40)
        return loop.result()

    return outcome(side, run)


def measure(step: int) -> float:
    return [5.0, 4.0, 4.2, 4.1, 3.0, 3.5, 3.4, 2.9, 3.1, 3.2, 1.0, 0.9][step % 12]


def plateau(side: Side, arguments: dict[str, Any], option: str = "", value: Any = None) -> Outcome:
    def run() -> list[np.ndarray]:
        loop = Loop(side)
        scheduler = loop.add("ReduceLROnPlateau", arguments)
        loop.run(10, measure)
        if option:
            setattr(scheduler, option, value)
        loop.run(40, measure)
        return loop.result()

    return outcome(side, run)


CHAINS = ("ConstantLR", "LinearLR", "StepLR", "MultiStepLR", "ExponentialLR", "PolynomialLR", "CosineAnnealingLR",
          "CosineAnnealingWarmRestarts", "LambdaLR")  # fmt: skip


def schedules() -> Iterator[tuple[str, Callable[[Side], Outcome]]]:
    for name, (arguments, others) in SCHEDULERS.items():
        for kind in ("SGD", "AdamW"):
            yield f"{name} of {kind}", lambda side, a=(kind, name, arguments): alone(side, *a)
        yield f"{name} by hand", lambda side, a=name: by_hand(side, a)
        for with_optimizer in (True, False):
            yield f"{name} resumed {with_optimizer}", lambda side, a=(name, with_optimizer): scheduler_resumed(side, *a)
        yield f"{name} from last_epoch", lambda side, a=name: from_last_epoch(side, a)
        for option, values in others.items():
            for number, value in enumerate(values):
                yield f"{name}.{option} {number}", lambda side, a=(name, option, value): scheduler_set(side, *a)
    for number, arguments in enumerate(ONE_CYCLES):
        for kind in ("SGD", "AdamW"):
            yield f"one cycle {number} of {kind}", lambda side, a=(kind, "OneCycleLR", arguments): alone(side, *a)
    for first in CHAINS:
        for second in CHAINS:
            if first != second:
                yield f"{first} and {second}", lambda side, a=(first, second, False): pair(side, *a)
    for first, second in itertools.pairwise(CHAINS):
        yield f"{first} and {second} by hand", lambda side, a=(first, second, True): pair(side, *a)
        yield f"{first}, then {second}", lambda side, a=((first, second), [7]): in_sequence(side, *a)
    yield (
        "three in sequence",
        lambda side: in_sequence(side, ("LinearLR", "ExponentialLR", "CosineAnnealingLR"), [5, 12]),
    )
    for number, arguments in enumerate(PLATEAUS):
        yield f"plateau {number}", lambda side, a=arguments: plateau(side, a)
    for option, values in PLATEAU_SETTINGS.items():
        yield f"plateau.{option}", lambda side, a=({"patience": 0}, option, values[0]): plateau(side, *a)
