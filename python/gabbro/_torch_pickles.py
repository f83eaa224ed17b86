"""The pickles in PyTorch's files: tensors are written and read as calls of functions of PyTorch."""

from __future__ import annotations

import collections
import importlib
import pickle
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _core
from ._core import DType, Parameter, Tensor

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
safe: list[type] = []  # classes that may be made with weights_only=True


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


class Pickler(_Base):  # type: ignore[misc]
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


class Unpickler(pickle.Unpickler):
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
        for known in safe:
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
