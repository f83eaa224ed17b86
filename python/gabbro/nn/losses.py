"""The functions of `functional` that are losses, as modules."""

from __future__ import annotations

from typing import Any

from .._core import Module, Tensor
from . import functional


def _absent(name: str, value: Any = None) -> Any:
    """An argument of PyTorch's loss that this one does not have: nothing but this value can be set."""

    def set_value(self: Module, given: Any) -> None:
        if given is not value:
            raise AttributeError(f"[{type(self).__name__}] {name} is not supported: {value}, not {given!r}")

    return property(lambda self: value, set_value)


class _Loss(Module):
    # By name alone: PyTorch has deprecated arguments before it.
    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"[loss] reduction is 'none', 'mean' or 'sum', not '{reduction}'")
        self.reduction = reduction


class MSELoss(_Loss):
    """(x - target)².

    >>> gb.nn.MSELoss()(gb.tensor([1.0, 3.0]), gb.tensor([1.0, 1.0]))
    tensor(2.)
    """

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return functional.mse_loss(x, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The magnitude of x - target.

    >>> gb.nn.L1Loss()(gb.tensor([1.0, 3.0]), gb.tensor([1.0, 1.0]))
    tensor(1.)
    """

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return functional.l1_loss(x, target, reduction=self.reduction)


class BCELoss(_Loss):
    """-target · log(x) - (1 - target) · log(1 - x).

    >>> gb.nn.BCELoss()(gb.tensor([0.5]), gb.tensor([1.0]))
    tensor(0.6931472)
    """

    weight = _absent("weight")

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return functional.binary_cross_entropy(x, target, reduction=self.reduction)


class KLDivLoss(_Loss):
    """target · (log(target) - x), where x holds logarithms.

    >>> gb.nn.KLDivLoss(reduction="sum")(gb.zeros(1), gb.ones(1))
    tensor(0.)
    """

    log_target = _absent("log_target", False)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return functional.kl_div(x, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """d² / (2 · beta) where the difference d is smaller than beta, else its magnitude - beta / 2 (Girshick 2015).

    >>> gb.nn.SmoothL1Loss()(gb.tensor([3.0]), gb.tensor([1.0]))
    tensor(1.5)
    """

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.beta = beta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return functional.smooth_l1_loss(x, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """d² / 2 where the difference d is within delta, else delta · (its magnitude - delta / 2) (Huber 1964).

    >>> gb.nn.HuberLoss()(gb.tensor([3.0]), gb.tensor([1.0]))
    tensor(1.5)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return functional.huber_loss(x, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_Loss):
    """-x[n, target[n]], where x [N, V] holds logarithms.

    >>> gb.nn.NLLLoss()(gb.tensor([[-1.0, -2.0]]), gb.tensor([1]))
    tensor(2.)
    """

    weight = _absent("weight")

    def __init__(self, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.ignore_index = ignore_index

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One number; for each row with ``reduction="none"``."""
        return functional.nll_loss(x, target, ignore_index=self.ignore_index, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """`BCELoss` of sigmoid(x), without losing digits. The weights are buffers.

    >>> gb.nn.BCEWithLogitsLoss()(gb.zeros(1), gb.ones(1))
    tensor(0.6931472)
    """

    def __init__(
        self, weight: Tensor | None = None, *, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        weights: dict[str, Any] = {"weight": self.weight, "pos_weight": self.pos_weight}
        return functional.binary_cross_entropy_with_logits(x, target, reduction=self.reduction, **weights)


class CrossEntropyLoss(_Loss):
    """`functional.cross_entropy`, with its arguments; the weight is a buffer.

    >>> gb.nn.CrossEntropyLoss()(gb.tensor([[0.0, 0.0]]), gb.tensor([1]))
    tensor(0.6931472)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One number; for each row with ``reduction="none"``."""
        options: dict[str, Any] = {"ignore_index": self.ignore_index, "label_smoothing": self.label_smoothing}
        return functional.cross_entropy(x, target, self.weight, reduction=self.reduction, **options)
