"""A program: inputs, and calls that take inputs and results of earlier calls. It can be stored, run and printed."""

from __future__ import annotations

import ast
import base64
import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int32", "int64")
LAYOUTS = ("plain", "transposed", "reversed", "strided")


class Unfit(Exception):
    """A call cannot be made of the values that are there."""


@dataclass(frozen=True)
class Ref:
    """A value of the program: input x0, x1, ... or result v0, v1, ..."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind}{self.number}"


@dataclass(frozen=True)
class DTypeName:
    """A dtype as an argument: each library has a separate object for it."""

    name: str


@dataclass
class Input:
    dtype: str
    array: np.ndarray  # float64 for floats (values that the dtype holds), else of the dtype
    layout: str = "plain"
    grad: bool = False


@dataclass
class Call:
    op: str
    args: dict[str, Any]  # Ref, list of Ref, index tuples with Refs, or Python values


@dataclass
class Program:
    inputs: list[Input]
    calls: list[Call]
    outputs: list[int]  # calls whose results are compared
    order: int = 0  # of the gradients that are compared: 0, 1 or 2
    mode: str = "lazy"  # "eager" evaluates each call, "compile" runs the second call of a compiled function
    weights: int = 0  # seed of the weights with which outputs are summed
    refused: bool = False  # PyTorch raises an exception at the last call


def refs_of(value: Any) -> list[Ref]:
    if isinstance(value, Ref):
        return [value]
    if isinstance(value, (list, tuple)):
        return [ref for item in value for ref in refs_of(item)]
    if isinstance(value, dict):
        return [ref for item in value.values() for ref in refs_of(item)]
    return []


def substituted(value: Any, change: Any) -> Any:
    """`value` with each Ref, DTypeName and float replaced by change(it)."""
    if isinstance(value, (Ref, DTypeName, float)):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(substituted(item, change) for item in value)
    if isinstance(value, dict):
        return {name: substituted(item, change) for name, item in value.items()}
    return value


def without_unused(program: Program) -> Program:
    """Only the calls and inputs on which the outputs depend, numbered again."""
    needed: set[Ref] = set()
    pending = [Ref("v", number) for number in program.outputs]
    while pending:
        ref = pending.pop()
        if ref not in needed:
            needed.add(ref)
            pending += refs_of(program.calls[ref.number].args) if ref.kind == "v" else []
    order = {kind: sorted(ref.number for ref in needed if ref.kind == kind) for kind in "xv"}
    new = {Ref(kind, old): Ref(kind, at) for kind in "xv" for at, old in enumerate(order[kind])}
    rename = lambda item: new[item] if isinstance(item, Ref) else item  # noqa: E731
    return replace(
        program,
        inputs=[program.inputs[number] for number in order["x"]],
        calls=[
            Call(program.calls[number].op, substituted(program.calls[number].args, rename)) for number in order["v"]
        ],
        outputs=[new[Ref("v", number)].number for number in program.outputs],
    )


# As JSON.
def encoded(value: Any) -> Any:
    if isinstance(value, Ref):
        return {"ref": str(value)}
    if isinstance(value, DTypeName):
        return {"dtype": value.name}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, tuple):
        return {"tuple": [encoded(item) for item in value]}
    if isinstance(value, list):
        return [encoded(item) for item in value]
    if isinstance(value, float):
        return {"float": repr(value)}
    return value


def decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "ref":
        return Ref(content[0], int(content[1:]))
    if kind == "dtype":
        return DTypeName(content)
    if kind == "slice":
        return slice(*content)
    if kind == "tuple":
        return tuple(decoded(item) for item in content)
    return Ellipsis if kind == "ellipsis" else float(content)


def encoded_array(array: np.ndarray) -> dict[str, Any]:
    data = base64.b64encode(zlib.compress(np.array(array, order="C").tobytes(), 9)).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}


def decoded_array(stored: dict[str, Any]) -> np.ndarray:
    data = zlib.decompress(base64.b64decode(stored["data"]))
    return np.frombuffer(data, np.dtype(stored["dtype"])).reshape(stored["shape"]).copy()


def to_json(program: Program) -> dict[str, Any]:
    return {
        "inputs": [
            {"dtype": x.dtype, "array": encoded_array(x.array), "layout": x.layout, "grad": x.grad}
            for x in program.inputs
        ],
        "calls": [
            {"op": call.op, "args": {name: encoded(value) for name, value in call.args.items()}}
            for call in program.calls
        ],
        **{name: getattr(program, name) for name in ("outputs", "order", "mode", "weights", "refused")},
    }


def from_json(stored: dict[str, Any]) -> Program:
    fields = {name: stored[name] for name in ("outputs", "order", "mode", "weights", "refused")}
    inputs = [Input(x["dtype"], decoded_array(x["array"]), x["layout"], x["grad"]) for x in stored["inputs"]]
    calls = [
        Call(call["op"], {name: decoded(value) for name, value in call["args"].items()}) for call in stored["calls"]
    ]
    return Program(inputs, calls, **fields)


# As text.
@dataclass
class Writer(ast.NodeTransformer):
    """Puts arguments in the place of the names of an op's expression."""

    arguments: dict[str, str] = field(default_factory=dict)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        text = self.arguments.get(node.id)
        return node if text is None else ast.parse(text, mode="eval").body


def text_of(value: Any, library: str) -> str:
    if isinstance(value, Ref):
        return str(value)
    if isinstance(value, DTypeName):
        return f"{library}.{value.name}"
    if isinstance(value, slice):
        return f"slice({value.start}, {value.stop}, {value.step})"
    if isinstance(value, tuple):
        return "(" + "".join(text_of(item, library) + ", " for item in value) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(text_of(item, library) for item in value) + "]"
    if value is Ellipsis:
        return "..."
    if isinstance(value, float) and not np.isfinite(value):
        return f"float('{value}')"
    return repr(value)


def expression(template: str, args: dict[str, Any], library: str) -> str:
    writer = Writer({name: text_of(value, library) for name, value in args.items()})
    return ast.unparse(writer.visit(ast.parse(template, mode="eval")))
