"""The base of optimizers whose formulas are written in Python, over tensors."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import Tensor
from ..gradients import no_grad
from .optimizer import Optimizer

State = dict[str, Any]  # tensors, and numbers of steps


class Engine:
    """Stands for the optimizer of C++: the states of parameters, and a step of all of them in one plan."""

    def __init__(self, groups: list[dict[str, Any]], kind: type[FormulaOptimizer]) -> None:
        self._kind = kind
        self._groups = groups
        self._parameters = [parameter for group in groups for parameter in group["params"]]
        self._states: list[State] = [{} for _ in self._parameters]
        kind._check_options(groups)

    def has_read(self, groups: list[dict[str, Any]]) -> bool:
        """False: groups are read in each step."""
        return False

    def has_parameters(self, groups: list[dict[str, Any]]) -> bool:
        """Whether the groups have the parameters that it was made for."""
        listed = [parameter for group in groups for parameter in group["params"]]
        return len(listed) == len(self._parameters) and all(
            a is b for a, b in zip(listed, self._parameters, strict=True)
        )

    def set_options(self, groups: list[dict[str, Any]]) -> None:
        """Takes the numbers of the groups."""
        self._kind._check_options(groups)
        self._groups = groups

    def state_dict(self) -> dict[str, Tensor]:
        """Tensors under ``"parameter 0.exp_avg"``; numbers as tensors of shape ()."""
        return {
            f"parameter {number}.{name}": value if isinstance(value, Tensor) else _core.tensor(float(value))
            for number, state in enumerate(self._states)
            for name, value in state.items()
        }

    def load_state_dict(self, flat: dict[str, Any]) -> None:
        """Goes on from such a dict."""
        states: list[State] = [{} for _ in self._parameters]
        for key, value in flat.items():
            place, name = key.rsplit(".", 1)
            number = int(place.split()[-1])
            if not 0 <= number < len(states):
                raise ValueError(f"[optim] the state has parameter {number}: there are {len(states)}")
            if name in self._kind._numbers:
                states[number][name] = float(value)
                continue
            parameter = self._parameters[number]
            states[number][name] = _core.tensor(value, dtype=parameter.dtype, device=parameter.device)
        for number, state in enumerate(states):
            if state:
                wanted = self._kind._initial(self._parameters[number], self._group_of(number))
                if wanted.keys() != state.keys():
                    raise ValueError(f"[optim] parameter {number} has the states {sorted(state)}, not {sorted(wanted)}")
                for name, value in wanted.items():
                    if isinstance(value, Tensor) and value.shape != state[name].shape:
                        raise ValueError(f"[optim] {name} of parameter {number} has shape {state[name].shape}")
        self._states = states

    def _group_of(self, number: int) -> dict[str, Any]:
        for group in self._groups:
            if number < len(group["params"]):
                return group
            number -= len(group["params"])
        raise IndexError(number)

    def zero_grad(self, set_to_none: bool) -> None:
        """Forgets the gradients, or makes them 0."""
        for parameter in self._parameters:
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                parameter.grad[...] = 0

    def __tensors__(self) -> list[Tensor]:
        states = (value for state in self._states for value in state.values())
        return [*self._parameters, *(value for value in states if isinstance(value, Tensor))]

    def step(self) -> None:
        """Moves the parameters that have gradients."""
        moved: list[Tensor] = []
        with no_grad():
            for number, parameter in enumerate(self._parameters):
                gradient = parameter.grad
                if gradient is None:
                    continue
                group, state = self._group_of(number), self._states[number]
                if not state:
                    state.update(self._kind._initial(parameter, group))
                g = -gradient if group["maximize"] else gradient
                parameter[...] = self._kind._moved(parameter.detach(), g, group, state)
                moved += [parameter, *(value for value in state.values() if isinstance(value, Tensor))]
        _core.eval(*moved)


class FormulaOptimizer(Optimizer):
    """An optimizer with the formula of one parameter's step in Python."""

    _numbers: tuple[str, ...] = ("step",)  # states that are numbers

    def _make(self) -> None:
        type(self)._kind = lambda groups: Engine(groups, type(self))
        super()._make()

    @classmethod
    def _check_options(cls, groups: list[dict[str, Any]]) -> None:
        for group in groups:
            for name, low, high in (("lr", 0, None), ("eps", 0, None), ("weight_decay", 0, None), ("rho", 0, 1)):
                value = group.get(name)
                if isinstance(value, (int, float)) and not (low <= value and (high is None or value <= high)):
                    raise ValueError(f"[optim] {name} of a {cls.__name__} is {value}")
            betas = group.get("betas", ())
            if any(not 0 <= beta < 1 for beta in betas):
                raise ValueError(f"[optim] betas of a {cls.__name__} are {betas}: from 0 to below 1")

    @staticmethod
    def _initial(p: Tensor, group: dict[str, Any]) -> State:
        """The states of a parameter before its first step."""
        raise NotImplementedError

    @staticmethod
    def _moved(p: Tensor, g: Tensor, group: dict[str, Any], state: State) -> Any:
        """The parameter's next value; changes the states."""
        raise NotImplementedError
