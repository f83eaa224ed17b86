"""Methods of PyTorch's modules that are made of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .. import _core
from .._core import Module, Tensor
from . import hooks

_load = Module.load_state_dict
_named_modules = Module.named_modules


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` with ``strict=False`` left be."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def load_state_dict(
    self: Module, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
) -> IncompatibleKeys:
    """Gives parameters and buffers the values of a state dict, in the dtype and on the device that they have.

    Returns
    -------
    named tuple
        `missing_keys` and `unexpected_keys`: empty with `strict`, which raises ValueError for them.
    """
    if assign:
        raise ValueError("[load_state_dict] assign=True is not supported: values are copied")
    own = self.state_dict()
    _load(self, dict(state_dict), strict)
    return IncompatibleKeys(
        [key for key in own if key not in state_dict], [key for key in state_dict if key not in own]
    )


def _cast(dtype: Any) -> Any:
    def cast(self: Module) -> Module:
        return self.to(dtype)

    cast.__doc__ = f"Parameters and buffers of floats become {dtype}."
    return cast


def cpu(self: Module) -> Module:
    """Moves parameters and buffers to the CPU."""
    return self.to("cpu")


def cuda(self: Module, device: Any = None) -> Module:
    """Moves parameters and buffers to a GPU."""
    return self.to("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)


_to = Module.to


def to(self: Module, *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False) -> Module:
    """Moves parameters and buffers to a device, or gives floating ones another dtype: ``to("cpu", gb.float16)``.

    A tensor as the argument names both.
    """
    if args and isinstance(args[0], Tensor):
        args = (args[0].device, args[0].dtype, *args[1:])
    given = [arg for arg in args if arg is not None and not isinstance(arg, bool)]
    return _to(self, *given, device=device, dtype=dtype)


def named_modules(
    self: Module, memo: Any = None, prefix: str = "", remove_duplicate: bool = True
) -> Iterator[tuple[str, Module]]:
    """The module itself and all inside of it, with their names."""
    if memo is not None or not remove_duplicate:
        raise ValueError("[named_modules] memo and remove_duplicate=False are not supported")
    for name, module in _named_modules(self):
        yield ".".join(part for part in (prefix, name) if part), module


def get_submodule(self: Module, target: str) -> Module:
    """The module of a name such as ``"layers.0"``."""
    module = self
    for part in target.split(".") if target else []:
        found = dict(module.named_children()).get(part)
        if found is None:
            raise AttributeError(f"[get_submodule] a {type(module).__name__} has no module {part!r}")
        module = found
    return module


def _get_tensor(self: Module, target: str, among: str) -> Tensor:
    found: Tensor | None = dict(getattr(self, among)()).get(target)
    if found is None:
        raise AttributeError(f"[{among}] a {type(self).__name__} has no {target!r}")
    return found


def get_parameter(self: Module, target: str) -> Tensor:
    """The parameter of a name such as ``"layers.0.weight"``."""
    return _get_tensor(self, target, "named_parameters")


def get_buffer(self: Module, target: str) -> Tensor:
    """The buffer of a name."""
    return _get_tensor(self, target, "named_buffers")


def install() -> None:
    """Gives the class of the extension these methods."""
    owner: Any = Module
    owner.load_state_dict, owner.to, owner.named_modules = load_state_dict, to, named_modules
    owner.cpu, owner.cuda = cpu, cuda
    owner.float, owner.double = _cast(_core.float32), _cast(_core.float64)
    owner.half, owner.bfloat16 = _cast(_core.float16), _cast(_core.bfloat16)
    owner.get_submodule, owner.get_parameter, owner.get_buffer = get_submodule, get_parameter, get_buffer
    owner.register_forward_hook = hooks.register_forward_hook
    owner.register_forward_pre_hook = hooks.register_forward_pre_hook
    owner.register_full_backward_hook = hooks.register_full_backward_hook
    owner.register_full_backward_pre_hook = hooks.register_full_backward_pre_hook
