"""Which algorithm attention uses: names of torch.nn.attention. Gabbro chooses the algorithm itself."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.Enum):
    """Algorithms of PyTorch's attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Takes the algorithms that PyTorch may use while it lasts; the result is the same, since a device has one.

    Raises TypeError for anything but SDPBackend, or a list of these.
    """
    given = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in given:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"[sdpa_kernel] {backend!r} is not an SDPBackend")
    if not given:
        raise ValueError("[sdpa_kernel] there are no backends")
    yield
