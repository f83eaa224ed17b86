"""Files of PyTorch (``.pt``): a ZIP archive of a pickle and of the tensors' bytes, read without running code.

A file of `save` is read by torch.load, and the other way round.

>>> import io
>>> file = io.BytesIO()
>>> gb.serialization.save(gb.ones(2), file)
>>> gb.serialization.load(file)
tensor([1., 1.])
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import _core
from ._core import Device
from ._torch_pickles import Pickler, Unpickler, safe

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]


def save(obj: Any, f: Any, *args: Any, **options: Any) -> None:
    """Writes tensors, state dicts and other objects to a file of PyTorch: whole or not at all.

    Parameters
    ----------
    obj : object
        Tensors inside of it are stored as PyTorch's, so that torch.load reads state dicts; other objects are pickled.
    f : str, path or file
        A file is open for writing in binary.

    Raises
    ------
    ValueError
        For block formats, and for arguments of torch.save that are not supported.

    >>> import io
    >>> file = io.BytesIO()
    >>> gb.save({"weight": gb.ones(2)}, file)
    >>> gb.load(file)
    {'weight': tensor([1., 1.])}
    """
    if (
        args
        or set(options) - {"_use_new_zipfile_serialization"}
        or options.get("_use_new_zipfile_serialization") is False
    ):
        raise ValueError("[save] pickle_module, pickle_protocol and the format before PyTorch 1.6 are not supported")
    if hasattr(f, "write"):
        return _write(obj, f)
    path = os.fspath(f)
    folder = os.path.dirname(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=os.path.basename(path))
    try:
        with os.fdopen(descriptor, "wb") as file:
            _write(obj, file)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return None


def _write(obj: Any, file: Any) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        data = io.BytesIO()
        stored: list[tuple[str, bytes]] = []
        Pickler(data, lambda key, content: stored.append((key, content))).dump(obj)
        archive.writestr("archive/data.pkl", data.getvalue())
        archive.writestr("archive/byteorder", "little")
        for key, content in stored:
            archive.writestr(f"archive/data/{key}", content)
        archive.writestr("archive/version", "3\n")


def _placed(map_location: Any) -> Callable[[str], str]:
    """The device for each location in the file."""
    if callable(map_location) and not isinstance(map_location, Device):
        marker = object()

        def asked(location: str) -> str:
            result = map_location(marker, location)
            if result is marker or result is None:
                return "cpu" if result is marker else location
            raise ValueError(
                f"[load] map_location gave {result!r}: a device's name, or a function that gives its storage"
            )

        return asked
    if isinstance(map_location, dict):
        return lambda location: str(map_location.get(location, location))
    return lambda location: location if map_location is None else str(map_location)


def kind_of_file(path: str | os.PathLike[str]) -> str:
    """What a file is by its first bytes: ``"zip"``, ``"npz"``, ``"npy"``, ``"pickle"``, ``"gguf"`` or ``"other"``."""
    with open(path, "rb") as file:
        head = file.read(8)
    if head.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as archive:
                return "npz" if any(name.endswith(".npy") for name in archive.namelist()) else "zip"
        except zipfile.BadZipFile:  # its reader says what is wrong
            return "zip"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"\x80"):
        return "pickle"
    return "gguf" if head.startswith(b"GGUF") else "other"


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **options: Any,
) -> Any:
    """Reads a file that `save` or torch.save wrote; of NumPy's archives (``.npz``) a dict of tensors.

    Parameters
    ----------
    f : str, path or file
        A file is open for reading in binary; it is read from its beginning.
    map_location : str, Device, dict or callable, optional
        The device for the tensors; without it that on which each was saved.
    weights_only : bool, optional
        By default True: tensors, numbers, texts, lists and dicts. False runs what the file says.
    mmap : bool, optional
        True is not supported.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        For another kind of file, and a damaged one.
    pickle.UnpicklingError
        For other objects, with `weights_only`.

    >>> import io
    >>> file = io.BytesIO()
    >>> gb.save([gb.tensor([1, 2]), "text"], file)
    >>> gb.load(file)
    [tensor([1, 2]), 'text']
    """
    if pickle_module is not None or mmap or options:
        raise ValueError(f"[load] pickle_module, mmap=True and {sorted(options)} are not supported")
    place = _placed(map_location)
    only = True if weights_only is None else weights_only
    if hasattr(f, "read"):
        f.seek(0)
        return _read(f, "the file", place, only)
    path = os.fspath(f)
    kind = kind_of_file(path)
    if kind == "npz":
        with np.load(path, allow_pickle=False) as arrays:
            return {
                name: _core.tensor(arrays[name], device=None if map_location is None else place("cpu"))
                for name in arrays
            }
    if kind != "zip":
        text = {
            "npy": "a NumPy array: use gabbro.tensor(numpy.load(path))",
            "pickle": "a pickle, or of PyTorch before 1.6: save it again with a newer PyTorch",
            "gguf": "a GGUF model: see gabbro.llm",
        }.get(kind, "no ZIP archive: safetensors files are read by gabbro.load_state")
        raise ValueError(f"[load] {path} is not a file of PyTorch, but {text}")
    with open(path, "rb") as file:
        return _read(file, path, place, only)


def _read(file: Any, name: str, place: Callable[[str], str], weights_only: bool) -> Any:
    try:
        with zipfile.ZipFile(file) as archive:
            pickles = [entry for entry in archive.namelist() if entry.endswith("data.pkl")]
            if len(pickles) != 1:
                raise ValueError(f"[load] {name} is a ZIP archive, but not of PyTorch: it has no data.pkl")
            prefix = pickles[0][: -len("data.pkl")]
            if f"{prefix}byteorder" in archive.namelist() and archive.read(f"{prefix}byteorder") != b"little":
                raise ValueError(f"[load] {name} was written on a big-endian machine")
            content = io.BytesIO(archive.read(pickles[0]))
            return Unpickler(content, archive, prefix, place, weights_only).load()
    except pickle.UnpicklingError as error:
        if str(error).startswith("[load]"):
            raise
        raise ValueError(f"[load] {name} is a damaged file of PyTorch: {error}") from error
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ValueError(f"[load] {name} is a damaged file of PyTorch: {error}") from error


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Classes that `load` with weights_only=True may make.

    >>> gb.serialization.add_safe_globals([])
    """
    safe.extend(safe_globals)


def get_safe_globals() -> list[Any]:
    """The classes of `add_safe_globals`."""
    return list(safe)


def clear_safe_globals() -> None:
    """Forgets the classes of `add_safe_globals`."""
    safe.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """While it lasts, `load` with weights_only=True may make these classes."""
    before = list(safe)
    safe.extend(safe_globals)
    try:
        yield
    finally:
        safe[:] = before
