"""Places: indexing, masks, gathering and scattering."""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import FLOATS, Ref, Unfit


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
