"""Training with numbers of 16 bits: autocast, and the scaling of losses."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _core
from ._core import Device, DType, Tensor
from .optim import Optimizer
from .optim.engine import FormulaOptimizer

if TYPE_CHECKING:
    from ._core import DeviceLike  # a name of the stubs


class autocast(contextlib.ContextDecorator):
    """While it lasts, products are computed in this dtype, and sums in float32. Also a decorator of functions.

    Parameters
    ----------
    device_type : str, DType
        As in PyTorch ``"cpu"`` or ``"cuda"``: it decides the dtype where none is given. Or the dtype itself.
    dtype : DType, optional
        bfloat16 or float16. Without it float16 for ``"cuda"``, else bfloat16.
    enabled : bool
    cache_enabled : bool, optional
        Allowed: a plan casts each weight once in any case.

    Raises
    ------
    ValueError
        For another dtype.

    >>> with gb.autocast(gb.bfloat16):
    ...     y = gb.ones((2, 2)) @ gb.ones((2, 2))
    >>> y.dtype
    gabbro.bfloat16
    """

    def __init__(
        self,
        device_type: DType | str = "bfloat16",
        dtype: DType | str | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if isinstance(dtype, bool):  # autocast(dtype, enabled)
            dtype, enabled = None, dtype
        if isinstance(device_type, str) and device_type.split(":")[0] in ("cpu", "cuda", "rocm", "sim"):
            chosen: DType | str = dtype or ("bfloat16" if device_type.startswith("cpu") else "float16")
        elif dtype is not None and device_type != "bfloat16":
            raise TypeError(f"[autocast] {device_type!r} is not a kind of device: 'cpu' or 'cuda'")
        else:
            chosen = device_type if dtype is None else dtype
        self._dtype = chosen if enabled else None
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
        What the loss is multiplied by first; by how much it grows, and shrinks.
    growth_interval : int
        How many steps without an overflow there are before the scale grows.
    device : str or Device, optional
        Without it, the default. It may come first, as in torch.amp.
    enabled : bool
        False leaves losses and steps unchanged.

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
        init_scale: Any = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        device: DeviceLike | None = None,
        *,
        enabled: bool = True,
    ) -> None:
        if isinstance(init_scale, (str, Device)):  # torch.amp.GradScaler begins with the device
            if growth_factor != 2.0:
                raise TypeError("[GradScaler] after the device, the other arguments go by name")
            device, init_scale = init_scale, 65536.0
        self._enabled = enabled
        self._options = (init_scale, growth_factor, backoff_factor, growth_interval)
        self._scaler = _core._LossScaler(device, *self._options)

    def __getstate__(self) -> dict[str, Any]:
        return {"options": (*self._options, self._enabled), "tensors": self.__tensors__()}

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict) or set(state) != {"options", "tensors"}:
            raise ValueError("[unpickle] this is not the state of a GradScaler")
        *options, self._enabled = state["options"]
        self._options = tuple(options)
        self._scaler = _core._LossScaler(state["tensors"][0].device, *self._options)
        self._scaler.restore(*state["tensors"])

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times the scale, in float32."""
        return self._scaler.scaled(loss) if self._enabled else loss

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divides the gradients by the scale: for clipping. `step` does it where it was not done."""
        if self._enabled:
            self._scaler.unscale(self._of(optimizer))

    def step(self, optimizer: Optimizer) -> None:
        """A step of the optimizer, unless a gradient is infinite or NaN."""
        if self._enabled:
            self._scaler.step(self._of(optimizer))
        else:
            optimizer.step()

    @staticmethod
    def _of(optimizer: Optimizer) -> Any:
        if isinstance(optimizer, FormulaOptimizer):
            raise ValueError(f"[GradScaler] a {type(optimizer).__name__} is not supported: SGD, Adam, AdamW, Lion, "
                             "Adagrad or RMSprop")  # fmt: skip
        optimizer._read_groups()
        return optimizer._optimizer

    def is_enabled(self) -> bool:
        """Whether losses are scaled."""
        return self._enabled

    def update(self, new_scale: None = None) -> None:
        """After all optimizers' steps: a smaller scale after an overflow, or a larger one from time to time."""
        if new_scale is not None:
            raise ValueError("[GradScaler] new_scale is not supported: make another GradScaler")
        if self._enabled:
            self._scaler.update()

    def get_scale(self) -> float:
        """The scale; waits for it."""
        return float(self._scaler.scale()) if self._enabled else 1.0

    def __tensors__(self) -> list[Tensor]:
        return self._scaler.__tensors__()

    def __repr__(self) -> str:
        return f"GradScaler(scale={self.get_scale()})"
