"""A program as a script that runs by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from .operations import OPERATIONS
from .outcome import weights_of
from .program import Input, Program, expression

HEAD = """import sys
sys.path.insert(0, "python/tests")
import gabbro as gb
import gabbro.nn.functional as F
import torch
import torch.nn.functional as TF
from compare_torch import torch_names as t
from compare_torch.our_side import Helpers as ours
from math import inf, nan
"""


def numbers(array: np.ndarray) -> str:
    if array.size > 400:
        return f"[...]  # {array.size} elements: --json has them"
    return repr(array.tolist())


def made(x: Input, library: str) -> str:
    text = f"{library}.tensor({numbers(x.array)}, dtype={library}.{x.dtype})"
    if x.array.size == 0 or x.array.ndim == 0:
        text += f".reshape({x.array.shape})"
    if library == "torch":
        return text + (".requires_grad_()" if x.grad else "")
    views = {"transposed": ".swapaxes(-1, -2)", "reversed": "[::-1]"}
    if x.layout == "strided" and x.array.ndim >= 1 and x.array.size > 0:
        array = np.repeat(x.array, 2, -1)
        return f"gb.tensor({numbers(array)}, dtype=gb.{x.dtype})[..., ::2]"
    rank = 2 if x.layout == "transposed" else 1
    view = views.get(x.layout) if x.array.ndim >= rank else None
    if view is None:
        return text
    array = np.swapaxes(x.array, -1, -2) if x.layout == "transposed" else x.array[::-1]
    return f"gb.tensor({numbers(array)}, dtype=gb.{x.dtype}){view}  # {x.layout}"


def script(program: Program, shapes: list[tuple[int, ...]], floats: list[bool]) -> str:
    """`shapes` of the outputs, and which of them are floats."""
    lines = [HEAD]
    names = ", ".join(f"x{at}" for at in range(len(program.inputs)))
    for library in ("gb", "torch"):
        lines.append(f"\ndef in_{library}({names}):")
        for at, call in enumerate(program.calls):
            op = OPERATIONS[call.op]
            template: Any = op.ours if library == "gb" else op.torch
            lines.append(f"    v{at} = {expression(template, call.args, library)}")
        lines.append(f"    return [{', '.join(f'v{at}' for at in program.outputs)}]\n")
    for library in ("gb", "torch"):
        for at, x in enumerate(program.inputs):
            lines.append(f"x{at} = {made(x, library)}")
        lines.append(f"print('{library}', in_{library}({names}))")
        if program.order:
            lines += gradient_lines(program, library, names, shapes, floats)
    return "\n".join(lines) + "\n"


def gradient_lines(
    program: Program, library: str, names: str, shapes: list[tuple[int, ...]], floats: list[bool]
) -> list[str]:
    wanted = [at for at, x in enumerate(program.inputs) if x.grad]
    terms = [
        f"(y[{at}] * {library}.tensor({numbers(weight)})).sum()"
        for at, weight in enumerate(weights_of(program, shapes))
        if floats[at]
    ]
    if not wanted or not terms:
        return []
    lines = [f"\ndef loss_{library}({names}):", f"    y = in_{library}({names})", f"    return {' + '.join(terms)}\n"]
    if library == "gb":
        return [*lines, f"print('gb gradients', gb.grad(loss_gb, {wanted})({names}))"]
    inputs = ", ".join(f"x{at}" for at in wanted)
    return [
        *lines,
        f"print('torch gradients', torch.autograd.grad(loss_torch({names}), [{inputs}], allow_unused=True))",
    ]
