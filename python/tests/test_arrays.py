"""Creation, shapes, elements by index and products against NumPy: that arguments are in their places."""

import numpy as np
import pytest

import gabbro as gb
from conftest import close


def test_creation():
    close(gb.zeros((2, 3), dtype="int8"), np.zeros((2, 3), "int8"))
    close(gb.ones(2, dtype=gb.bool), np.ones(2, bool))
    close(gb.empty((0, 2)), np.zeros((0, 2), "float32"))
    for number, dtype in ((7, "int64"), (2.5, "float32"), (True, "bool"), (np.float32(2), "float32")):
        close(gb.full((2, 1), number), np.full((2, 1), number, dtype))
    with pytest.raises(OverflowError, match=r"\[full\] 300 does not fit in uint8"):
        gb.full(2, 300, dtype="uint8")
    like = gb.tensor([[1, 2]], dtype="int16")
    close(gb.zeros_like(like), np.zeros((1, 2), "int16"))
    close(gb.ones_like(like, dtype="float32"), np.ones((1, 2), "float32"))
    close(gb.full_like(like, 7), np.full((1, 2), 7, "int16"))
    close(gb.linspace(1, 2, 4, endpoint=False), np.linspace(1, 2, 4, endpoint=False, dtype="float32"))
    close(gb.eye(2, 3, k=1), np.eye(2, 3, 1, "float32"))
    close(gb.tri(3, 2, k=-1, dtype="int32"), np.tri(3, 2, -1, "int32"))
    close(gb.tril(gb.ones((3, 3)), 1), np.tri(3, 3, 1, "float32"))
    for indexing in ("xy", "ij"):
        for ours, theirs in zip(
            gb.meshgrid(gb.arange(2), gb.arange(3), gb.arange(4), indexing=indexing),
            np.meshgrid(*(np.arange(n) for n in (2, 3, 4)), indexing=indexing),
            strict=True,
        ):
            close(ours, theirs)


def test_views(rng):
    x = rng.random((2, 1, 3)).astype("float32")
    t = gb.tensor(x)
    for ours in (gb.squeeze(t), t.squeeze(), t.squeeze(1), gb.squeeze(t, axis=(-2,))):
        close(ours, x[:, 0])
    close(gb.expand_dims(t, axis=(0, -1)), np.expand_dims(x, (0, -1)))
    close(t.expand_dims(-1), x[..., None])
    close(gb.moveaxis(t, (0, 1), (-1, 0)), np.moveaxis(x, (0, 1), (-1, 0)))
    close(gb.swapaxes(t, 0, 2), x.swapaxes(0, 2))
    close(t.mT, x.swapaxes(-1, -2))
    close(gb.flatten(t, 1), x.reshape(2, 3))
    for ours, theirs in zip(gb.broadcast_arrays(t, gb.ones((4, 1))), np.broadcast_arrays(x, np.ones((4, 1), "f")),
                            strict=True):  # fmt: skip
        close(ours, theirs)
    for ours, theirs in zip(t.unstack(2), np.moveaxis(x, 2, 0), strict=True):
        close(ours, theirs)
    for where in (3, [1], [1, 1, 2], []):
        parts = gb.split(t, indices_or_sections=where, axis=2)
        for ours, theirs in zip(parts, np.split(x, where, axis=2), strict=True):
            close(ours, theirs)


def test_copies(rng):
    x = rng.random((2, 3)).astype("float32")
    t = gb.tensor(x)
    close(gb.concat([t, t], axis=None), np.concatenate([x, x], axis=None))
    close(gb.concat([t, gb.ones((1, 3), dtype="float16")]), np.concatenate([x, np.ones((1, 3), "float32")]))
    close(gb.stack([t, t], axis=-1), np.stack([x, x], axis=-1))
    for width in (1, (1, 2), ((1, 0), (0, 2))):
        close(gb.pad(t, width), np.pad(x, width))
    close(gb.pad(t, 1, "reflect"), np.pad(x, 1, "reflect"))
    close(gb.pad(t, (0, 2), mode="edge"), np.pad(x, (0, 2), "edge"))
    close(gb.pad(t, 1, constant_values=7), np.pad(x, 1, constant_values=7))
    close(gb.array_api.repeat(t, 2), np.repeat(x, 2))
    close(t.repeat(2, axis=0), np.repeat(x, 2, axis=0))
    close(gb.tile(t, (2, 1, 2)), np.tile(x, (2, 1, 2)))
    close(gb.roll(t, 2), np.roll(x, 2))
    close(t.roll((1, -1), axis=(0, 1)), np.roll(x, (1, -1), (0, 1)))
    close(gb.flip(t), np.flip(x))
    close(gb.flip(t, axis=1), np.flip(x, 1))


def test_elements(rng):
    x = rng.random((3, 4)).astype("float32")
    t, i = gb.tensor(x), np.array([[2, 0], [-1, 1]])
    close(gb.take(t, gb.tensor(i), axis=0), np.take(x, i, axis=0))
    close(gb.take(t, gb.tensor(i)), np.take(x, i))
    expected = x.copy()
    np.put_along_axis(expected, np.array([[0], [3], [1]]), 7, axis=1)
    close(gb.put_along_axis(t, gb.tensor([[0], [3], [1]]), gb.full((3, 1), 7)), expected)
    for ours, theirs in zip(gb.array_api.nonzero(t > 0.5), np.nonzero(x > 0.5), strict=True):
        close(ours, theirs)
    values = np.array([[3, 1, 3], [2, 1, 3]], "int32")
    found = gb.unique_all(gb.tensor(values))
    expected = np.unique(values, return_index=True, return_inverse=True, return_counts=True)
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        close(ours, theirs.astype("int64" if number else "int32"))
    close(gb.unique_values(gb.tensor(values)), expected[0])
    close(gb.unique_counts(gb.tensor(values)).counts, expected[3])
    close(gb.unique_inverse(gb.tensor(values)).inverse_indices, expected[2])


def test_products(rng):
    a, b = rng.random((2, 3, 4)).astype("float32"), rng.random((4, 5)).astype("float32")
    x, y = gb.tensor(a), gb.tensor(b)
    close(x @ y, a @ b, epsilons=32)
    close(gb.matmul(x, y[:, 0]), a @ b[:, 0], epsilons=32)
    close(gb.einsum("bij,jk->bik", x, y), a @ b, epsilons=32)
    close(gb.einsum("...ij->...ji", x), a.swapaxes(-1, -2))
    close(gb.tensordot(x, y, axes=1), np.tensordot(a, b, 1), epsilons=32)
    close(gb.tensordot(x, y, axes=([2], [0])), np.tensordot(a, b, ([2], [0])), epsilons=32)
    close(gb.vecdot(x, x, axis=-2), (a * a).sum(1), epsilons=32)
    close(gb.dot(x, y), a.dot(b), epsilons=32)
    close(gb.outer(y[0], y[1]), np.outer(b[0], b[1]))
    w = rng.random((2, 4, 5)).astype("float32")
    expected = np.einsum("bi,oij,bj->bo", a[:, 0], w, b[:2])
    close(gb.bilinear(x[:, 0], y[:2], gb.tensor(w)), expected, epsilons=64)
    q, k, v = (rng.random((2, 3, 4)).astype("float32") for _ in range(3))
    scores = q @ k.swapaxes(-1, -2) / 2
    scores[:, ~np.tri(3, dtype=bool)] = -np.inf
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    mask = gb.tri(3, dtype=bool)
    for options in ({"is_causal": True}, {"attn_mask": mask}, {"attn_mask": mask, "scale": 0.5}):
        attended = gb.scaled_dot_product_attention(*map(gb.tensor, (q, k, v)), **options)
        close(attended, weights @ v, epsilons=64)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("int8", "uint8", "int16"), ("float16", "bfloat16", "float32"), ("bool", "int8", "int8"),
     ("int64", "float16", "float16"), ("float64", "float32", "float64"), ("int32", 2.5, "float32"),
     ("int8", 2, "int8"), ("bool", 2, "int64"), ("float16", 2.5, "float16"), ("bool", True, "bool")],
)  # fmt: skip
def test_dtypes_meet(a, b, expected):
    other = gb.ones(2, dtype=b) if isinstance(b, str) else b
    assert (gb.ones(2, dtype=a) + other).dtype == expected
    assert gb.maximum(other, gb.ones(2, dtype=a)).dtype == expected
    assert gb.result_type(gb.ones(2, dtype=a), other) == expected


def test_what_is_known_of_dtypes():
    assert gb.finfo(gb.float32).eps == np.finfo("float32").eps and gb.finfo("bfloat16").bits == 16
    assert gb.finfo("float16").max == 65504 and gb.finfo(gb.ones(2)).smallest_normal == np.finfo("float32").tiny
    assert (gb.iinfo("int8").min, gb.iinfo(gb.int64).max) == (-128, 2**63 - 1)
    for dtype in ("float32", "int8", "uint8", "bool"):
        every = ("bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric",
                 "complex floating")  # fmt: skip
        kinds = {kind for kind in every if gb.isdtype(gb.tensor([1], dtype=dtype).dtype, kind)}
        assert kinds == {
            "float32": {"real floating", "numeric"},
            "int8": {"signed integer", "integral", "numeric"},
            "uint8": {"unsigned integer", "integral", "numeric"},
            "bool": {"bool"},
        }[dtype]
    assert gb.isdtype(gb.int8, (gb.float32, "integral"))
    assert gb.can_cast("int8", "int16") and not gb.can_cast("int16", "int8") and not gb.can_cast("float32", "int64")
    for wrong in (lambda: gb.finfo("int8"), lambda: gb.iinfo("float32"), lambda: gb.isdtype(gb.int8, "letters")):
        with pytest.raises((ValueError, TypeError)):
            wrong()


def test_functions_made_of_others(rng):
    a, b = rng.standard_normal((2, 3, 4)).astype("float32")
    a[0, :3], b[0, :3] = [np.inf, -np.inf, 1], [np.inf, -np.inf, np.inf]
    close(gb.logaddexp(gb.tensor(a), gb.tensor(b)), np.logaddexp(a, b), epsilons=8)
    a[1, 0], b[1, 0] = 0, -0.0
    close(gb.signbit(gb.tensor(b)), np.signbit(b))
    close(gb.signbit(gb.tensor([-1, 0])), np.array([True, False]))
    close(gb.copysign(gb.tensor(a), gb.tensor(b)), np.copysign(a, b))
    ordered, values = np.sort(rng.integers(0, 9, 12)).astype("int32"), rng.integers(-1, 10, (2, 5)).astype("int32")
    for side in ("left", "right"):
        expected = np.searchsorted(ordered, values, side)
        close(gb.searchsorted(gb.tensor(ordered), gb.tensor(values), side=side), expected)
        reversed_ = gb.tensor(ordered[::-1])
        close(gb.searchsorted(reversed_, gb.tensor(values), side=side, sorter=gb.argsort(reversed_)), expected)
    close(gb.cumulative_sum(gb.tensor(values), axis=1), values.cumsum(1).astype("int64"))
    close(gb.diff(gb.tensor(values), n=2), np.diff(values, n=2))
    both = gb.diff(gb.tensor(values), axis=0, prepend=gb.tensor(values), append=gb.tensor(values))
    close(both, np.diff(values, axis=0, prepend=values, append=values))
    assert gb.diff(gb.tensor(values), n=2**40).shape[-1] == 0
    with pytest.raises(ValueError, match="may not be negative"):
        gb.diff(gb.tensor(values), n=-1)


def test_the_array_namespace():
    xp = gb.ones(2).__array_namespace__()
    assert xp is gb.array_api and gb.ones(2).__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match=r"1999"):
        gb.ones(2).__array_namespace__(api_version="1999.12")
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == gb.float32 and "cpu" in [str(d) for d in info.devices()]
    assert set(info.dtypes(kind="integral")) == {"int8", "uint8", "int16", "int32", "int64"}
    assert info.capabilities()["boolean indexing"] and info.default_device() == gb.get_device()
