"""The table of what programs call: each function of gabbro with its counterpart in PyTorch and a maker of arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

from .program import FLOATS

if TYPE_CHECKING:
    from .generate import Generator

Maker = Callable[["Generator"], dict[str, Any]]
NARROW = ("float32", "float16", "bfloat16")  # of functions that have no float64


@dataclass(frozen=True)
class Op:
    """`ours` and `torch` are expressions over the names of the arguments, and gb, F, ours; torch, TF, t."""

    name: str
    ours: str
    torch: str
    arguments: Maker
    exact: bool = False  # moves, chooses or counts: nothing is rounded
    inner: bool = False  # several steps of arithmetic: errors of its inputs' size
    reads: bool = False  # the shape of its result depends on values, which a compiled function cannot read
    weight: float = 1.0
    floats: tuple[str, ...] = FLOATS
    our_code: CodeType | None = None
    torch_code: CodeType | None = None


OPERATIONS: dict[str, Op] = {}


def op(name: str, ours: str, torch: str, arguments: Maker, **facts: Any) -> None:
    assert name not in OPERATIONS, name
    our_code = compile(ours, f"<{name}>", "eval")
    torch_code = compile(torch, f"<{name} of torch>", "eval")
    OPERATIONS[name] = Op(name, ours, torch, arguments, our_code=our_code, torch_code=torch_code, **facts)


def fill_table() -> None:
    from . import ops_elementwise, ops_networks, ops_products, ops_rearrange, ops_reduce

    for family in (ops_elementwise, ops_reduce, ops_rearrange, ops_products, ops_networks):
        family.add_rows(op)


fill_table()
