"""Discrete choices of a model, such as the experts of a router: among scores that are nearly equal rounding chooses.
Sides of a kink are such choices, too, for a gradient (kinks.py).

A device that chooses otherwise there is not at fault, though its outputs differ by more than rounding errors. So where a
limit is exceeded, the device runs once more and follows the oracle's choices, but only where the oracle's own scores of
both choices differ by less than twice the tolerance of scores. A choice beyond that stays the device's, and its error
shows.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

import kinks
from attention import Recomputed

Compute = Callable[[Any], torch.Tensor]
CHOOSERS = (torch.topk, torch.Tensor.topk)
ORDER = 4.0  # how much larger the tolerance of scores may be in a form that sums in another order


@dataclasses.dataclass
class Choice:
    """One call of topk: scores and chosen indices on the CPU, and the axis. Without indices the argument of a kink."""

    scores: torch.Tensor
    indices: torch.Tensor | None = None
    axis: int = -1


class Choices(TorchFunctionMode):
    """Records the choices of a run. It follows the oracle's within `allowed`, or always if that is None."""

    def __init__(self, of_oracle: list[Choice] | None = None, allowed: list[float] | None = None) -> None:
        super().__init__()
        self.of_oracle, self.allowed = of_oracle or [], allowed
        self.made: list[Choice] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kinks.is_bent(func, args):
            return self.bend(func, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        if func not in CHOOSERS or not args or not args[0].is_floating_point():
            return result
        axis = int((kwargs or {}).get("dim", args[2] if len(args) > 2 else -1))
        number = len(self.made)
        self.made.append(Choice(args[0].detach().cpu().double(), result.indices.cpu(), axis))
        if number >= len(self.of_oracle) or not fits(self.made[number], self.of_oracle[number]):
            return result
        indices = self.chosen(number).to(args[0].device)
        return torch.return_types.topk((args[0].gather(axis, indices), indices))  # type: ignore[call-arg,unused-ignore]

    def bend(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A function with a kink, with the derivative at the oracle's argument where that is as good as equal."""
        number = len(self.made)
        self.made.append(Choice(args[0].detach().cpu().double()))
        if number >= len(self.of_oracle) or not fits(self.made[number], self.of_oracle[number]):
            return func(*args, **options)
        allowed = math.inf if self.allowed is None else self.allowed[number]
        return kinks.with_slope_at(func, self.of_oracle[number].scores, allowed, args, options)

    def chosen(self, number: int) -> torch.Tensor:
        """The oracle's indices, in rows where its scores of both choices are as good as equal; else the run's own."""
        own, oracle = self.made[number].indices, self.of_oracle[number]
        assert own is not None and oracle.indices is not None
        if self.allowed is None:
            return oracle.indices
        both = [oracle.scores.gather(oracle.axis, indices) for indices in (oracle.indices, own)]
        best, mine = (scores.amin(oracle.axis, keepdim=True) for scores in both)
        return torch.where((best - mine) <= self.allowed[number], oracle.indices, own)


def fits(mine: Choice, oracles: Choice) -> bool:
    if mine.indices is None or oracles.indices is None:
        return mine.indices is oracles.indices and mine.scores.shape == oracles.scores.shape
    return mine.scores.shape == oracles.scores.shape and mine.indices.shape == oracles.indices.shape


def tolerance(close: Choice, exact: Choice, factor: float, floor: float) -> float:
    """Twice the tolerance of a score, from the CPU's error: both scores of a pair can be off. Once that of a kink."""
    finite = exact.scores.isfinite() & close.scores.isfinite() if fits(close, exact) else None
    if finite is None or not bool(finite.any()):
        return 0.0
    error = float((close.scores - exact.scores)[finite].abs().max())
    return (1 if exact.indices is None else 2) * (factor * error + floor * float(exact.scores[finite].abs().max()))


def attentions(model: Any) -> list[str | None]:
    """The implementation of attention in each module's configuration."""
    configs = (getattr(module, "config", None) for module in model.modules())
    return [getattr(config, "_attn_implementation", None) for config in configs]


def with_attention(model: Any, other: Any) -> Any:
    """A copy of a model with another's implementations of attention."""
    twin = copy.deepcopy(model)
    for module, name in zip(twin.modules(), attentions(other), strict=True):
        if name is not None and hasattr(module, "config"):
            module.config._attn_implementation = name
    return twin


@dataclasses.dataclass
class Again:
    """Computes one value once more with a model. Without an oracle or a subject there are no choices to follow.

    Where the CPU's relative error is above `comparable` with sums in some order, relative errors say nothing.
    """

    compute: Compute
    reference: Any
    oracle: Any = None
    subject: Any = None
    comparable: float = math.inf
    forms: tuple[Compute, Compute] | None = None  # the plain call, which measures the CPU, and the form of the device

    def close(self, order: int) -> torch.Tensor:
        """The CPU's. order: a number of the order of sums that the caller has set."""
        return self.compute(self.reference)

    def holds(self, is_exact: Callable[[torch.Tensor], bool]) -> bool:
        """Whether the oracle gives the exact value in this way too; else the CPU's error would be the model's."""
        return self.oracle is None or is_exact(self.compute(self.oracle))

    def with_the_subjects_attention(self, is_exact: Callable[[torch.Tensor], bool]) -> list[torch.Tensor]:
        """The CPU's values with the implementation of attention that the device's model has: the CPU's kernel, and for
        SDPA one that computes probabilities again for gradients, as kernels of cards do.

        Nothing where both are the same, and where it is not the same function in f64.
        """
        if self.oracle is None or self.subject is None or attentions(self.subject) == attentions(self.oracle):
            return []
        if not is_exact(self.compute(with_attention(self.oracle, self.subject))):
            return []
        twin = with_attention(self.reference, self.subject)
        values = [self.compute(twin)]
        with Recomputed() as attention:
            again = self.compute(twin)
        return [*values, again] if attention.used else values

    def with_the_oracles_choices(self, factor: float, floor: float) -> tuple[torch.Tensor, torch.Tensor] | None:
        """(the device's value, the CPU's); None where the model chooses nothing. factor, floor: of support.measure()."""
        if self.oracle is None or self.subject is None:
            return None
        plain, form = self.forms or (self.compute, self.compute)
        value, exact, allowed = self.following(plain, factor, floor)
        if not exact:
            return None
        if form is not plain:  # its calls have other rows, and are more or fewer
            most = ORDER * max(allowed, default=0.0)
            _, exact, allowed = self.following(form, factor, floor)
            allowed = [min(each, most) for each in allowed]
        with Choices(exact[: len(allowed)], allowed):
            return form(self.subject), value

    def following(self, run: Compute, factor: float, floor: float) -> tuple[torch.Tensor, list[Choice], list[float]]:
        """The CPU's value with the oracle's choices, these choices, and the tolerance of the scores of each."""
        with Choices() as exact:
            run(self.oracle)
        with Choices(exact.made) as close:
            value = run(self.reference)
        return value, exact.made, [tolerance(c, e, factor, floor) for c, e in zip(close.made, exact.made, strict=False)]


@dataclasses.dataclass
class OneOf(Again):
    """One of many values that `compute` gives at once, by name: `kept` has them for the next one, which is asked alike."""

    name: str = ""
    kept: dict[Any, Any] = dataclasses.field(default_factory=dict)

    def once(self, what: Any, make: Callable[[], Any]) -> Any:
        if what not in self.kept:
            self.kept[what] = make()
        return self.kept[what]

    def close(self, order: int) -> torch.Tensor:
        value: torch.Tensor = self.once(order, lambda: self.compute(self.reference))[self.name]
        return value

    def holds(self, is_exact: Callable[[torch.Tensor], bool]) -> bool:
        return is_exact(self.once("oracle", lambda: self.compute(self.oracle))[self.name])

    def with_the_subjects_attention(self, is_exact: Callable[[torch.Tensor], bool]) -> list[torch.Tensor]:
        def keep(of_twin: Any) -> bool:
            self.kept["twin"] = of_twin
            return True

        found = self.once("attention", lambda: super(OneOf, self).with_the_subjects_attention(keep))
        return [each[self.name] for each in found] if found and is_exact(self.kept["twin"][self.name]) else []

    def with_the_oracles_choices(self, factor: float, floor: float) -> tuple[torch.Tensor, torch.Tensor] | None:
        pair: Any = self.once("choices", lambda: super(OneOf, self).with_the_oracles_choices(factor, floor))
        return (pair[0][self.name], pair[1][self.name]) if pair else None
