"""Copies and pickles of modules: what copy, deepcopy and pickle ask a module for.

A module is made of the arguments of its class of C++, of the values of the tensors that live there, and of its
attributes, which hold everything else: parameters, buffers and modules of classes of Python among them.
"""

from __future__ import annotations

import copy
from typing import Any

from .. import _core
from .._core import Module, Parameter, Tensor

_BUFFERS = "_buffers_to_register"  # an attribute that lives until the state is set


def _base(kind: type[Module]) -> type[Module]:
    """The class of C++ that a class of modules is derived from."""
    return next(base for base in kind.__mro__ if base.__module__ == Module.__module__)


def _settings(module: Module) -> dict[str, Any]:
    """The current values of the constructor's arguments: some may have been changed since."""
    names: set[str] = getattr(module, "_arguments", dict)().keys() - {"device", "dtype"}
    values = {name: getattr(module, name) for name in names if hasattr(module, name)}
    return {name: value for name, value in values.items() if not isinstance(value, (Tensor, Module))}


def _members(module: Module) -> dict[str, Any]:
    """What lives in C++: tensors (name, value, whether it requires a gradient), and modules, each with the same."""
    attributes = vars(module)
    tensors, buffers = [], {}
    own = _core._own_tensors(module)
    ties = _core._ties(module)
    moving = [name for name, _, is_parameter, _ in own if not is_parameter]
    order = [name for name in module.state_dict() if "." not in name and name not in moving] + moving
    for name, tensor, is_parameter, persistent in own:
        if name in ties:
            continue
        if name not in attributes:
            tensors.append((name, tensor.detach(), tensor.requires_grad))
        elif not is_parameter:
            buffers[name] = persistent
    children = {}
    for name, child in module.named_children():
        order.append(name)
        if name not in attributes:
            children[name] = (_members(child), child.__getstate__())
    return {
        "tensors": tensors,
        "buffers": buffers,
        "order": order,
        "children": children,
        "training": module.training,
        "settings": _settings(module),
        "ties": ties,
    }


def _set_members(module: Module, members: Any) -> None:
    names = {"tensors", "buffers", "order", "children", "training"}
    if not isinstance(members, dict) or set(members) - {"settings", "ties"} != names:
        raise ValueError(f"[unpickle] {type(module).__name__}: these are not the members of a module")
    Module.train(module, bool(members["training"]))  # before there are modules inside of it
    for name, value, requires_grad in members["tensors"]:
        _core._set_own_tensor(module, name, value, requires_grad)
    for name, value in members.get("settings", {}).items():
        if getattr(module, name) != value:
            setattr(module, name, value)
    own = dict(module.named_children())
    for name, (inner, state) in members["children"].items():
        if name not in own:
            raise ValueError(f"[unpickle] a {type(module).__name__} has no module {name!r}")
        _set_members(own[name], inner)
        own[name].__setstate__(state)
    for name, parameter in members.get("ties", {}).items():
        setattr(module, name, parameter)
    vars(module)[_BUFFERS] = (dict(members["buffers"]), list(members["order"]))


def rebuilt(kind: type[Module], arguments: dict[str, Any], members: dict[str, Any]) -> Module:
    """A module without its attributes: pickles name this function."""
    if not isinstance(kind, type) or not issubclass(kind, Module):
        raise TypeError(f"[unpickle] {kind!r} is not a class of modules")
    if not isinstance(arguments, dict):
        raise TypeError(f"[unpickle] the arguments of {kind.__name__} are a {type(arguments).__name__}")
    module: Module = kind.__new__(kind)
    position = _core._random_position()  # its initial values are replaced at once
    try:
        _base(kind).__init__(module, **arguments)
    finally:
        _core._set_random_position(position)
    _set_members(module, members)
    return module


def _reduce_ex(self: Module, protocol: Any) -> tuple[Any, ...]:
    state = self.__getstate__()
    arguments: dict[str, Any] = getattr(self, "_arguments", dict)()
    return rebuilt, (type(self), arguments, _members(self)), state


def _get_state(self: Module) -> dict[str, Any]:
    return dict(vars(self))


def _set_state(self: Module, state: Any) -> None:
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise TypeError(f"[unpickle] the state of a {type(self).__name__} is a dict of attributes, not {type(state)}")
    buffers, order = vars(self).pop(_BUFFERS, ({}, []))
    names = [name for name in order if name in state]
    for name in names + [name for name in state if name not in order]:
        value = state[name]
        if name in buffers and isinstance(value, Tensor):
            _core._adopt_buffer(self, name, value, buffers[name])
        elif isinstance(value, (Parameter, Module)):
            Module.__setattr__(self, name, value)
        else:
            vars(self)[name] = value


def _copy(self: Module) -> Module:
    """Another module with the same attributes: parameters and modules inside of it are shared."""
    members = _members(self)
    if members["tensors"] or members["children"]:
        raise TypeError(f"[copy] a copy of a {type(self).__name__} cannot share its tensors: use copy.deepcopy")
    arguments: dict[str, Any] = getattr(self, "_arguments", dict)()
    module = rebuilt(type(self), arguments, members)
    module.__setstate__(self.__getstate__())
    return module


def _copy_of_parameter(self: Parameter, memo: dict[int, Any]) -> Tensor:
    owner = _core._owner(self)
    if owner is not None:  # it lives in a module, which the copy of another module may contain
        place: Tensor = getattr(copy.deepcopy(owner[0], memo), owner[1])
        return place
    return Parameter(_core._copied(self), self.requires_grad)


def _copy_of_tensor(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if not self.is_leaf:
        raise ValueError(
            f"[deepcopy] a {self.dtype} tensor of shape {self.shape} was computed from one that requires a gradient: "
            "copy it after detach()"
        )
    copied = _core._copied(self)
    if self.requires_grad:
        copied.requires_grad_()
        if self.grad is not None:
            copied.grad = copy.deepcopy(self.grad, memo)
    return copied


def install() -> None:
    """Gives the classes of C++ the methods that copy and pickle look for."""
    for name, function in {
        "__reduce_ex__": _reduce_ex,
        "__getstate__": _get_state,
        "__setstate__": _set_state,
        "__copy__": _copy,
    }.items():
        setattr(Module, name, function)
    setattr(Tensor, "__deepcopy__", _copy_of_tensor)  # noqa: B010
    setattr(Parameter, "__deepcopy__", _copy_of_parameter)  # noqa: B010
