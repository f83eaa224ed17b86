"""State dicts in safetensors files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import _core
from .._core import Module, Tensor

if TYPE_CHECKING:
    from .._core import DeviceLike  # a name of the stubs


def save_state(
    path: str | os.PathLike[str], state: Module | Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a module's state, or tensors under their names, to a safetensors file: whole or not at all.

    Raises
    ------
    ValueError
        For block formats.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> gb.save_state(path, gb.nn.Linear(2, 3))
    >>> gb.load_state(path)["weight"].shape
    (3, 2)
    """
    tensors = state.state_dict() if isinstance(state, Module) else dict(state)
    _core._save_state(os.fspath(path), tensors, dict(metadata or {}))


def load_state(path: str | os.PathLike[str], device: DeviceLike | None = None) -> dict[str, Tensor]:
    """All tensors of a safetensors file: what `Module.load_state_dict` takes.

    Parameters
    ----------
    path : str
    device : str or Device, optional
        Without it, the default.

    Raises
    ------
    ValueError
        For a file that is damaged, dtypes that there are not, and more than six axes.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.safetensors")
    >>> gb.save_state(path, {"x": gb.tensor([1.0, 2.0])})
    >>> gb.load_state(path)
    {'x': tensor([1., 2.])}
    """
    return _core._load_state(os.fspath(path), device)
