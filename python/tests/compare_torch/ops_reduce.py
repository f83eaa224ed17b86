"""Reductions, running sums, sorting, and searching."""

from __future__ import annotations

from typing import Any

from .program import DTypeName


def reduced(g) -> dict[str, Any]:
    a = g.number_tensor() if g.chance(0.93) else g.boolean()
    return {"a": a, "axis": g.axes(a), "keepdims": g.chance(0.4)}


def reduced_float(g) -> dict[str, Any]:
    a = g.floating()
    return {"a": a, "axis": g.axes(a), "keepdims": g.chance(0.4)}


def reduced_any(g) -> dict[str, Any]:
    a = g.any()
    return {"a": a, "axis": g.axes(a), "keepdims": g.chance(0.4)}


def summed_as(g) -> dict[str, Any]:
    a = g.number_tensor()
    return {"a": a, "axis": g.axes(a), "dtype": DTypeName(g.choose("float32", *g.dtypes))}


def multiplied(g) -> dict[str, Any]:
    args = reduced(g)
    if g.value(args["a"]).numel() > 300:
        args["a"] = g.new_float(g.shape(most=60))
        args["axis"] = g.axes(args["a"])
    return args


def spread(g) -> dict[str, Any]:
    return {**reduced_float(g), "correction": g.choose(0, 0, 1, 1, 2, 0.5)}


def placed(g) -> dict[str, Any]:
    a = g.any()
    return {"a": a, "axis": g.choose(None, g.axis(a)), "keepdims": g.chance(0.3)}


def along(g) -> dict[str, Any]:
    a = g.number_tensor(least=0 if g.chance(0.1) else 1)
    return {"a": a, "axis": g.axis(a)}


def along_float(g) -> dict[str, Any]:
    a = g.floating()
    return {"a": a, "axis": g.axis(a)}


def sums(g) -> dict[str, Any]:
    a = g.number_tensor(least=1)
    return {"a": a, "axis": g.axis(a), "first": g.choose(True, False)}


def ordered(g) -> dict[str, Any]:
    a = g.any(least=1)
    return {"a": a, "axis": g.axis(a), "descending": g.chance(0.4)}


def largest(g) -> dict[str, Any]:
    a = g.number_tensor(least=1)
    axis = g.axis(a)
    return {"a": a, "k": g.integer(0, g.shape_of(a)[axis]), "axis": axis, "largest": g.chance(0.6)}


def differences(g) -> dict[str, Any]:
    a = g.number_tensor(least=1)
    return {"a": a, "axis": g.axis(a), "n": g.choose(1, 1, 2, 0)}


def searched(g) -> dict[str, Any]:
    a = g.floating(rank=1)
    return {"a": a, "b": g.floating(dtype=g.dtype(a)), "right": g.chance(0.5)}


def add_rows(op) -> None:
    for name in ("sum", "mean"):
        theirs = "t.mean(a, axis, keepdims)" if name == "mean" else "t.over(torch.sum, a, axis, keepdims)"
        op(name, f"gb.{name}(a, axis, keepdims)", theirs, reduced, inner=True, weight=2)
        op(f"method {name}", f"a.{name}(axis=axis, keepdims=keepdims)", theirs, reduced, inner=True)
    op(
        "sum dtype",
        "gb.sum(a, axis=axis, dtype=dtype)",
        "torch.sum(a, dim=t.dims(a, axis), dtype=dtype)",
        summed_as,
        inner=True,
        weight=0.5,
    )
    op("prod", "gb.prod(a, axis, keepdims)", "t.prod(a, axis, keepdims)", multiplied, inner=True)
    for name in ("max", "min"):
        op(name, f"gb.{name}(a, axis, keepdims)", f"t.over(torch.a{name}, a, axis, keepdims)", reduced, exact=True)
        op(f"method {name}", f"a.{name}()", f"a.{name}()", reduced_only, exact=True, weight=0.4)
    op(
        "logsumexp",
        "gb.logsumexp(a, axis, keepdims)",
        "t.logsumexp(a, axis, keepdims)",
        reduced_float,
        inner=True,
    )
    for name in ("any", "all"):
        op(
            name,
            f"gb.{name}(a, axis, keepdims)",
            f"t.over(torch.{name}, a != 0, axis, keepdims)",
            reduced_any,
            exact=True,
            weight=0.5,
        )
    op(
        "count_nonzero",
        "gb.count_nonzero(a, axis, keepdims=keepdims)",
        "t.over(torch.sum, a != 0, axis, keepdims)",
        reduced_any,
        exact=True,
        weight=0.5,
    )
    for name in ("var", "std"):
        op(
            name,
            f"gb.{name}(a, axis, correction=correction, keepdims=keepdims)",
            f"t.spread(torch.{name}, a, axis, correction, keepdims)",
            spread,
            inner=True,
        )
    for name in ("argmax", "argmin"):
        op(
            name,
            f"gb.{name}(a, axis, keepdims)",
            f"t.argument(torch.{name}, a, axis, keepdims)",
            placed,
            exact=True,
            weight=0.6,
        )
    add_running(op)
    add_sorting(op)


def reduced_only(g) -> dict[str, Any]:
    return {"a": g.number_tensor()}


def add_running(op) -> None:
    op("cumsum", "gb.cumsum(a, axis)", "torch.cumsum(a, axis)", along, inner=True)
    op(
        "cumulative_sum",
        "gb.cumulative_sum(a, axis=axis, include_initial=first)",
        "t.cumulative(torch.cumsum, a, axis, 0 if first else None)",
        sums,
        inner=True,
        weight=0.5,
    )
    op(
        "cumulative_prod",
        "gb.cumulative_prod(a, axis=axis, include_initial=first)",
        "t.cumulative(torch.cumprod, a, axis, 1 if first else None)",
        sums,
        inner=True,
        weight=0.5,
    )
    op("diff", "gb.diff(a, axis=axis, n=n)", "torch.diff(a, n, axis)", differences, inner=True, weight=0.5)
    op("softmax", "gb.softmax(a, axis)", "torch.softmax(a, axis)", along_float, inner=True)
    op("log_softmax", "F.log_softmax(a, dim=axis)", "t.log_softmax(a, axis)", along_float, inner=True)


def add_sorting(op) -> None:
    op("sort", "gb.sort(a, axis, descending)", "t.sort(a, axis, descending)", ordered, exact=True)
    op(
        "argsort",
        "gb.argsort(a, axis, descending)",
        "torch.argsort(a, dim=axis, descending=descending, stable=True)",
        ordered,
        exact=True,
        weight=0.6,
    )
    op("topk", "gb.topk(a, k, axis, largest)[0]", "t.topk(a, k, axis, largest)[0]", largest, exact=True)
    # Indices of elements that are equal up to rounding may differ; the elements may not.
    op(
        "topk places",
        "gb.take_along_axis(a, gb.topk(a, k, axis, largest)[1], axis)",
        "torch.gather(a, axis, t.topk(a, k, axis, largest)[1])",
        largest,
        exact=True,
        weight=0.6,
    )
    op(
        "searchsorted",
        "gb.searchsorted(gb.sort(a), b, side='right' if right else 'left')",
        "torch.searchsorted(torch.sort(a)[0], b, right=right)",
        searched,
        exact=True,
        weight=0.4,
    )
    op(
        "unique_values",
        "gb.unique_values(gb.detach(a))",
        "torch.unique(a.detach())",
        lambda g: {"a": g.integral()},
        reads=True,
        exact=True,
        weight=0.2,
    )
    op(
        "nonzero",
        "gb.stack(gb.nonzero(a), 0)",
        "torch.stack(torch.nonzero(a, as_tuple=True), 0)",
        lambda g: {"a": g.integral(least=1)},
        reads=True,
        exact=True,
        weight=0.2,
    )
