"""Files of PyTorch (``.pt``): a ZIP archive of a pickle and of the tensors' bytes, read without running code.

A file of `save` is read by torch.load, and the other way round.

>>> import io
>>> file = io.BytesIO()
>>> gb.serialization.save(gb.ones(2), file)
>>> gb.serialization.load(file)
tensor([1., 1.])
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import io
import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import _core
from ._core import Device, DType, Parameter, Tensor

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

_STORAGES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
}
_DTYPES = {storage: dtype for dtype, storage in _STORAGES.items()}
_RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_safe: list[type] = []


class _Global:
    """A name of PyTorch's, which is written without a look at that module."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.module}.{self.name} is only a name here")


class _Storage:
    """The bytes of a tensor, under their number in the archive."""

    def __init__(self, key: str, dtype: str, location: str, count: int) -> None:
        self.key, self.dtype, self.location, self.count = key, dtype, location, count


# Python's pickler: that of C looks for the names of classes in modules that need not be there.
_Base: Any = vars(pickle)["_Pickler"]


class _Pickler(_Base):  # type: ignore[misc]
    def __init__(self, file: Any, write: Callable[[str, bytes], None]) -> None:
        super().__init__(file, protocol=2)
        self._put = write
        self._count = 0

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, _Storage):
            kind = _Global("torch", _STORAGES[obj.dtype])
            return ("storage", kind, obj.key, obj.location, obj.count)
        return None

    def save(self, obj: Any, save_persistent_id: bool = True) -> Any:
        if isinstance(obj, _Global):
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            return None
        if isinstance(obj, DType) and str(obj) in _STORAGES:
            return self.save(_Global("torch", str(obj)))
        if isinstance(obj, Tensor) and id(obj) not in self.memo:
            return self._save_tensor(obj)
        return super().save(obj, save_persistent_id)

    def _save_tensor(self, x: Tensor) -> None:
        data, dtype, shape, device, requires_grad = _core._pickled(x)
        if dtype not in _STORAGES:
            raise ValueError(f"[save] {dtype} is not a dtype of PyTorch's files")
        key = str(self._count)
        self._count += 1
        self._put(key, data)
        strides = [1] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        location = device.replace("rocm", "cuda")
        count = len(data) // x.dtype.itemsize
        of = _Storage(key, dtype, location, count)
        hooks: Any = collections.OrderedDict()
        is_parameter = isinstance(x, Parameter)
        arguments = (of, 0, tuple(shape), tuple(strides), requires_grad and not is_parameter, hooks)
        rebuild = _Global("torch._utils", "_rebuild_tensor_v2")
        if is_parameter:
            inner = _Reduced(rebuild, arguments)
            self.save_reduce(_Global("torch._utils", "_rebuild_parameter"), (inner, requires_grad, hooks), obj=x)
        else:
            self.save_reduce(rebuild, arguments, obj=x)


class _Reduced:
    """An object that is pickled as a call."""

    def __init__(self, function: _Global, arguments: tuple[Any, ...]) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> Any:
        return self._call


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
        _Pickler(data, lambda key, content: stored.append((key, content))).dump(obj)
        archive.writestr("archive/data.pkl", data.getvalue())
        archive.writestr("archive/byteorder", "little")
        for key, content in stored:
            archive.writestr(f"archive/data/{key}", content)
        archive.writestr("archive/version", "3\n")


def _rebuild_tensor(
    storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool = False, *rest: Any
) -> Tensor:
    data, dtype, device = storage
    item = _core._dtype(dtype).itemsize
    raw = np.frombuffer(data, _RAW[item])
    last = offset + sum((n - 1) * by for n, by in zip(size, stride, strict=True)) + 1
    if offset < 0 or any(by < 0 for by in stride) or (all(size) and last > raw.size):
        raise ValueError(f"[load] a tensor of shape {tuple(size)} reaches beyond its {raw.size} elements")
    view = np.lib.stride_tricks.as_strided(
        raw[offset:], tuple(size), tuple(by * item for by in stride), writeable=False
    )
    made = _core._unpickled(np.ascontiguousarray(view).tobytes(), dtype, tuple(size), "cpu")
    if device != "cpu":
        made = made.to(device)
    return made.requires_grad_() if requires_grad else made


def _rebuild_parameter(data: Tensor, requires_grad: bool = True, *rest: Any) -> Tensor:
    return Parameter(data, requires_grad)


_FUNCTIONS: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "defaultdict"): collections.defaultdict,
    ("collections", "Counter"): collections.Counter,
    ("torch", "Size"): tuple,
    ("torch", "device"): lambda *name: ":".join(map(str, name)),
    ("builtins", "set"): set,
    ("builtins", "complex"): complex,
    ("builtins", "slice"): slice,
    ("builtins", "range"): range,
    ("builtins", "bytearray"): bytearray,
    ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, archive: zipfile.ZipFile, prefix: str, place: Any, weights_only: bool) -> None:
        super().__init__(file)
        self._archive, self._prefix, self._place, self._weights_only = archive, prefix, place, weights_only
        self._storages: dict[str, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _FUNCTIONS:
            return _FUNCTIONS[module, name]
        if module in ("torch", "torch.cuda") and name in _DTYPES:
            return _DTYPES[name]
        if module == "torch" and name in _STORAGES:
            return _core._dtype(name)
        for known in _safe:
            if (known.__module__, known.__qualname__) == (module, name):
                return known
        if self._weights_only:
            raise pickle.UnpicklingError(
                f"[load] the file holds {module}.{name}: with weights_only=True only tensors, numbers, texts, lists "
                "and dicts are read. weights_only=False runs what the file says: for files that you trust"
            )
        if module.split(".")[0] == "torch":
            raise pickle.UnpicklingError(f"[load] {module}.{name} is not in Gabbro: save the state_dict instead")
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def persistent_load(self, pid: Any) -> Any:
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage" or not isinstance(pid[1], str):
            raise pickle.UnpicklingError(f"[load] {pid!r} is not a storage of PyTorch")
        _, dtype, key, location, _ = pid
        if key not in self._storages:
            data = self._archive.read(f"{self._prefix}data/{key}")
            self._storages[key] = (data, dtype, self._place(location))
        return self._storages[key]


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
            return _Unpickler(content, archive, prefix, place, weights_only).load()
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
    _safe.extend(safe_globals)


def get_safe_globals() -> list[Any]:
    """The classes of `add_safe_globals`."""
    return list(_safe)


def clear_safe_globals() -> None:
    """Forgets the classes of `add_safe_globals`."""
    _safe.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """While it lasts, `load` with weights_only=True may make these classes."""
    before = list(_safe)
    _safe.extend(safe_globals)
    try:
        yield
    finally:
        _safe[:] = before
