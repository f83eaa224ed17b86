#!/usr/bin/env python3
"""Writes python/tests/data/special_points.npz: PyTorch's values and derivatives of the cases of special_points.py.

Of each case and dtype: the values, and by order and input the derivatives of the sum, each of the weighted sum of the ones
before. Needs torch. Usage: make_special_point_fixtures.py [file]
"""
import pathlib
import sys
import types

import numpy as np
import torch

ROOT = pathlib.Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "python" / "tests"))
import special_points  # noqa: E402


def library():
    functions = {name: getattr(torch.nn.functional, name) for name in dir(torch.nn.functional) if not name.startswith("_")}
    functions["group_norm"] = lambda x, groups: torch.nn.functional.group_norm(x, groups)
    own = {
        "F": types.SimpleNamespace(**functions),
        "prelu": lambda x, slope: torch.nn.functional.prelu(x, torch.full((1,), slope, dtype=x.dtype)),
        "cumprod": lambda x: torch.cumprod(x, -1),
        "sort": lambda x: torch.sort(x, dim=-1, stable=True).values,
        "topk": lambda x, k: torch.topk(x, k).values,
    }
    return types.SimpleNamespace(**{**vars(torch), **own})


def derivatives(lib, case, dtype):
    """The values, then of each order a list: the derivative by each input, or None."""
    inputs = [torch.tensor(x, dtype=dtype, requires_grad=True) for x in case.inputs]
    values = case.function(lib, *inputs)
    result, current = [values.detach().numpy()], [values]
    for order in range(case.order):
        weights = [torch.tensor(special_points.weights(tuple(y.shape)), dtype=dtype) for y in current if y is not None]
        parts = [y for y in current if y is not None]
        total = sum((y * w).sum() for y, w in zip(parts, weights)) if order else parts[0].sum()
        if not (isinstance(total, torch.Tensor) and total.requires_grad):
            break
        try:
            current = torch.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
        except RuntimeError as error:  # PyTorch has no such derivative
            print(error)
            break
        pairs = zip(inputs, current)
        result.append([np.zeros_like(x.detach().numpy()) if g is None else g.numpy(force=True) for x, g in pairs])
    return result


def main(path=ROOT / "python" / "tests" / "data" / "special_points.npz"):
    lib, arrays = library(), {}
    for name, case in special_points.cases():
        for dtype in (torch.float32, torch.float64):
            values, *orders = derivatives(lib, case, dtype)
            key = f"{name}/{str(dtype).removeprefix('torch.')}"
            arrays[f"{key}/0"] = values
            for order, by_input in enumerate(orders, 1):
                for number, derivative in enumerate(by_input):
                    arrays[f"{key}/{order}/{number}"] = derivative
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
