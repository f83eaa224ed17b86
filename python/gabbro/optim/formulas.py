"""Optimizers with torch.optim's arguments whose formulas are written over tensors."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Tensor
from ..data_types import finfo
from .engine import FormulaOptimizer, State
from .optimizers import Parameters, speed_options


def _decayed(p: Tensor, g: Tensor, group: dict[str, Any]) -> Tensor:
    decay: float = group["weight_decay"]
    return g + decay * p if decay else g


class Adadelta(FormulaOptimizer):
    """Zeiler 2012: v = rho · v + (1 - rho) · g²; d = sqrt((u + eps) / (v + eps)) · g; u likewise of d²; p -= lr · d.

    >>> weight = gb.nn.Parameter(gb.tensor([1.0]))
    >>> optimizer = gb.optim.Adadelta([weight], lr=1.0)
    >>> (3 * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.item() < 1
    True
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        speed_options("Adadelta", foreach, None, differentiable)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})

    @staticmethod
    def _initial(p: Tensor, group: dict[str, Any]) -> State:
        return {"step": 0, "square_avg": _core.zeros_like(p), "acc_delta": _core.zeros_like(p)}

    @staticmethod
    def _moved(p: Tensor, g: Tensor, group: dict[str, Any], state: State) -> Any:
        g, rho, eps = _decayed(p, g, group), group["rho"], group["eps"]
        state["step"] += 1
        state["square_avg"] = state["square_avg"] * rho + g * g * (1 - rho)
        step = _core.sqrt(state["acc_delta"] + eps) / _core.sqrt(state["square_avg"] + eps) * g
        state["acc_delta"] = state["acc_delta"] * rho + step * step * (1 - rho)
        return p - group["lr"] * step


class Adamax(FormulaOptimizer):
    """Kingma and Ba 2015, with the infinity norm: u = max(β2 · u, abs(g) + eps); p -= lr / (1 - β1ᵗ) · m / u."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        speed_options("Adamax", foreach, None, differentiable)
        numbers = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**numbers, "maximize": maximize})

    @staticmethod
    def _initial(p: Tensor, group: dict[str, Any]) -> State:
        return {"step": 0, "exp_avg": _core.zeros_like(p), "exp_inf": _core.zeros_like(p)}

    @staticmethod
    def _moved(p: Tensor, g: Tensor, group: dict[str, Any], state: State) -> Any:
        g, (beta1, beta2) = _decayed(p, g, group), group["betas"]
        state["step"] += 1
        state["exp_avg"] = state["exp_avg"] + (g - state["exp_avg"]) * (1 - beta1)
        state["exp_inf"] = _core.maximum(state["exp_inf"] * beta2, _core.abs(g) + group["eps"])
        return p - group["lr"] / (1 - beta1 ** state["step"]) * (state["exp_avg"] / state["exp_inf"])


def _moments(g: Tensor, betas: tuple[float, float], state: State) -> None:
    state["step"] += 1
    state["exp_avg"] = state["exp_avg"] + (g - state["exp_avg"]) * (1 - betas[0])
    state["exp_avg_sq"] = state["exp_avg_sq"] * betas[1] + g * g * (1 - betas[1])


def _with_decay(p: Tensor, g: Tensor, group: dict[str, Any]) -> tuple[Tensor, Tensor]:
    if group["decoupled_weight_decay"]:
        return p * (1 - group["lr"] * group["weight_decay"]), g
    return p, _decayed(p, g, group)


class NAdam(FormulaOptimizer):
    """Dozat 2016: Adam with Nesterov's momentum, whose schedule is μ = β1 · (1 - ½ · 0.96^(t · momentum_decay))."""

    _numbers = ("step", "mu_product")

    def __init__(
        self,
        params: Parameters,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        speed_options("NAdam", foreach, None, differentiable)
        numbers = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay}
        super().__init__(params, {**numbers, "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize})

    @staticmethod
    def _initial(p: Tensor, group: dict[str, Any]) -> State:
        return {"step": 0, "mu_product": 1.0, "exp_avg": _core.zeros_like(p), "exp_avg_sq": _core.zeros_like(p)}

    @staticmethod
    def _moved(p: Tensor, g: Tensor, group: dict[str, Any], state: State) -> Any:
        p, g = _with_decay(p, g, group)
        (beta1, beta2), lr = group["betas"], group["lr"]
        _moments(g, group["betas"], state)
        t = state["step"]
        mu = beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"]))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((t + 1) * group["momentum_decay"]))
        product = state["mu_product"] = state["mu_product"] * mu
        root = _core.sqrt(state["exp_avg_sq"] / (1 - beta2**t)) + group["eps"]
        p = p - lr * (1 - mu) / (1 - product) * (g / root)
        return p - lr * mu_next / (1 - product * mu_next) * (state["exp_avg"] / root)


class RAdam(FormulaOptimizer):
    """Liu et al. 2020: Adam, whose adaptive rate is rectified by its variance, and left out in the first steps."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        speed_options("RAdam", foreach, None, differentiable)
        numbers = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**numbers, "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize})

    @staticmethod
    def _initial(p: Tensor, group: dict[str, Any]) -> State:
        return {"step": 0, "exp_avg": _core.zeros_like(p), "exp_avg_sq": _core.zeros_like(p)}

    @staticmethod
    def _moved(p: Tensor, g: Tensor, group: dict[str, Any], state: State) -> Any:
        p, g = _with_decay(p, g, group)
        (beta1, beta2), lr = group["betas"], group["lr"]
        _moments(g, group["betas"], state)
        t = state["step"]
        second = 1 - beta2**t
        mean = state["exp_avg"] / (1 - beta1**t)
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * t * beta2**t / second
        if length <= 5:
            return p - lr * mean
        rectified = math.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
        adaptive = math.sqrt(second) / (_core.sqrt(state["exp_avg_sq"]) + group["eps"])
        return p - lr * rectified * (mean * adaptive)


class ASGD(FormulaOptimizer):
    """Polyak and Juditsky 1992: gradient descent with a mean of the parameters, in the state ``"ax"``."""

    _numbers = ("step", "eta", "mu")

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        speed_options("ASGD", foreach, None, differentiable)
        numbers = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        super().__init__(params, {**numbers, "maximize": maximize})

    @staticmethod
    def _initial(p: Tensor, group: dict[str, Any]) -> State:
        return {"step": 0, "eta": group["lr"], "mu": 1.0, "ax": _core.zeros_like(p)}

    @staticmethod
    def _moved(p: Tensor, g: Tensor, group: dict[str, Any], state: State) -> Any:
        g = _decayed(p, g, group)
        state["step"] += 1
        p = p * (1 - group["lambd"] * state["eta"]) - state["eta"] * g
        state["ax"] = +p if state["mu"] == 1 else state["ax"] + (p - state["ax"]) * state["mu"]
        state["eta"] = group["lr"] / (1 + group["lambd"] * group["lr"] * state["step"]) ** group["alpha"]
        state["mu"] = 1 / max(1, state["step"] - group["t0"])
        return p


class Rprop(FormulaOptimizer):
    """Riedmiller and Braun 1993: step sizes grow while the gradient keeps its sign, and shrink where it changes."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        speed_options("Rprop", foreach, None, differentiable)
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"[optim] etas of a Rprop are {etas}: one below 1 and one above")
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize})

    @staticmethod
    def _initial(p: Tensor, group: dict[str, Any]) -> State:
        sizes = _core.full_like(p, group["lr"])
        return {"step": 0, "prev": _core.zeros_like(p), "step_size": sizes}

    @staticmethod
    def _moved(p: Tensor, g: Tensor, group: dict[str, Any], state: State) -> Any:
        (smaller, larger), (least, most) = group["etas"], group["step_sizes"]
        state["step"] += 1
        sign = g * state["prev"]
        factor = _core.where(sign > 0, larger, _core.where(sign < 0, smaller, 1.0).astype(p.dtype))
        state["step_size"] = _core.clip(state["step_size"] * factor, least, most)
        g = _core.where(sign < 0, 0.0, g)
        state["prev"] = g
        return p - _core.sign(g) * state["step_size"]


class Adafactor(FormulaOptimizer):
    """Shazeer and Stern 2018: second moments of matrices as products of a column and a row."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if beta2_decay > 0:
            raise ValueError(f"[optim] beta2_decay of an Adafactor is not positive: {beta2_decay}")
        if d < 1:
            raise ValueError(f"[optim] d of an Adafactor is 1 or larger, not {d}")
        numbers = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay}
        super().__init__(params, {**numbers, "maximize": maximize})

    @staticmethod
    def _initial(p: Tensor, group: dict[str, Any]) -> State:
        if p.ndim < 2:
            return {"step": 0, "variance": _core.zeros_like(p)}
        rows, columns = (*p.shape[:-1], 1), (*p.shape[:-2], 1, p.shape[-1])
        options: dict[str, Any] = {"dtype": p.dtype, "device": p.device}
        return {"step": 0, "row_var": _core.zeros(rows, **options), "col_var": _core.zeros(columns, **options)}

    @staticmethod
    def _moved(p: Tensor, g: Tensor, group: dict[str, Any], state: State) -> Any:
        first, second = group["eps"]
        least = finfo(p.dtype).eps if first is None else first
        state["step"] += 1
        share = state["step"] ** group["beta2_decay"]
        rate = min(group["lr"], 1 / math.sqrt(state["step"]))
        count = math.prod(p.shape)
        size = _core.sqrt(_core.sum(p * p)) / math.sqrt(count)
        alpha = _core.maximum(size, second) * rate
        if group["weight_decay"]:
            p = p * (1 - group["lr"] * group["weight_decay"])
        squares = g * g
        if p.ndim > 1:
            state["row_var"] = state["row_var"] + (_core.mean(squares, -1, True) - state["row_var"]) * share
            state["col_var"] = state["col_var"] + (_core.mean(squares, -2, True) - state["col_var"]) * share
            of_rows = _core.clip(_core.mean(state["row_var"], -2, True), least)
            variance = _core.matmul(state["row_var"], state["col_var"]) / of_rows
        else:
            state["variance"] = state["variance"] + (squares - state["variance"]) * share
            variance = state["variance"]
        update = _core.rsqrt(_core.clip(variance, least * least)) * g
        norm = _core.sqrt(_core.sum(update * update)) / (math.sqrt(count) * group["d"])
        return p - alpha / _core.maximum(norm, 1.0) * update
