"""Runs a drawn program in Gabbro and compares it with PyTorch's results."""

from __future__ import annotations

from typing import Any

import numpy as np

import gabbro as gb

TOLERANCE = 1e-4
EXACT = ("int8", "int16", "int32", "int64", "uint8", "bool")


def leaf(description: dict[str, Any]) -> gb.Tensor:
    array = np.array(description["values"], description["dtype"]).reshape(description["shape"])
    x = gb.from_numpy(array)
    return x.requires_grad_() if description["grad"] else x


def scope_of(program: dict[str, Any]) -> dict[str, Any]:
    scope: dict[str, Any] = {"torch": gb, "F": gb.nn.functional}
    scope.update({name: leaf(description) for name, description in program["leaves"].items()})
    return scope


def run(program: dict[str, Any]) -> dict[str, Any]:
    """The variables after the program, and after `backward` if PyTorch has gradients."""
    scope = scope_of(program)
    if program["mode"] == "compiled":
        compiled = gb.compile(function_of(program))
        for _ in range(2):  # the second call replays the plan
            scope = scope_of(program)
            results, gradients = compiled(*(scope[name] for name in program["leaves"]))
        scope.update(dict(zip(program["names"], results, strict=True)))
        for name, gradient in zip(with_gradients(program), gradients, strict=True):
            scope[name].grad = gradient
        return scope
    for line in program["lines"]:
        exec(line, scope)
        if program["mode"] == "printed":
            for name in program["names"]:
                if name in scope:
                    str(scope[name])
    return scope


def with_gradients(program: dict[str, Any]) -> list[str]:
    return [name for name, leaf in program["leaves"].items() if leaf["grad"]] if program["gradients"] else []


def function_of(program: dict[str, Any]) -> Any:
    """The program as a function of its leaves, which gives its results, and the gradients of the leaves."""
    leaves = with_gradients(program)
    lines = [f"{name} = {name}.detach().requires_grad_()" for name in leaves]
    lines += [*program["lines"], f"results = [{', '.join(program['names'])}]"]
    lines.append(
        f"gradients = torch.autograd.grad(total(results), [{', '.join(leaves)}])" if leaves else "gradients = []"
    )
    body = "\n    ".join(lines)
    text = f"def program({', '.join(program['leaves'])}):\n    {body}\n    return results, gradients"
    scope: dict[str, Any] = {"torch": gb, "F": gb.nn.functional, "total": total}
    exec(text, scope)
    return scope["program"]


def total(results: list[gb.Tensor]) -> Any:
    """The sum that PyTorch's gradients are of: generate.totals."""
    result = None
    for number, x in enumerate(results):
        if x.requires_grad and x.dtype.is_floating_point:
            factors = np.linspace(0.5, 1.5, int(np.prod(x.shape))).reshape(x.shape) + 0.1 * number
            part = (x * gb.tensor(factors.astype(np.float32)).to(x.dtype)).sum().to(gb.float32)
            result = part if result is None else result + part
    return result


def difference(program: dict[str, Any]) -> str | None:
    """None if the program's values, dtypes, shapes and gradients are PyTorch's."""
    try:
        scope = run(program)
        wanted = program["expected"]
        results = [scope[name] for name in program["names"]]
        required = [name for name, x in zip(program["names"], results, strict=True) if x.requires_grad]
        if program["mode"] != "compiled" and required != wanted["required"]:
            return f"gradients are required by {required} instead of {wanted['required']}"
        if program["gradients"] and program["mode"] != "compiled":
            total(results).backward()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for name, (dtype, shape, values) in wanted["values"].items():
        x = scope[name]
        if str(x.dtype).split(".")[-1] != dtype or list(x.shape) != shape:
            return f"{name} is {x.dtype} {list(x.shape)} instead of {dtype} {shape}"
        text = apart(x.detach().numpy(), np.array(values).reshape(shape), 0 if dtype in EXACT else TOLERANCE)
        if text:
            return f"{name}: {text}"
    for name, values in wanted["gradients"].items():
        grad = scope[name].grad
        mine = np.zeros(len(values or ())) if grad is None else grad.numpy().reshape(-1)
        text = apart(mine, np.zeros(mine.size) if values is None else np.array(values), 10 * TOLERANCE)
        if text:
            return f"gradient of {name}: {text}"
    return None


def apart(mine: np.ndarray, wanted: np.ndarray, tolerance: float) -> str | None:
    if mine.size != wanted.size:
        return f"{mine.size} elements instead of {wanted.size}"
    a, b = mine.reshape(-1).astype(np.float64), wanted.reshape(-1).astype(np.float64)
    scale = max(1.0, float(np.abs(b).max())) if b.size else 1.0  # sums of elements of this size are rounded
    wrong = ~np.isclose(a, b, rtol=tolerance, atol=tolerance * scale)
    if not wrong.any():
        return None
    at = int(np.argmax(wrong))
    return f"{a[at]} instead of {b[at]} at {at}"


def text_of(program: dict[str, Any]) -> str:
    """The program as one that either library runs."""
    head = [
        f"{name} = torch.tensor({np.array(x['values']).reshape(x['shape']).tolist()}, dtype=torch.{x['dtype']}"
        f"{', requires_grad=True' if x['grad'] else ''})"
        for name, x in program["leaves"].items()
        if any(name in line for line in program["lines"])
    ]
    return "\n".join([f"# {program['mode']}", *head, *program["lines"]])
