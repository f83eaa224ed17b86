"""What the optimizers have in common: groups of parameters, steps, states."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .._core import Parameter, Tensor

# Options of torch.optim that no step here follows: they may be there, but not true.
REFUSED = ("differentiable",)
# Names that a group may have besides the optimizer's numbers.
NOTES = ("initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "name", "maximize", "foreach", "capturable",
         "fused", "decoupled_weight_decay", "differentiable")  # fmt: skip


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


class Optimizer:
    """What all optimizers have.

    ``param_groups`` is a list of dicts, one for each group, with the parameters under ``"params"`` and the group's
    numbers under PyTorch's names. Each step reads them: whatever changes them counts from the next step on.
    Gradients stay until `zero_grad`: what `backward` gives later is added to them.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        A dict is a separate group: ``{"params": [...], "lr": 0.1, "betas": (0.5, 0.9)}``. Missing numbers
        are taken from `options`.
    options : dict
        The optimizer's numbers, under PyTorch's names.

    Raises
    ------
    ValueError
        Where there are no parameters, one is there twice, was computed from others or requires no gradient (parameters
        of a module that are frozen may be there), and for numbers that make no sense, also when a step reads them.
    TypeError
        Where `params` is a tensor or a set, or something in it is not a tensor.
    KeyError
        From a step, for a group from which a number was deleted.

    >>> weight = gb.nn.Parameter(gb.tensor([1.0]))
    >>> optimizer = gb.optim.SGD([weight], lr=0.5)
    >>> isinstance(optimizer, gb.optim.Optimizer), optimizer.param_groups[0]["lr"]
    (True, 0.5)
    """

    _kind: Callable[[list[Any]], Any]  # of gabbro._core
    # Numbers that count when a parameter comes to its group, and not after.
    _fixed: tuple[str, ...] = ()

    def __init__(self, params: Iterable[Tensor] | Iterable[dict[str, Any]], options: dict[str, Any]) -> None:
        if isinstance(params, (Tensor, set, frozenset)):
            raise TypeError(f"[optim] params is a list of tensors or of dicts, not a {type(params).__name__}")
        given: list[Any] = list(params)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        self.defaults = options
        self.param_groups = [self._group(group) for group in groups]
        self._make()

    def _group(self, given: Any) -> dict[str, Any]:
        """A group of what the user gave, with all numbers."""
        if not isinstance(given, dict) or "params" not in given:
            raise TypeError(f"[optim] a group of parameters is a dict with 'params', not {given!r}")
        unknown = set(given) - {"params", *self.defaults, *NOTES}
        if unknown:
            names = ", ".join(sorted(map(str, unknown)))
            raise ValueError(f"[optim] a group of a {type(self).__name__} has no {names}")
        if isinstance(given["params"], (set, frozenset)):
            raise TypeError("[optim] params is a list of tensors, not a set")
        tensors = [given["params"]] if isinstance(given["params"], Tensor) else list(given["params"])
        for number, tensor in enumerate(tensors):
            _check_parameter(number, tensor)
        return {**self.defaults, **given, "params": tensors}

    def _make(self) -> None:
        """The optimizer of C++ for the groups, without states."""
        self._check_groups()
        self._optimizer = type(self)._kind(self.param_groups)
        self._parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        self._made_with = [{name: group[name] for name in self._fixed} for group in self.param_groups]

    def _check_groups(self) -> None:
        if not isinstance(self.param_groups, list) or not all(isinstance(group, dict) for group in self.param_groups):
            raise TypeError(f"[optim] param_groups is a list of dicts, not {self.param_groups!r}")
        for group in self.param_groups:
            for name in (*REFUSED, *(() if "decoupled_weight_decay" in self.defaults else ("decoupled_weight_decay",))):
                if group.get(name):
                    raise ValueError(f"[optim] {name}={group[name]!r} of a group: {type(self).__name__} cannot do that")

    def _read_groups(self) -> None:
        """Gives C++ the numbers and parameters that the groups have now."""
        if self._optimizer.has_read(self.param_groups):
            return
        self._check_groups()
        if not self._optimizer.has_parameters(self.param_groups):
            return self._change_parameters()
        for made_with, group in zip(self._made_with, self.param_groups, strict=True):
            for name, value in made_with.items():
                if group[name] != value:
                    raise ValueError(f"[optim] {name} of a group is chosen when it is made: {value}, not {group[name]}")
        self._optimizer.set_options(self.param_groups)

    def _change_parameters(self) -> None:
        """Another optimizer of C++, for groups with other parameters; those that stay keep their states."""
        for group in self.param_groups:
            for number, parameter in enumerate(group["params"]):
                _check_parameter(number, parameter)
        before = {id(self._parameters[number]): states for number, states in self._states().items()}
        self._make()
        self._load({
            number: before[id(parameter)]
            for number, parameter in enumerate(self._parameters)
            if id(parameter) in before
        })  # fmt: skip

    def _states(self) -> dict[int, dict[str, Tensor]]:
        """By the number of the parameter."""
        states: dict[int, dict[str, Tensor]] = {}
        for name, tensor in self._optimizer.state_dict().items():
            parameter, key = name.rsplit(".", 1)
            states.setdefault(int(parameter.split()[-1]), {})[key] = tensor
        return states

    def _load(self, states: dict[int, dict[str, Tensor]]) -> None:
        self._optimizer.load_state_dict({
            f"parameter {number}.{name}": tensor for number, own in states.items() for name, tensor in own.items()
        })  # fmt: skip

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters, which may have separate numbers.

        >>> first, second = gb.nn.Parameter(gb.ones(1)), gb.nn.Parameter(gb.ones(1))
        >>> optimizer = gb.optim.SGD([first], lr=1.0)
        >>> optimizer.add_param_group({"params": [second], "lr": 0.5})
        >>> (first + second).sum().backward()
        >>> optimizer.step()
        >>> first.item(), second.item()
        (0.0, 0.5)
        """
        self.param_groups.append(self._group(param_group))
        self._read_groups()

    def __getstate__(self) -> dict[str, Any]:
        own = ("_optimizer", "_parameters", "_made_with")
        state = {name: value for name, value in vars(self).items() if name not in own}
        return {**state, "state": self._optimizer.state_dict()}

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict) or not {"param_groups", "defaults", "state"} <= state.keys():
            raise ValueError(f"[unpickle] this is not the state of a {type(self).__name__}")
        attributes = dict(state)
        tensors = attributes.pop("state")
        vars(self).update(attributes)
        self._make()
        self._optimizer.load_state_dict(tensors)

    def __tensors__(self) -> list[Tensor]:
        tensors: list[Tensor] = self._optimizer.__tensors__()
        return tensors

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
        self._read_groups()
        self._optimizer.step()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients; or makes their elements 0, where ``grad`` is to stay the tensor that it is."""
        if not self._optimizer.has_parameters(self.param_groups):
            self._change_parameters()
        self._optimizer.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The states by the number of their parameter, and the groups, as in torch.optim."""
        groups, count = [], 0
        for group in self.param_groups:
            numbers = list(range(count, count + len(group["params"])))
            count += len(numbers)
            groups.append({**group, "params": numbers})
        return {"state": self._states(), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state that `state_dict` gave, for parameters of the same shapes in the same order.

        Groups get all numbers that were saved; those that the state does not have stay.

        Raises
        ------
        ValueError
            For other groups and shapes, states that are missing or not known, and numbers that make no sense. The
            optimizer is as it was then.
        """
        saved = state_dict["param_groups"]
        if [len(group["params"]) for group in saved] != [len(group["params"]) for group in self.param_groups]:
            raise ValueError("[optim] the state is that of other groups of parameters")
        before = self.param_groups, self._optimizer, self._parameters, self._made_with
        self.param_groups = [
            {**group, **loaded, "params": group["params"]} for group, loaded in zip(before[0], saved, strict=True)
        ]
        try:
            self._make()
            self._load(state_dict["state"])
        except Exception:
            self.param_groups, self._optimizer, self._parameters, self._made_with = before
            raise

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value}" for name, value in self.defaults.items())
        return f"{type(self).__name__}({numbers})"
