"""What pickles name: functions that give tensors, parameters and dtypes back."""

from . import _core


def tensor(data: bytes, dtype: str, shape: tuple[int, ...], device: str, requires_grad: bool = False) -> _core.Tensor:
    value = _core._unpickled(data, dtype, shape, device)
    return value.requires_grad_() if requires_grad else value


def parameter(data: bytes, dtype: str, shape: tuple[int, ...], device: str, requires_grad: bool) -> _core.Parameter:
    return _core.Parameter(_core._unpickled(data, dtype, shape, device), requires_grad)


def place(module: _core.Module, name: str) -> _core.Tensor:
    """A parameter that lives in a module of C++: the one that this module has."""
    if not isinstance(module, _core.Module) or name not in dict(module.named_parameters(recurse=False)):
        raise ValueError(f"[unpickle] a {type(module).__name__} has no parameter {name!r}")
    value: _core.Tensor = getattr(module, name)
    return value


def dtype(name: str) -> _core.DType:
    return _core._dtype(name)
