"""What the optimizers have in common: groups of parameters, steps, states."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import _core
from .._core import Parameter, Tensor

OPTIONS_OF_GROUPS = ("lr", "weight_decay")


def _check_parameter(number: int, tensor: Any) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"[optim] parameter {number} is a {type(tensor).__name__}, not a tensor")
    if not tensor.is_leaf:
        raise ValueError(
            f"[optim] parameter {number} of shape {tensor.shape} was computed from other tensors: a step cannot move it"
        )
    if not tensor.requires_grad and not isinstance(tensor, Parameter):
        raise ValueError(
            f"[optim] parameter {number} of shape {tensor.shape} requires no gradient: call requires_grad_() first"
        )


class ParameterGroup(dict[str, Any]):
    """Parameters with their learning rate: ``group["lr"] = 0.1`` changes it."""

    def __init__(self, optimizer: _core._Optimizer, number: int, values: dict[str, Any]) -> None:
        super().__init__(values)
        self._optimizer = optimizer
        self._number = number

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "lr":
            self._optimizer.set_lr(value, self._number)
        elif name in self and self[name] is not value:
            raise ValueError(f"[optim] {name} of a group cannot be changed")
        super().__setitem__(name, value)


class Optimizer:
    """What all optimizers have.

    A step uses the gradients up: ``grad`` of a parameter is None afterward, so `zero_grad` has nothing left to do.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        A dict is a separate group: ``{"params": [...], "lr": 0.1, "weight_decay": 0.0}``, of which the last two may
        be left out.
    options : dict
        The optimizer's numbers, under PyTorch's names.

    Raises
    ------
    ValueError
        Where there are no parameters, one is there twice, was computed from others or requires no gradient (parameters
        of a module that are frozen may be there), and for numbers that make no sense.
    TypeError
        Where `params` is a tensor or a set, or something in it is not a tensor.

    >>> weight = gb.nn.Parameter(gb.tensor([1.0]))
    >>> optimizer = gb.optim.SGD([weight], lr=0.5)
    >>> isinstance(optimizer, gb.optim.Optimizer), optimizer.param_groups[0]["lr"]
    (True, 0.5)
    """

    _kind: Callable[[list[Any], dict[str, Any]], _core._Optimizer]

    def __init__(self, params: Iterable[Tensor] | Iterable[dict[str, Any]], options: dict[str, Any]) -> None:
        if isinstance(params, (Tensor, set, frozenset)):
            raise TypeError(f"[optim] params is a list of tensors or of dicts, not a {type(params).__name__}")
        given: list[Any] = list(params)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        values = []
        for group in groups:
            unknown = set(group) - {"params", *OPTIONS_OF_GROUPS}
            if unknown:
                raise ValueError(f"[optim] a group of parameters cannot have its own {', '.join(sorted(unknown))}")
            tensors = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
            for number, tensor in enumerate(tensors):
                _check_parameter(number, tensor)
            values.append({**options, **group, "params": tensors})
        self._make(values, options)

    def _make(self, groups: list[dict[str, Any]], options: dict[str, Any]) -> None:
        self._optimizer = type(self)._kind(
            [(group["params"], group["lr"], group["weight_decay"]) for group in groups], options
        )
        self.defaults = options
        self.param_groups = [ParameterGroup(self._optimizer, i, group) for i, group in enumerate(groups)]

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "_optimizer"}
        state["param_groups"] = [dict(group) for group in self.param_groups]
        return {**state, "state": self._optimizer.state_dict()}

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict) or not {"param_groups", "defaults", "state"} <= state.keys():
            raise ValueError(f"[unpickle] this is not the state of a {type(self).__name__}")
        attributes = dict(state)
        tensors = attributes.pop("state")
        self._make(attributes.pop("param_groups"), attributes.pop("defaults"))
        self._optimizer.load_state_dict(tensors)
        vars(self).update(attributes)

    def __tensors__(self) -> list[Tensor]:
        return self._optimizer.__tensors__()

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Moves the parameters by their gradients, and computes them.

        What the thread has left to be computed since the last step, such as the loss and the moments of batch norm, is
        computed with them in one plan. Reading the loss before the step would compute it alone, and part of it twice.

        Parameters
        ----------
        closure : callable, optional
            It computes the loss and its gradients again, and returns the loss, which is the result.
        """
        loss = closure() if closure is not None else None
        self._optimizer.step()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients."""
        self._optimizer.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """The states by the number of their parameter, and the groups, as in torch.optim."""
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in self._optimizer.state_dict().items():
            parameter, key = name.rsplit(".", 1)
            state.setdefault(int(parameter.split()[-1]), {})[key] = tensor
        groups, count = [], 0
        for group in self.param_groups:
            numbers = list(range(count, count + len(group["params"])))
            count += len(numbers)
            groups.append({**group, "params": numbers})
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state that `state_dict` gave, for parameters of the same shapes in the same order.

        Raises
        ------
        ValueError
            For other groups and shapes, and states that are missing or not known.
        """
        groups = state_dict["param_groups"]
        if [len(group["params"]) for group in groups] != [len(group["params"]) for group in self.param_groups]:
            raise ValueError("[optim] the state is that of other groups of parameters")
        self._optimizer.load_state_dict(
            {
                f"parameter {number}.{name}": tensor
                for number, states in state_dict["state"].items()
                for name, tensor in states.items()
            }
        )
        for group, loaded in zip(self.param_groups, groups, strict=True):
            group["lr"] = loaded["lr"]
            if "initial_lr" in loaded:
                group["initial_lr"] = loaded["initial_lr"]

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value}" for name, value in self.defaults.items())
        return f"{type(self).__name__}({numbers})"
