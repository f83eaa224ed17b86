"""Shapes and places: views, indexing, gathering and scattering, joining, padding, creation."""

from __future__ import annotations

from typing import Any

import numpy as np

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


# Indexing.
def one_slice(g, length: int) -> slice:
    bound = lambda: g.choose(None, None, g.integer(-length - 2, length + 2))  # noqa: E731
    step = g.choose(None, None, 1, 2, 3, -1, -2)
    return slice(bound(), bound(), step)


def basic_key(g, a: Ref, steps: bool = True) -> tuple[Any, ...]:
    key: list[Any] = []
    shape = g.shape_of(a)
    used = g.integer(0, len(shape))
    for axis in range(used):
        if shape[axis] and g.chance(0.35):
            key.append(g.integer(-shape[axis], shape[axis] - 1))
            continue
        part = one_slice(g, shape[axis])
        key.append(part if steps or part.step is None or part.step > 0 else slice(None))
    if g.chance(0.2):
        key.insert(g.integer(0, len(key)), None)
    if used == len(shape) and g.chance(0.2):
        key.insert(g.integer(0, len(key)), Ellipsis)
    elif g.chance(0.15):
        key.append(Ellipsis)
    return tuple(key)


def sliced(g) -> dict[str, Any]:
    a = g.any(least=1)
    return {"a": a, "key": basic_key(g, a)}


def advanced_key(g, a: Ref) -> tuple[Any, ...]:
    """Integers, slices, and one or two tensors or lists of integers."""
    shape = g.shape_of(a)
    rank = len(shape)
    arrays = set(g.random.sample(range(rank), min(rank, g.choose(1, 1, 2))))
    if any(shape[axis] == 0 for axis in arrays):
        raise Unfit
    common = g.shape(g.choose(0, 1, 1, 1, 2), most=30)
    key: list[Any] = []
    for axis in range(max(arrays) + 1 if g.chance(0.5) else rank):
        if axis in arrays:
            size = g.broadcasting(common) if len(arrays) > 1 else common
            if len(size) == 1 and size[0] and g.chance(0.3):
                key.append([g.integer(-shape[axis], shape[axis] - 1) for _ in range(size[0])])
            else:
                key.append(g.indices(size, shape[axis]))
        elif shape[axis] and g.chance(0.25):
            key.append(g.integer(-shape[axis], shape[axis] - 1))
        else:
            part = one_slice(g, shape[axis])
            key.append(part if part.step is None or part.step > 0 else slice(None))
    return tuple(key)


def indexed(g) -> dict[str, Any]:
    a = g.any(least=1)
    return {"a": a, "key": advanced_key(g, a)}


def masked(g) -> dict[str, Any]:
    a = g.any(least=1)
    shape = g.shape_of(a)
    mask = g.add_input(g.numbers.random(shape[: g.integer(1, len(shape))]) < 0.5, "bool")
    return {"a": a, "key": mask}


def assigned(g) -> dict[str, Any]:
    a = g.floating(least=1)
    key = basic_key(g, a, steps=False) if g.chance(0.6) else advanced_key(g, a)
    value: Any = g.number()
    if g.chance(0.6):
        part = np.empty(g.shape_of(a))[_numpy_key(g, key)]
        value = g.new_float(g.broadcasting(part.shape), g.dtype(a))
    if _repeats(g, key, a):
        raise Unfit  # which of several values stays is not said
    return {"a": a, "key": key, "value": value}


def _numpy_key(g, key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(g.value(part).numpy() if isinstance(part, Ref) else part for part in key)


def _repeats(g, key: tuple[Any, ...], a: Ref) -> bool:
    places = np.arange(g.value(a).numel()).reshape(g.shape_of(a))[_numpy_key(g, key)]
    return np.unique(places).size != places.size


def assigned_mask(g) -> dict[str, Any]:
    a = g.any(least=1)
    mask = g.add_input(g.numbers.random(g.shape_of(a)) < 0.5, "bool")
    return {"a": a, "key": mask, "value": g.choose(0, 1) if g.dtype(a) not in FLOATS else g.number()}


def taken(g) -> dict[str, Any]:
    a = g.any(least=1)
    axis = g.choose(None, g.axis(a))
    length = g.value(a).numel() if axis is None else g.shape_of(a)[axis]
    return {"a": a, "i": g.indices(g.shape(g.choose(1, 1, 2), most=30), length), "axis": axis}


def gathered(g) -> dict[str, Any]:
    a = g.any(least=1)
    axis = g.axis(a)
    shape = list(g.shape_of(a))
    length = shape[axis]
    shape[axis] = g.integer(1, 5)
    return {"a": a, "i": g.indices(tuple(shape), length), "axis": axis}


def scattered(g) -> dict[str, Any]:
    a = g.floating(least=1)
    axis = g.axis(a)
    shape = list(g.shape_of(a))
    length = shape[axis]
    shape[axis] = g.integer(1, 5)
    values = g.new_float(tuple(shape), g.dtype(a))
    return {"a": a, "i": g.indices(tuple(shape), length), "b": values, "axis": axis}


def put(g) -> dict[str, Any]:
    """Each place once."""
    a = g.floating(least=1)
    axis = g.axis(a)
    shape = list(g.shape_of(a))
    length = shape[axis]
    shape[axis] = g.integer(0, length)
    if length == 0:
        raise Unfit
    order = np.argsort(g.numbers.random(g.shape_of(a)), axis=axis)
    places = np.take(order, range(shape[axis]), axis=axis)
    places = np.where(g.numbers.random(places.shape) < 0.3, places - length, places)
    dtype = g.choose("int32", "int64")
    i = g.add_input(places.astype(dtype), dtype)
    return {"a": a, "i": i, "b": g.new_float(tuple(shape), g.dtype(a)), "axis": axis}


def rows_added(g) -> dict[str, Any]:
    a = g.floating(least=1)
    shape = g.shape_of(a)
    count = g.integer(1, 6)
    return {"a": a, "i": g.indices((count,), shape[0]), "b": g.new_float((count, *shape[1:]), g.dtype(a))}


# Creation.
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


def add_picking(op) -> None:
    op("getitem slices", "a[key]", "t.index(a, key)", sliced, exact=True, weight=2)
    op("getitem indices", "a[key]", "t.index(a, key)", indexed, exact=True, weight=1.5)
    op("getitem mask", "gb.detach(a)[key]", "a.detach()[key]", masked, exact=True, reads=True, weight=0.3)
    op("setitem", "ours.setitem(a, key, value)", "t.setitem(a, key, value)", assigned, exact=True)
    op(
        "setitem mask",
        "ours.setitem(a, key, value)",
        "t.setitem(a, key, value)",
        assigned_mask,
        exact=True,
        reads=True,
        weight=0.4,
    )
    op("take", "gb.take(a, i, axis=axis)", "t.take(a, i, axis)", taken, exact=True)
    op("take_along_axis", "gb.take_along_axis(a, i, axis)", "t.gather(a, i, axis)", gathered, exact=True)
    op(
        "scatter_add",
        "gb.scatter_add(a, i, b, axis)",
        "torch.scatter_add(a, axis, t.at(a, i, axis), b)",
        scattered,
        inner=True,
    )
    op(
        "put_along_axis",
        "gb.put_along_axis(a, i, b, axis)",
        "torch.scatter(a, axis, t.at(a, i, axis), b)",
        put,
        exact=True,
    )
    op(
        "index_add",
        "gb.index_add(a, i, b)",
        "torch.index_add(a, 0, t.at(a, i, 0), b)",
        rows_added,
        inner=True,
        weight=0.6,
    )


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
