"""Shapes: views, joining, padding, creation. Places are in ops_pick."""

from __future__ import annotations

from typing import Any

from .ops_pick import add_picking
from .program import FLOATS, DTypeName, Ref, Unfit


def factors(g, count: int) -> tuple[int, ...]:
    """A shape with `count` elements."""
    shape = []
    for _ in range(g.integer(0, 3)):
        divisors = [n for n in range(1, count + 1) if count % n == 0] if count else [0, 1, 2]
        shape.append(g.choose(*divisors[:40]))
        count = count // shape[-1] if shape[-1] else 0
    return (*shape, count)


def reshaped(g) -> dict[str, Any]:
    a = g.any()
    count = g.value(a).numel()
    shape = factors(g, count)
    if count and g.chance(0.3):
        at = g.integer(0, len(shape) - 1)
        shape = (*shape[:at], -1, *shape[at + 1 :])
    return {"a": a, "shape": shape}


def permuted(g) -> dict[str, Any]:
    a = g.any()
    axes = g.random.sample(range(g.rank(a)), g.rank(a))
    return {"a": a, "axes": tuple(axis - g.rank(a) if g.chance(0.2) else axis for axis in axes)}


def two_axes(g) -> dict[str, Any]:
    a = g.any(least=1)
    return {"a": a, "i": g.axis(a), "j": g.axis(a)}


def matrices(g) -> dict[str, Any]:
    return {"a": g.any(least=2)}


def flattened(g) -> dict[str, Any]:
    a = g.any(least=1)
    first = g.integer(0, g.rank(a) - 1)
    return {"a": a, "first": first, "last": g.integer(first, g.rank(a) - 1)}


def squeezed(g) -> dict[str, Any]:
    a = g.any(least=1)
    ones = [axis for axis, n in enumerate(g.shape_of(a)) if n == 1]
    if not ones:
        raise Unfit
    return {"a": a, "axis": g.choose(*ones)}


def new_axis(g) -> dict[str, Any]:
    a = g.any()
    return {"a": a, "axis": g.integer(-g.rank(a) - 1, g.rank(a))}


def stretched(g) -> dict[str, Any]:
    a = g.any()
    shape = tuple(g.integer(1, 4) if n == 1 else n for n in g.shape_of(a))
    return {"a": a, "shape": (*g.shape(g.integer(0, 2), most=20), *shape)}


def axes_flipped(g) -> dict[str, Any]:
    a = g.any(least=1)
    axes = g.axes(a)
    return {"a": a, "axis": axes}


def rolled(g) -> dict[str, Any]:
    a = g.any(least=1)
    axis = g.choose(None, g.axis(a))
    return {"a": a, "shift": g.integer(-9, 9), "axis": axis}


def repeated(g) -> dict[str, Any]:
    a = g.any(least=1)
    axis = g.choose(None, g.axis(a))
    count = g.value(a).numel() if axis is None else g.shape_of(a)[axis]
    few = 1 < count < 20 and g.chance(0.3)
    return {"a": a, "n": [g.integer(0, 3) for _ in range(count)] if few else g.integer(0, 3), "axis": axis}


def tiled(g) -> dict[str, Any]:
    a = g.any()
    return {"a": a, "n": tuple(g.integer(1, 3) for _ in range(g.integer(1, 3)))}


def same_but(g, a: Ref, axis: int) -> Ref:
    """A tensor with another length along an axis."""
    shape = list(g.shape_of(a))
    shape[axis] = g.choose(*range(1, 6))
    dtype = g.dtype(a) if g.chance(0.9) else g.choose(*g.dtypes)
    return g.new_float(tuple(shape), dtype) if dtype in FLOATS else g.new_integer(tuple(shape), 0, 1, dtype)


def joined(g) -> dict[str, Any]:
    a = g.any(least=1)
    axis = g.axis(a)
    arrays = [a, *(a if g.chance(0.15) else same_but(g, a, axis) for _ in range(g.integer(0, 3)))]
    g.random.shuffle(arrays)
    return {"arrays": arrays, "axis": axis if g.chance(0.9) else None}


def stacked(g) -> dict[str, Any]:
    a = g.floating()
    arrays = [a, *(a if g.chance(0.2) else g.like(a) for _ in range(g.integer(0, 2)))]
    return {"arrays": arrays, "axis": g.integer(-g.rank(a) - 1, g.rank(a))}


def divided(g) -> dict[str, Any]:
    a = g.any(least=1)
    axis = g.axis(a)
    length = g.shape_of(a)[axis]
    if g.chance(0.5):
        counts = [n for n in range(1, length + 1) if length % n == 0]
        if not counts:
            raise Unfit
        parts = g.choose(*counts)
        return {"a": a, "parts": parts, "axis": axis, "which": g.integer(0, parts - 1)}
    starts = tuple(sorted(g.integer(0, length) for _ in range(g.integer(1, 3))))
    return {"a": a, "parts": starts, "axis": axis, "which": g.integer(0, len(starts))}


def unstacked(g) -> dict[str, Any]:
    a = g.any(least=1)
    axis = g.axis(a)
    if g.shape_of(a)[axis] == 0:
        raise Unfit
    return {"a": a, "axis": axis, "which": g.integer(0, g.shape_of(a)[axis] - 1)}


def padded(g) -> dict[str, Any]:
    a = g.any(least=1)
    mode = g.choose("constant", "constant", "reflect", "edge")
    if mode != "constant" and 0 in g.shape_of(a):
        raise Unfit
    most = [3 if mode != "reflect" else max(n - 1, 0) for n in g.shape_of(a)]
    widths = tuple((g.integer(0, min(n, 3)), g.integer(0, min(n, 3))) for n in most)
    value = g.choose(0, 1, 2, 1.5) if g.dtype(a) in FLOATS else g.choose(0, 1)
    return {"a": a, "widths": widths, "mode": mode, "value": value}


def triangle(g) -> dict[str, Any]:
    return {"a": g.any(least=2), "k": g.integer(-3, 3)}


def filled(g) -> dict[str, Any]:
    return {"shape": g.shape(), "value": g.number(), "dtype": DTypeName(g.choose(*g.dtypes))}


def ranged(g) -> dict[str, Any]:
    step = g.choose(1, 2, -1, 0.5, 3)
    return {"start": g.integer(-3, 3), "stop": g.integer(-9, 20), "step": step}


def spaced(g) -> dict[str, Any]:
    return {
        "start": round(g.random.uniform(-5, 5), 2),
        "stop": round(g.random.uniform(-5, 5), 2),
        "n": g.integer(1, 20),
    }


def square(g) -> dict[str, Any]:
    return {"n": g.integer(0, 6), "m": g.integer(0, 6)}


def like(g) -> dict[str, Any]:
    return {"a": g.any(), "value": g.integer(0, 5)}


def gridded(g) -> dict[str, Any]:
    return {"a": g.floating(rank=1), "b": g.floating(rank=1), "how": g.choose("xy", "ij"), "which": g.choose(0, 1)}


def add_rows(op) -> None:
    move = {"exact": True, "weight": 0.6}
    op("reshape", "gb.reshape(a, shape)", "torch.reshape(a, shape)", reshaped, exact=True)
    op("method reshape", "a.reshape(*shape)", "a.reshape(shape)", reshaped, exact=True, weight=0.5)
    op("permute_dims", "gb.permute_dims(a, axes)", "torch.permute(a, axes)", permuted, exact=True)
    op("swapaxes", "gb.swapaxes(a, i, j)", "torch.swapaxes(a, i, j)", two_axes, **move)
    op("method transpose", "a.transpose(i, j)", "a.transpose(i, j)", two_axes, **move)
    op("moveaxis", "gb.moveaxis(a, i, j)", "torch.moveaxis(a, i, j)", two_axes, **move)
    op("matrix_transpose", "gb.matrix_transpose(a)", "a.mT", matrices, **move)
    op("flatten", "gb.flatten(a, first, last)", "torch.flatten(a, first, last)", flattened, **move)
    op("squeeze", "gb.squeeze(a, axis)", "torch.squeeze(a, axis)", squeezed, **move)
    op("expand_dims", "gb.expand_dims(a, axis)", "torch.unsqueeze(a, axis)", new_axis, **move)
    op("broadcast_to", "gb.broadcast_to(a, shape)", "torch.broadcast_to(a, shape)", stretched, **move)
    op("flip", "gb.flip(a, axis)", "torch.flip(a, t.dims(a, axis))", axes_flipped, **move)
    op("roll", "gb.roll(a, shift, axis)", "torch.roll(a, shift, axis)", rolled, **move)
    op("repeat", "gb.repeat(a, n, axis)", "t.repeat(a, n, axis)", repeated, **move)
    op("tile", "gb.tile(a, n)", "torch.tile(a, n)", tiled, **move)
    op("concat", "gb.concat(arrays, axis)", "t.concat(arrays, axis)", joined, exact=True)
    op("stack", "gb.stack(arrays, axis)", "torch.stack(arrays, axis)", stacked, exact=True)
    op(
        "split",
        "gb.split(a, indices_or_sections=parts, axis=axis)[which]",
        "torch.tensor_split(a, parts, axis)[which]",
        divided,
        **move,
    )
    op("unstack", "gb.unstack(a, axis)[which]", "torch.unbind(a, axis)[which]", unstacked, **move)
    op("pad", "gb.pad(a, widths, mode, value)", "t.pad(a, widths, mode, value)", padded, exact=True)
    op("tril", "gb.tril(a, k)", "torch.tril(a, k)", triangle, **move)
    op("triu", "gb.triu(a, k)", "torch.triu(a, k)", triangle, **move)
    add_picking(op)
    add_creation(op)


def add_creation(op) -> None:
    few = {"weight": 0.15, "exact": True}
    op("full", "gb.full(shape, value, dtype=dtype)", "torch.full(shape, value, dtype=dtype)", filled, **few)
    op(
        "zeros",
        "gb.zeros(shape, dtype=dtype)",
        "torch.zeros(shape, dtype=dtype)",
        lambda g: {"shape": g.shape(), "dtype": DTypeName(g.choose(*g.dtypes))},
        **few,
    )
    op("full_like", "gb.full_like(a, value)", "t.full_like(a, value)", like, **few)
    op("ones_like", "gb.ones_like(a)", "torch.ones_like(a)", lambda g: {"a": g.any()}, **few)
    op("arange", "gb.arange(start, stop, step, dtype=gb.float32)", "t.arange(start, stop, step)", ranged, **few)
    op("linspace", "gb.linspace(start, stop, n)", "torch.linspace(start, stop, n)", spaced, weight=0.15, inner=True)
    op("eye", "gb.eye(n, m)", "torch.eye(n, m)", square, **few)
    op(
        "meshgrid",
        "gb.meshgrid(a, b, indexing=how)[which]",
        "torch.meshgrid(a, b, indexing=how)[which]",
        gridded,
        **few,
    )
