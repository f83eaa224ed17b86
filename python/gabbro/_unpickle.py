"""What pickles name: functions that give tensors and dtypes back."""

from . import _core


def tensor(data: bytes, dtype: str, shape: tuple[int, ...], device: str) -> _core.Tensor:
    return _core._unpickled(data, dtype, shape, device)


def dtype(name: str) -> _core.DType:
    return _core._dtype(name)
