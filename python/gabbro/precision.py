"""Training with numbers of 16 bits: autocast, and the scaling of losses."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _core
from ._core import DType, Tensor
from .optim import Optimizer

if TYPE_CHECKING:
    from ._core import DeviceLike  # a name of the stubs


class autocast(contextlib.ContextDecorator):
    """While it lasts, products are computed in this dtype, and sums in float32. Also a decorator of functions.

    Parameters
    ----------
    dtype : DType
        bfloat16 or float16.
    enabled : bool

    Raises
    ------
    ValueError
        For another dtype.

    >>> with gb.autocast(gb.bfloat16):
    ...     y = gb.ones((2, 2)) @ gb.ones((2, 2))
    >>> y.dtype
    gabbro.bfloat16
    """

    def __init__(self, dtype: DType | str = "bfloat16", enabled: bool = True) -> None:
        self._dtype = dtype if enabled else None
        self._modes: list[_core._Autocast] = []

    def _recreate_cm(self) -> autocast:  # a decorated function may run in several threads
        again = autocast()
        again._dtype = self._dtype
        return again

    def __enter__(self) -> autocast:
        self._modes.append(_core._Autocast(self._dtype))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del self._modes[-1]


class GradScaler:
    """Scales the loss, so that small gradients of float16 do not become 0, and leaves out steps that overflow.

    Nothing is read back for that: the scale is a tensor (Micikevicius et al. 2018).

    Parameters
    ----------
    init_scale, growth_factor, backoff_factor : float
    growth_interval : int
        How many steps without an overflow there are before the scale grows.
    device : str or Device, optional
        Without it, the default.

    >>> weight = gb.nn.Parameter(gb.tensor([1.0]))
    >>> optimizer, scaler = gb.optim.SGD([weight], lr=0.5), gb.GradScaler()
    >>> scaler.scale((3 * weight).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight
    tensor([-0.5])
    """

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        device: DeviceLike | None = None,
    ) -> None:
        self._options = (init_scale, growth_factor, backoff_factor, growth_interval)
        self._scaler = _core._LossScaler(device, *self._options)

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self._options, "tensors": self.__tensors__()}

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict) or set(state) != {"options", "tensors"}:
            raise ValueError("[unpickle] this is not the state of a GradScaler")
        self._options = state["options"]
        self._scaler = _core._LossScaler(state["tensors"][0].device, *self._options)
        self._scaler.restore(*state["tensors"])

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times the scale, in float32."""
        return self._scaler.scaled(loss)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divides the gradients by the scale: for clipping. `step` does it where it was not done."""
        optimizer._read_groups()
        self._scaler.unscale(optimizer._optimizer)

    def step(self, optimizer: Optimizer) -> None:
        """A step of the optimizer, unless a gradient is infinite or NaN."""
        optimizer._read_groups()
        self._scaler.step(optimizer._optimizer)

    def update(self) -> None:
        """After all optimizers' steps: a smaller scale after an overflow, or a larger one from time to time."""
        self._scaler.update()

    def get_scale(self) -> float:
        """The scale; waits for it."""
        return float(self._scaler.scale())

    def __tensors__(self) -> list[Tensor]:
        return self._scaler.__tensors__()

    def __repr__(self) -> str:
        return f"GradScaler(scale={self.get_scale()})"
