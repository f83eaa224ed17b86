"""Products: matmul and what is made of it, einsum, linear layers, attention, tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import Unfit


def product(g) -> dict[str, Any]:
    a = g.floating(least=1)
    shape = g.shape_of(a)
    if g.chance(0.2):
        return {"a": a, "b": g.floating(shape=shape[-1:], dtype=g.dtype(a))}
    batch = g.broadcasting(shape[:-2])
    b = g.new_float((*batch, shape[-1], g.shape(1)[0] if g.chance(0.95) else 0), g.dtype(a))
    return {"a": a, "b": b}


def integer_product(g) -> dict[str, Any]:
    a = g.new_integer(g.shape(2), -9, 9, g.choose("int32", "int64"))
    return {"a": a, "b": g.new_integer((g.shape_of(a)[1], g.integer(1, 5)), -9, 9, g.dtype(a))}


def batches(g) -> dict[str, Any]:
    a = g.floating(rank=3)
    shape = g.shape_of(a)
    return {"a": a, "b": g.new_float((shape[0], shape[2], g.integer(1, 7)), g.dtype(a))}


def vectors(g) -> dict[str, Any]:
    a = g.floating(rank=1)
    return {"a": a, "b": g.floating(rank=1, dtype=g.dtype(a))}


EQUATIONS = [
    "ij,jk->ik",
    "ij,kj->ik",
    "bij,bjk->bik",
    "bhqd,bhkd->bhqk",
    "ij->ji",
    "ij->i",
    "ij,ij->",
    "i,j->ij",
    "ii->i",
    "ii->",
    "...ij,...jk->...ik",
    "ij,j->i",
    "ijk,k->ij",
    "ij,jk,kl->il",
    "abc,cd->abd",
    "i,i->",
    "bij,bij->b",
    "ijk->kj",
]


def einsum(g) -> dict[str, Any]:
    equation = g.choose(*EQUATIONS)
    lengths: dict[str, int] = {}
    operands = []
    first = None
    for term in equation.split("->")[0].split(","):
        shape: tuple[int, ...] = ()
        if term.startswith("..."):
            first = g.shape(g.integer(0, 2), most=6) if first is None else first
            shape = first if g.chance(0.7) else g.broadcasting(first)
            term = term[3:]
        for letter in term:
            lengths.setdefault(letter, g.shape(1, most=9)[0])
        shape += tuple(lengths[letter] for letter in term)
        dtype = g.dtype(operands[0]) if operands else None
        operands.append(g.floating(shape=shape, dtype=dtype) if dtype else g.floating(shape=shape))
    return {"equation": equation, "operands": operands}


def contracted(g) -> dict[str, Any]:
    a = g.floating(least=2)
    shape = g.shape_of(a)
    count = g.integer(0, 2)
    b = g.new_float((*shape[len(shape) - count :], *g.shape(1, most=5)), g.dtype(a))
    return {"a": a, "b": b, "axes": count}


def vecdot(g) -> dict[str, Any]:
    a = g.floating(least=1)
    return {"a": a, "b": g.like(a), "axis": g.integer(-g.rank(a), -1)}


def affine(g) -> dict[str, Any]:
    a = g.floating(least=1)
    n, k = g.integer(1, 9), g.shape_of(a)[-1]
    bias = g.new_float((n,), g.dtype(a)) if g.chance(0.6) else None
    return {"a": a, "w": g.new_float((n, k), g.dtype(a)), "bias": bias}


def two_forms(g) -> dict[str, Any]:
    a = g.floating(least=1)
    shape, o, j = g.shape_of(a), g.integer(1, 4), g.integer(1, 5)
    dtype = g.dtype(a)
    return {
        "a": a,
        "b": g.new_float((*shape[:-1], j), dtype),
        "w": g.new_float((o, shape[-1], j), dtype),
        "bias": g.new_float((o,), dtype) if g.chance(0.5) else None,
    }


def attention(g) -> dict[str, Any]:
    q = g.floating(rank=g.choose(3, 4))
    *batch, length, depth = g.shape_of(q)
    if depth == 0 or 0 in batch:
        raise Unfit
    keys, dtype = g.integer(1, 9), g.dtype(q)
    mask, causal = None, g.chance(0.25)
    if not causal and g.chance(0.5):
        shape = g.broadcasting((*batch, length, keys))
        mask = g.new_float(shape, dtype)
        if g.chance(0.5):
            mask = g.add_input(
                (g.numbers.random(shape) < 0.7) | (np.arange(keys) == 0)[-1 if 1 in shape[-1:] else 0 :]
                if shape and shape[-1] == keys
                else np.ones(shape, bool),
                "bool",
            )
    return {
        "q": q,
        "k": g.new_float((*batch, keys, depth), dtype),
        "v": g.new_float((*batch, keys, g.choose(depth, 3)), dtype),
        "mask": mask,
        "causal": causal,
        "scale": g.choose(None, None, 0.3),
    }


def table(g) -> dict[str, Any]:
    w = g.floating(rank=2)
    rows = g.shape_of(w)[0]
    if rows == 0:
        raise Unfit
    return {"i": g.new_integer(g.shape(g.integer(0, 2), most=20), 0, rows - 1), "w": w}


def hot(g) -> dict[str, Any]:
    return {"i": g.new_integer(g.shape(g.integer(0, 2), most=20), 0, 4), "n": g.integer(5, 7)}


def add_rows(op) -> None:
    inner = {"inner": True}
    op("matmul", "gb.matmul(a, b)", "torch.matmul(a, b)", product, weight=1.5, **inner)
    op("operator @", "a @ b", "a @ b", product, **inner)
    op("matmul of integers", "a @ b", "a @ b", integer_product, exact=True, weight=0.2)
    op("bmm", "gb.bmm(a, b)", "torch.bmm(a, b)", batches, weight=0.6, **inner)
    op("einsum", "gb.einsum(equation, *operands)", "torch.einsum(equation, *operands)", einsum, weight=1.5, **inner)
    op(
        "tensordot",
        "gb.tensordot(a, b, axes=axes)",
        "torch.tensordot(a, b, dims=axes)",
        contracted,
        weight=0.6,
        **inner,
    )
    op("vecdot", "gb.vecdot(a, b, axis)", "torch.linalg.vecdot(a, b, dim=axis)", vecdot, weight=0.6, **inner)
    op("outer", "gb.outer(a, b)", "torch.outer(a, b)", vectors, weight=0.6)
    op("linear", "F.linear(a, w, bias)", "TF.linear(a, w, bias)", affine, weight=1.5, **inner)
    op("bilinear", "F.bilinear(a, b, w, bias)", "TF.bilinear(a, b, w, bias)", two_forms, weight=0.5, **inner)
    op(
        "scaled_dot_product_attention",
        "F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)",
        "t.attention(q, k, v, mask, causal, scale)",
        attention,
        **inner,
    )
    op("embedding", "F.embedding(i, w)", "TF.embedding(i.long(), w)", table, exact=True)
    op("one_hot", "F.one_hot(i, n)", "TF.one_hot(i.long(), n)", hot, exact=True, weight=0.3)
