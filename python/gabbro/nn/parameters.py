"""Lists and dicts of parameters."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from .._core import Module, Parameter, Tensor


def _as_parameter(value: Any) -> Any:
    return value if isinstance(value, Parameter) or not isinstance(value, Tensor) else Parameter(value)


class ParameterList(Module):
    """A list of parameters under the names "0", "1" and so on; tensors become parameters.

    >>> weights = gb.nn.ParameterList([gb.zeros(2), gb.ones(3)])
    >>> len(weights), list(weights.state_dict())
    (2, ['0', '1'])
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(values or ())

    def append(self, value: Any) -> ParameterList:
        """Adds a parameter at the end."""
        number = self._size
        self._size += 1
        setattr(self, str(number), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Adds parameters at the end."""
        for value in values:
            self.append(value)
        return self

    def _place(self, index: int) -> str:
        if not -self._size <= index < self._size:
            raise IndexError(f"[ParameterList] {index} is out of range for {self._size} parameters")
        return str(index % self._size)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([getattr(self, str(number)) for number in range(self._size)])

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return ParameterList(list(self)[index])
        return getattr(self, self._place(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._place(index), _as_parameter(value))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)


class ParameterDict(Module):
    """A dict of parameters under their names; tensors become parameters.

    >>> gb.nn.ParameterDict({"a": gb.zeros(2)})["a"]
    tensor([0., 0.])
    """

    def __init__(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None) -> None:
        super().__init__()
        self._names: dict[str, None] = {}
        self.update(parameters or {})

    def update(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Adds and replaces parameters."""
        for name, value in dict(parameters).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        self._names[name] = None
        setattr(self, name, _as_parameter(value))

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return getattr(self, name)

    def __delitem__(self, name: str) -> None:
        del self._names[name]
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def keys(self) -> KeysView[str]:
        """The names."""
        return dict.fromkeys(self._names).keys()

    def values(self) -> ValuesView[Any]:
        """The parameters."""
        return {name: self[name] for name in self._names}.values()

    def items(self) -> ItemsView[str, Any]:
        """The names and parameters."""
        return {name: self[name] for name in self._names}.items()
