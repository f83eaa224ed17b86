"""The functions of `functional` that are losses, as modules."""

from __future__ import annotations

from typing import Any

from .._core import Module, Tensor
from . import loss_functions as f


class _Loss(Module):
    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = f.reduction_of(type(self).__name__, size_average, reduce, reduction)

    def extra_repr(self) -> str:
        """The settings."""
        hidden = ("training",)
        own = ((name, value) for name, value in vars(self).items() if name not in hidden and not name.startswith("_"))
        return ", ".join(f"{name}={value!r}" for name, value in own if not isinstance(value, (Tensor, Module)))


class MSELoss(_Loss):
    """(x - target)².

    >>> gb.nn.MSELoss()(gb.tensor([1.0, 3.0]), gb.tensor([1.0, 1.0]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return f.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The magnitude of x - target.

    >>> gb.nn.L1Loss()(gb.tensor([1.0, 3.0]), gb.tensor([1.0, 1.0]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return f.l1_loss(input, target, reduction=self.reduction)


class _Weighted(_Loss):
    weight: Any

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class BCELoss(_Weighted):
    """-target · log(x) - (1 - target) · log(1 - x), times weights, which are a buffer.

    >>> gb.nn.BCELoss()(gb.tensor([0.5]), gb.tensor([1.0]))
    tensor(0.6931472)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return f.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class KLDivLoss(_Loss):
    """target · (log(target) - x), where x holds logarithms, and with `log_target` the target too.

    >>> gb.nn.KLDivLoss(reduction="sum")(gb.zeros(1), gb.ones(1))
    tensor(0.)
    """

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", log_target: bool = False
    ) -> None:
        super().__init__(size_average, reduce, "sum" if reduction == "batchmean" else reduction)
        self.reduction = reduction
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return f.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class SmoothL1Loss(_Loss):
    """d² / (2 · beta) where the difference d is smaller than beta, else its magnitude - beta / 2 (Girshick 2015).

    >>> gb.nn.SmoothL1Loss()(gb.tensor([3.0]), gb.tensor([1.0]))
    tensor(1.5)
    """

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return f.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """d² / 2 where the difference d is within delta, else delta · (its magnitude - delta / 2) (Huber 1964).

    >>> gb.nn.HuberLoss()(gb.tensor([3.0]), gb.tensor([1.0]))
    tensor(1.5)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        return f.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_Weighted):
    """-x[n, target[n]] · weight[target[n]], where x [N, V, ...] holds logarithms; the weight is a buffer.

    >>> gb.nn.NLLLoss()(gb.tensor([[-1.0, -2.0]]), gb.tensor([1]))
    tensor(2.)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """One number; for each row with ``reduction="none"``."""
        return f.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class BCEWithLogitsLoss(_Weighted):
    """`BCELoss` of sigmoid(x), without losing digits. The weights are buffers.

    >>> gb.nn.BCEWithLogitsLoss()(gb.zeros(1), gb.ones(1))
    tensor(0.6931472)
    """

    pos_weight: Any

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """One number; for each element with ``reduction="none"``."""
        weights: dict[str, Any] = {"weight": self.weight, "pos_weight": self.pos_weight}
        return f.binary_cross_entropy_with_logits(input, target, reduction=self.reduction, **weights)


class CrossEntropyLoss(_Weighted):
    """`functional.cross_entropy`, with its arguments; the weight is a buffer.

    >>> gb.nn.CrossEntropyLoss()(gb.tensor([[0.0, 0.0]]), gb.tensor([1]))
    tensor(0.6931472)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """One number; for each row with ``reduction="none"``."""
        options: dict[str, Any] = {"ignore_index": self.ignore_index, "label_smoothing": self.label_smoothing}
        return f.cross_entropy(input, target, self.weight, reduction=self.reduction, **options)
