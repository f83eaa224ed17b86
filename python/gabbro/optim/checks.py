"""Checks of the schedulers' arguments."""

from __future__ import annotations

import math
import numbers
from typing import Any


def finite_number(name: str, value: Any) -> None:
    """Raises TypeError for anything else, and ValueError for infinity and NaN."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"[lr_scheduler] {name} is a number, not {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"[lr_scheduler] {name} {value} is not finite")


def number(name: str, value: Any, low: float, high: float = math.inf, *, above: bool = False) -> None:
    """Raises where a number is not within [low, high], or with `above` (low, high]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"[lr_scheduler] {name} is a number, not {value!r}")
    real = float(value)
    if not (low < real if above else low <= real) or not real <= high or math.isinf(real):
        raise ValueError(f"[lr_scheduler] {name} {value} is not in {'(' if above else '['}{low}, {high}]")


def at_least(name: str, value: Any, least: int) -> None:
    """Raises for anything but an integer from `least` on."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"[lr_scheduler] {name} is a number of steps, not {value!r}")
    if value < least:
        raise ValueError(f"[lr_scheduler] {name} {value} is below {least}")


def steps(name: str, value: Any, least: int = 1) -> None:
    """Raises for anything but a number of steps."""
    at_least(name, value, least)


def of_groups(name: str, value: Any, groups: int) -> list[Any]:
    """One value for all groups, or a list with one for each."""
    values = list(value) if isinstance(value, (list, tuple)) else [value] * groups
    if len(values) != groups:
        raise ValueError(f"[lr_scheduler] {len(values)} values of {name} for {groups} groups")
    return values
