"""Norms, convolutions, pools, losses."""

from __future__ import annotations

from typing import Any

from .operations import NARROW
from .program import Ref, Unfit


# Norms.
def along_last(g) -> dict[str, Any]:
    a = g.floating(least=1)
    shape = g.shape_of(a)[-1:]
    given = g.chance(0.7)
    weight = g.new_float(shape, g.dtype(a)) if given else None
    bias = g.new_float(shape, g.dtype(a)) if given and g.chance(0.7) else None
    return {"a": a, "w": weight, "bias": bias, "eps": g.choose(1e-5, 1e-5, 1e-3)}


def along_shape(g) -> dict[str, Any]:
    a = g.floating(least=1)
    shape = g.shape_of(a)
    last = shape[len(shape) - g.integer(1, min(2, len(shape))) :]
    weight = g.new_float(last, g.dtype(a)) if g.chance(0.7) else None
    return {"a": a, "shape": last, "w": weight, "eps": g.choose(1e-5, 1e-3)}


def channels(g, a: Ref) -> int:
    return g.shape_of(a)[1]


def grouped(g) -> dict[str, Any]:
    a = g.floating(least=2)
    count = channels(g, a)
    divisors = [n for n in range(1, count + 1) if count % n == 0]
    if not divisors or g.value(a).numel() == 0:
        raise Unfit
    given = g.chance(0.7)
    weight, bias = (g.new_float((count,), g.dtype(a)) if given else None for _ in range(2))
    return {"a": a, "groups": g.choose(*divisors), "w": weight, "bias": bias, "eps": 1e-5}


def batch_norm(g) -> dict[str, Any]:
    """Moments, weight and bias in float32, as modules hold them."""
    a = g.floating(least=2)
    shape = (channels(g, a),)
    if g.value(a).numel() // max(shape[0], 1) < 2:
        raise Unfit
    mean = g.new_float(shape, "float32")
    variance = g.positive(g.new_float(shape, "float32"), 0.25, 2.0)
    for ref in (mean, variance):
        g.program.inputs[ref.number].grad = False
    given = g.chance(0.7)
    weight, bias = (g.new_float(shape, "float32") if given else None for _ in range(2))
    return {"a": a, "mean": mean, "var": variance, "w": weight, "bias": bias, "eps": 1e-5}


def normalized(g) -> dict[str, Any]:
    a = g.floating(least=1)
    return {"a": a, "dim": g.axis(a)}


def compared(g) -> dict[str, Any]:
    a = g.floating(least=1)
    return {"a": a, "b": g.like(a), "dim": g.axis(a)}


# Windows.
def image(g, axes: int) -> Ref:
    low = 1 if axes == 3 else 2
    shape = (g.integer(1, 2), g.choose(1, 2, 3, 4, 6), *(g.integer(low + 1, 9 - axes) for _ in range(axes)))
    return g.find(
        lambda x: x.ndim == axes + 2 and str(x.dtype)[6:] in g.floats and x.numel() > 0, lambda: g.new_float(shape), 0.5
    )


def conv(axes: int):
    def arguments(g) -> dict[str, Any]:
        a = image(g, axes)
        count = channels(g, a)
        groups = g.choose(1, 1, 1, *(n for n in (2, 3, count) if count % n == 0))
        outputs = groups * g.integer(1, 3)
        kernel = tuple(g.integer(1, 3) for _ in range(axes))
        options = [tuple(g.integer(low, high) for _ in range(axes)) for low, high in ((1, 3), (0, 2), (1, 2))]
        stride, padding, dilation = (option if g.chance(0.5) else option[0] for option in options)
        return {
            "a": a,
            "w": g.new_float((outputs, count // groups, *kernel), g.dtype(a)),
            "bias": g.new_float((outputs,), g.dtype(a)) if g.chance(0.5) else None,
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
            "groups": groups,
        }

    return arguments


def transposed(g) -> dict[str, Any]:
    a = image(g, 2)
    count = channels(g, a)
    groups = g.choose(1, 1, *(n for n in (2, 3) if count % n == 0))
    outputs = groups * g.integer(1, 3)
    stride = g.integer(1, 3)
    return {
        "a": a,
        "w": g.new_float((count, outputs // groups, g.integer(1, 3), g.integer(1, 3)), g.dtype(a)),
        "bias": g.new_float((outputs,), g.dtype(a)) if g.chance(0.5) else None,
        "stride": stride,
        "padding": g.integer(0, 1),
        "more": g.integer(0, stride - 1),
        "groups": groups,
        "dilation": g.choose(1, 1, 2),
    }


def pool(axes: int, largest: bool):
    def arguments(g) -> dict[str, Any]:
        a = image(g, axes)
        kernel = tuple(g.integer(1, 3) for _ in range(axes))
        padding = tuple(g.integer(0, n // 2) for n in kernel)
        args = {"a": a, "kernel": kernel, "stride": g.choose(None, 1, 2), "padding": padding}
        more = {"dilation": g.choose(1, 1, 2)} if largest else {"counts": g.chance(0.5)}
        return {**args, **more}

    return arguments


def resized(g) -> dict[str, Any]:
    bilinear = g.chance(0.6)
    return {
        "a": image(g, 2),
        "size": (g.integer(1, 9), g.integer(1, 9)),
        "mode": "bilinear" if bilinear else "nearest",
        "corners": bilinear and g.chance(0.4),
    }


def adapted(g) -> dict[str, Any]:
    return {"a": image(g, 2), "size": (g.integer(1, 6), g.integer(1, 6))}


# Losses.
REDUCTIONS = ("mean", "sum", "none")


def loss(g) -> dict[str, Any]:
    a = g.floating()
    if g.value(a).numel() == 0:
        raise Unfit
    return {"a": a, "b": g.like(a), "how": g.choose(*REDUCTIONS)}


def loss_with_size(g) -> dict[str, Any]:
    return {**loss(g), "size": g.choose(1.0, 0.5, 2.0)}


def probabilities(g) -> dict[str, Any]:
    a = g.positive(g.floating(), 0.01, 0.99)
    target = g.positive(a)
    if g.value(a).numel() == 0:
        raise Unfit
    g.program.inputs[target.number].grad = False
    return {"a": a, "b": target, "how": g.choose(*REDUCTIONS)}


def logits(g) -> dict[str, Any]:
    a = g.floating()
    target = g.positive(a)
    if g.value(a).numel() == 0:
        raise Unfit
    g.program.inputs[target.number].grad = False
    return {
        "a": a,
        "b": target,
        "how": g.choose(*REDUCTIONS),
        "w": g.partner(a, g.dtype(a)) if g.chance(0.2) else None,
        "pos": g.positive(a) if g.chance(0.3) else None,
    }


def classes(g) -> dict[str, Any]:
    a = g.floating(rank=g.choose(2, 2, 3))
    shape = g.shape_of(a)
    if g.value(a).numel() == 0:
        raise Unfit
    target = g.new_integer((shape[0], *shape[2:]), 0, shape[1] - 1, g.choose("int64", "int32"))
    given = g.chance(0.3)
    weight = g.positive(g.new_float((shape[1],), g.dtype(a)), 0.25, 1.0) if given else None
    if weight is not None:
        g.program.inputs[weight.number].grad = False
    return {
        "a": a,
        "target": target,
        "w": weight,
        "how": g.choose(*REDUCTIONS),
        "ignore": g.choose(-100, 0),
        "smoothing": g.choose(0.0, 0.0, 0.1),
    }


def class_rows(g) -> dict[str, Any]:
    a = g.floating(rank=2)
    shape = g.shape_of(a)
    if g.value(a).numel() == 0:
        raise Unfit
    target = g.new_integer((shape[0],), 0, shape[1] - 1, g.choose("int64", "int32"))
    return {"a": a, "target": target, "how": g.choose(*REDUCTIONS), "ignore": g.choose(-100, 0)}


def add_rows(op) -> None:
    add_norms(op)
    add_windows(op)
    add_losses(op)


def add_norms(op) -> None:
    narrow = {"inner": True, "floats": NARROW}
    op("layer_norm", "gb.layer_norm(a, w, bias, eps)", "t.layer_norm(a, w, bias, eps)", along_last, **narrow)
    op(
        "layer_norm of axes",
        "F.layer_norm(a, shape, w, None, eps)",
        "TF.layer_norm(a, shape, w, None, eps)",
        along_shape,
        weight=0.7,
        **narrow,
    )
    op("rms_norm", "F.rms_norm(a, shape, w, eps)", "TF.rms_norm(a, shape, w, eps)", along_shape, **narrow)
    op(
        "group_norm",
        "F.group_norm(a, groups, w, bias, eps)",
        "t.group_norm(a, groups, w, bias, eps)",
        grouped,
        **narrow,
    )
    op(
        "batch_norm",
        "gb.batch_norm(a, mean, var, w, bias, eps=eps)",
        "t.batch_norm(a, mean, var, w, bias, False, eps)",
        batch_norm,
        weight=0.7,
        **narrow,
    )
    op(
        "batch_norm_training",
        "gb.batch_norm_training(a, mean, var, w, bias, 0.1, eps)[0]",
        "t.batch_norm(a, mean, var, w, bias, True, eps)",
        batch_norm,
        weight=0.7,
        **narrow,
    )
    op("normalize", "F.normalize(a, dim=dim)", "TF.normalize(a, dim=dim)", normalized, inner=True, weight=0.7)
    op(
        "cosine_similarity",
        "F.cosine_similarity(a, b, dim=dim)",
        "TF.cosine_similarity(a, b, dim=dim)",
        compared,
        inner=True,
        weight=0.7,
    )


def add_windows(op) -> None:
    narrow = {"inner": True, "floats": NARROW}
    for axes in (1, 2, 3):
        name = f"conv{axes}d"
        rest = "stride, padding, dilation, groups)"
        op(
            name,
            f"F.{name}(a, w, bias, {rest}",
            f"TF.{name}(a, w, bias, {rest}",
            conv(axes),
            weight=(1, 1, 0.5)[axes - 1],
            **narrow,
        )
        name = f"max_pool{axes}d"
        op(
            name,
            f"F.{name}(a, kernel, stride, padding, dilation)",
            f"TF.{name}(a, kernel, stride, padding, dilation)",
            pool(axes, True),
            exact=True,
            floats=NARROW,
            weight=0.6,
        )
        name = f"avg_pool{axes}d"
        op(
            name,
            f"F.{name}(a, kernel, stride, padding, False, counts)",
            f"TF.{name}(a, kernel, stride, padding, False, counts)",
            pool(axes, False),
            weight=0.6,
            **narrow,
        )
    op(
        "conv_transpose2d",
        "F.conv_transpose2d(a, w, bias, stride, padding, more, groups, dilation)",
        "t.conv_transpose2d(a, w, bias, stride, padding, more, groups, dilation)",
        transposed,
        weight=0.7,
        **narrow,
    )
    op(
        "adaptive_avg_pool2d",
        "F.adaptive_avg_pool2d(a, size)",
        "TF.adaptive_avg_pool2d(a, size)",
        adapted,
        weight=0.5,
        **narrow,
    )
    op(
        "interpolate",
        "F.interpolate(a, size, None, mode, corners if mode == 'bilinear' else None)",
        "TF.interpolate(a, size, mode=mode, align_corners=corners if mode == 'bilinear' else None)",
        resized,
        weight=0.6,
        **narrow,
    )


def add_losses(op) -> None:
    narrow = {"inner": True, "floats": NARROW, "weight": 0.6}
    for name in ("mse_loss", "l1_loss"):
        op(name, f"F.{name}(a, b, reduction=how)", f"TF.{name}(a, b, reduction=how)", loss, **narrow)
    op(
        "smooth_l1_loss",
        "F.smooth_l1_loss(a, b, reduction=how, beta=size)",
        "TF.smooth_l1_loss(a, b, reduction=how, beta=size)",
        loss_with_size,
        **narrow,
    )
    op(
        "huber_loss",
        "F.huber_loss(a, b, how, size)",
        "TF.huber_loss(a, b, reduction=how, delta=size)",
        loss_with_size,
        **narrow,
    )
    op(
        "binary_cross_entropy",
        "F.binary_cross_entropy(a, b, reduction=how)",
        "t.bce(a, b, how)",
        probabilities,
        **narrow,
    )
    op(
        "kl_div",
        "F.kl_div(gb.log(a), b, reduction=how)",
        "TF.kl_div(torch.log(a), b, reduction=how)",
        probabilities,
        **narrow,
    )
    op(
        "binary_cross_entropy_with_logits",
        "F.binary_cross_entropy_with_logits(a, b, w, reduction=how, pos_weight=pos)",
        "TF.binary_cross_entropy_with_logits(a, b, w, reduction=how, pos_weight=pos)",
        logits,
        **narrow,
    )
    op(
        "cross_entropy",
        "F.cross_entropy(a, target, w, ignore_index=ignore, reduction=how, label_smoothing=smoothing)",
        "TF.cross_entropy(a, target.long(), w, ignore_index=ignore, reduction=how, label_smoothing=smoothing)",
        classes,
        **{**narrow, "weight": 1},
    )
    op(
        "nll_loss",
        "F.nll_loss(F.log_softmax(a, 1), target, ignore_index=ignore, reduction=how)",
        "TF.nll_loss(TF.log_softmax(a, 1), target.long(), ignore_index=ignore, reduction=how)",
        class_rows,
        **narrow,
    )
