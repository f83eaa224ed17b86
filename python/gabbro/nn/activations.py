"""Activations and dropout with PyTorch's argument `inplace`, and those that are made of functions."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import Module, Tensor
from . import functional


def _written(x: Tensor, y: Tensor) -> Tensor:
    x[...] = y
    return x


class ReLU(_core.ReLU):
    """max(x, 0); with `inplace` the input itself gets the result.

    >>> gb.nn.ReLU(True)(gb.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    inplace: bool = False  # type: ignore[override]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        result = _core.ReLU.forward(self, input)
        return _written(input, result) if self.inplace else result


class ReLU6(_core.ReLU6):
    """min(max(x, 0), 6)."""

    inplace: bool = False  # type: ignore[override]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        result = _core.ReLU6.forward(self, input)
        return _written(input, result) if self.inplace else result


class SELU(_core.SELU):
    """The scaled exponential linear unit (Klambauer et al. 2017)."""

    inplace: bool = False  # type: ignore[override]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        result = _core.SELU.forward(self, input)
        return _written(input, result) if self.inplace else result


class SiLU(_core.SiLU):
    """x · sigmoid(x)."""

    inplace: bool = False  # type: ignore[override]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        result = _core.SiLU.forward(self, input)
        return _written(input, result) if self.inplace else result


class Mish(_core.Mish):
    """x · tanh(softplus(x))."""

    inplace: bool = False  # type: ignore[override]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        result = _core.Mish.forward(self, input)
        return _written(input, result) if self.inplace else result


class Hardsigmoid(_core.Hardsigmoid):
    """min(max(x + 3, 0), 6) / 6."""

    inplace: bool = False  # type: ignore[override]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        result = _core.Hardsigmoid.forward(self, input)
        return _written(input, result) if self.inplace else result


class Hardswish(_core.Hardswish):
    """x · hardsigmoid(x)."""

    inplace: bool = False  # type: ignore[override]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        result = _core.Hardswish.forward(self, input)
        return _written(input, result) if self.inplace else result


class LeakyReLU(_core.LeakyReLU):
    """x where it is positive, else negative_slope · x."""

    inplace: bool = False  # type: ignore[override]

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(negative_slope)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        result = _core.LeakyReLU.forward(self, input)
        return _written(input, result) if self.inplace else result


class ELU(_core.ELU):
    """x where it is positive, else alpha · (exp(x) - 1)."""

    inplace: bool = False  # type: ignore[override]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        result = _core.ELU.forward(self, input)
        return _written(input, result) if self.inplace else result


class CELU(_core.CELU):
    """max(0, x) + min(0, alpha · (exp(x / alpha) - 1))."""

    inplace: bool = False  # type: ignore[override]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        result = _core.CELU.forward(self, input)
        return _written(input, result) if self.inplace else result


class Hardtanh(_core.Hardtanh):
    """x held within [min_val, max_val]."""

    inplace: bool = False  # type: ignore[override]

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(min_val, max_val)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        result = _core.Hardtanh.forward(self, input)
        return _written(input, result) if self.inplace else result


class Dropout1d(_core.Dropout2d):
    """As `Dropout`, with whole channels of [N, C, L]."""


class Dropout3d(_core.Dropout2d):
    """As `Dropout`, with whole channels of [N, C, D, H, W]."""


class _Function(Module):
    """A module that calls a function with its attributes."""

    _names: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        """The settings."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)


class Threshold(_Function):
    """x where it is above the threshold, else a value."""

    _names = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        return functional.threshold(input, self.threshold, self.value, self.inplace)


class Hardshrink(_Function):
    """x where its magnitude is above lambd, else 0."""

    _names = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        return functional.hardshrink(input, self.lambd)


class Softshrink(_Function):
    """x moved by lambd toward 0."""

    _names = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        return functional.softshrink(input, self.lambd)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        return input - _core.tanh(input)


class Softmin(_Function):
    """softmax(-x) along an axis."""

    _names = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        return functional.softmin(input, self.dim)


class Softmax2d(Module):
    """softmax over the channels of [N, C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        if input.ndim not in (3, 4):
            raise ValueError(f"[Softmax2d] of [N, C, H, W] or [C, H, W], not of shape {input.shape}")
        return _core.softmax(input, -3)


class CosineSimilarity(_Function):
    """`functional.cosine_similarity` of two tensors."""

    _names = ("dim", "eps")

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The result."""
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(_Function):
    """The norm of x1 - x2 + eps along the last axis."""

    _names = ("norm", "eps", "keepdim")

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The result."""
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class Unflatten(_Function):
    """An axis as several."""

    _names = ("dim", "unflattened_size")

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """The result."""
        from ..functions.shapes import unflatten

        return unflatten(input, self.dim, self.unflattened_size)
