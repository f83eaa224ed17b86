"""The optimizers, with torch.optim's arguments and formulas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import _core
from .._core import Tensor
from .optimizer import Optimizer

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]


def speed_options(name: str, foreach: Any, fused: Any, differentiable: Any) -> None:
    """Arguments of PyTorch's that choose how a step is computed: allowed, since a step is one plan in any case.

    Raises ValueError for `differentiable`, and for `foreach` with `fused`.
    """
    if foreach and fused:
        raise ValueError(f"[{name}] foreach and fused exclude each other")
    if differentiable:
        raise ValueError(f"[{name}] differentiable=True is not supported: steps have no gradients")


class SGD(Optimizer):
    """Gradient descent: b = momentum · b + (1 - dampening) · g; p -= lr · b, or lr · (g + momentum · b) with Nesterov.

    Parameters as in `Optimizer`, and the numbers of the formula; weight_decay · p is added to the gradient. With
    `maximize` all optimizers go the other way.

    >>> weight = gb.nn.Parameter(gb.tensor([1.0]))
    >>> optimizer = gb.optim.SGD([weight], lr=0.5)
    >>> (3 * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([-0.5])
    """

    _kind = _core._SGD

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        speed_options("SGD", foreach, fused, differentiable)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
        )


class Adam(Optimizer):
    """Kingma and Ba 2015: p -= lr / (1 - β1ᵗ) · m / (sqrt(v / (1 - β2ᵗ)) + eps), with weight_decay · p in the gradient.

    With `amsgrad` the largest v so far counts (Reddi et al. 2018).

    >>> weight = gb.nn.Parameter(gb.tensor([1.0]))
    >>> optimizer = gb.optim.Adam([weight], lr=0.5)
    >>> (3 * weight).sum().backward()
    >>> optimizer.step()
    >>> abs(weight.item() - 0.5) < 1e-6
    True
    """

    _kind = _core._Adam

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        speed_options("Adam", foreach, fused, differentiable)
        numbers = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**numbers, "amsgrad": amsgrad, "maximize": maximize})


class AdamW(Optimizer):
    """Loshchilov and Hutter 2019: `Adam`, with p · (1 - lr · weight_decay) before in place of a larger gradient.

    >>> weight = gb.nn.Parameter(gb.tensor([1.0]))
    >>> optimizer = gb.optim.AdamW([weight], lr=0.5, weight_decay=0.0)
    >>> (3 * weight).sum().backward()
    >>> optimizer.step()
    >>> abs(weight.item() - 0.5) < 1e-6
    True
    """

    _kind = _core._AdamW

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        speed_options("AdamW", foreach, fused, differentiable)
        numbers = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**numbers, "amsgrad": amsgrad, "maximize": maximize})


class Lion(Optimizer):
    """Chen et al. 2023: p · (1 - lr · weight_decay) - lr · sign(β1 · m + (1 - β1) · g); m = β2 · m + (1 - β2) · g.

    >>> weight = gb.nn.Parameter(gb.tensor([1.0]))
    >>> optimizer = gb.optim.Lion([weight], lr=0.5)
    >>> (3 * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([0.5])
    """

    _kind = _core._Lion

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})


class Adagrad(Optimizer):
    """Duchi et al. 2011: s += g²; p -= lr / (1 + (t - 1) · lr_decay) · g / (sqrt(s) + eps).

    >>> weight = gb.nn.Parameter(gb.tensor([1.0]))
    >>> optimizer = gb.optim.Adagrad([weight], lr=0.5)
    >>> (3 * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([0.5])
    """

    _kind = _core._Adagrad
    _fixed = ("initial_accumulator_value",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        speed_options("Adagrad", foreach, fused, differentiable)
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "eps": eps,
                "maximize": maximize,
            },
        )


class RMSprop(Optimizer):
    """Hinton 2012, lecture 6e: v = alpha · v + (1 - alpha) · g²; p -= lr · g / (sqrt(v) + eps).

    Centered, v is the variance of the gradients and not their mean square (Graves 2013).

    >>> weight = gb.nn.Parameter(gb.tensor([1.0]))
    >>> optimizer = gb.optim.RMSprop([weight], lr=0.5, alpha=0.75)
    >>> (3 * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([0.])
    """

    _kind = _core._RMSprop

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        speed_options("RMSprop", foreach, None, differentiable)
        super().__init__(
            params,
            {
                "lr": lr,
                "alpha": alpha,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "centered": centered,
                "maximize": maximize,
            },
        )
