"""The versions of transformers and torch that this pack is for, and those that are here."""

from __future__ import annotations

import re

import pytest
import torch
import transformers

import case
import support


def version_of(text: str) -> tuple[int, ...]:
    """(5, 24) of "5.24.0.dev0"."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def version_pairs() -> list[tuple[str, str, tuple[str, str]]]:
    """(library, version here, versions that this pack is for)."""
    return [("transformers", transformers.__version__, case.TRANSFORMERS), ("torch", torch.__version__, case.TORCH)]


def versions_line() -> str:
    """A line with the versions here and those that this pack is for; it says which are newer."""
    words = []
    for name, here, (low, high) in version_pairs():
        newer = ", newer: a failure can be a change of its code" if version_of(here) > version_of(high) else ""
        words.append(f"{name} {here} (for {low} to {high}{newer})")
    return f"{case.MODEL_TYPE}: {', '.join(words)}"


def missing() -> str:
    """Why no model can be built: the library is too old, or too new, for the type; empty where it has it."""
    has = case.MODEL_TYPE in transformers.CONFIG_MAPPING
    return "" if has else f"transformers {transformers.__version__} does not have the model type {case.MODEL_TYPE}"


def lines() -> list[str]:
    """What stands above the tests: versions_line(), and why they take another attention than the library's choice."""
    return [versions_line(), *(f"{case.MODEL_TYPE}: {line}" for line in support.avoided_attention())]


def require() -> None:
    """Raises UsageError for a library that is older than this pack is for."""
    old = [
        f"{n} {here} is older than {low}" for n, here, (low, _) in version_pairs() if version_of(here) < version_of(low)
    ]
    if old:
        raise pytest.UsageError(f"{case.MODEL_TYPE}: this pack is for later versions: {', '.join(old)}")
