"""All cases under their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import layers, optimizers, positions
from .sides import Outcome, Side


@dataclass(frozen=True)
class Case:
    key: str
    kind: str
    run: Callable[[Side], Outcome]
    intended: str = ""  # the reason why Gabbro's result is another one


def all_cases() -> Iterator[Case]:
    for key, case, name, value in layers.settings():
        yield Case(key, "layer", lambda side, a=(case, name, value): layers.after_setting(side, *a))
    for key, run in optimizers.cases():
        yield Case(f"optimizer {key}", "optimizer", run)
    for key, run in optimizers.schedules():
        yield Case(f"schedule {key}", "schedule", run)
    for key, where, name, arguments in positions.calls():
        reason = positions.DIFFERENT.get(name, "") if where != "functional" else ""
        yield Case(key, "position", lambda side, a=(where, name, arguments): positions.called(side, *a), reason)
