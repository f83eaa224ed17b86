"""State dicts in safetensors files, and in files of PyTorch and NumPy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import _core
from .._core import Module, Tensor
from ..serialization import kind_of_file, load

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
    """All tensors of a safetensors file, or of one of PyTorch (``.pt``) or NumPy (``.npz``): a state dict.

    Parameters
    ----------
    path : str
        The file's content decides its kind. Of PyTorch's files tensors alone are read: see `load`.
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
    kind = kind_of_file(path) if os.path.isfile(path) else "other"
    if kind not in ("zip", "npz", "npy", "pickle"):
        return _core._load_state(os.fspath(path), device)
    loaded = load(path, None if device is None else str(device))
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise ValueError(f"[load_state] {os.fspath(path)} is not a dict of tensors: read it with gabbro.load")
    return dict(loaded)
