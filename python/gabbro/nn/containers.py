"""Modules that hold others: Sequential, ModuleList, ModuleDict, and stacks of transformer layers."""

from __future__ import annotations

import copy
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from typing import Any, overload

from .._core import Module, Tensor, TransformerDecoderLayer, TransformerEncoderLayer


class Sequential(Module):
    """Modules in sequence: each takes the output of the one before.

    >>> model = gb.nn.Sequential(gb.nn.Linear(3, 4), gb.nn.ReLU(), gb.nn.Linear(4, 2))
    >>> model(gb.ones((5, 3))).shape, len(model)
    ((5, 2), 3)
    >>> model
    Sequential(
      (0): Linear(weight=(4, 3), bias=(4,))
      (1): ReLU()
      (2): Linear(weight=(2, 4), bias=(2,))
    )
    """

    def __init__(self, *modules: Module | dict[str, Module]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                self.add_module(name, module)
            return
        for given in modules:
            if not isinstance(given, Module):
                raise TypeError(f"[sequential] expected a Module, got {given!r}")
            self.append(given)

    def append(self, module: Module) -> Sequential:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def forward(self, x: Any) -> Any:
        """What the last module gives."""
        for module in self.children():
            x = module(x)
        return x

    def __len__(self) -> int:
        return len(list(self.children()))

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, index: int) -> Module:
        return list(self.children())[index]


class ModuleList(Module):
    """A list of modules under the names "0", "1" and so on; it computes nothing.

    >>> layers = gb.nn.ModuleList([gb.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), list(layers.state_dict())[-1]
    (3, '2.bias')
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def append(self, module: Module) -> ModuleList:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Adds modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def __len__(self) -> int:
        return len(list(self.children()))

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Module | ModuleList:
        modules = list(self.children())
        return ModuleList(modules[index]) if isinstance(index, slice) else modules[index]


class ModuleDict(Module):
    """A dict of modules under their names; it computes nothing.

    >>> heads = gb.nn.ModuleDict({"a": gb.nn.Linear(2, 2), "b": gb.nn.ReLU()})
    >>> heads["b"](gb.tensor([-1.0]))
    tensor([0.])
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        for name, module in (modules or {}).items():
            self.add_module(name, module)

    def items(self) -> ItemsView[str, Module]:
        """The names and modules."""
        return dict(self.named_children()).items()

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __getitem__(self, name: str) -> Module:
        return dict(self.named_children())[name]

    def __contains__(self, name: str) -> bool:
        return name in dict(self.named_children())

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self.named_children()))

    def __len__(self) -> int:
        return len(dict(self.named_children()))


class TransformerEncoder(Module):
    """A stack of copies of the given layer, which begin with its values.

    >>> layer = gb.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    >>> gb.nn.TransformerEncoder(layer, 2)(gb.ones((1, 3, 4))).shape
    (1, 3, 4)
    """

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.norm = norm

    @property
    def num_layers(self) -> int:
        """How many layers there are."""
        return len(self.layers)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The output, of the shape of `src`."""
        x = src
        for layer in self.layers:
            x = layer(x, mask, src_key_padding_mask, is_causal)
        if self.norm is not None:
            x = self.norm(x)
        return x


class TransformerDecoder(Module):
    """A stack of copies of the given layer, which begin with its values.

    >>> layer = gb.nn.TransformerDecoderLayer(4, 2, 8)
    >>> gb.nn.TransformerDecoder(layer, 2)(gb.ones((3, 1, 4)), gb.ones((5, 1, 4))).shape
    (3, 1, 4)
    """

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.norm = norm

    @property
    def num_layers(self) -> int:
        """How many layers there are."""
        return len(self.layers)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The output, of the shape of `tgt`."""
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask,
                memory_mask,
                tgt_key_padding_mask,
                memory_key_padding_mask,
                tgt_is_causal,
                memory_is_causal,
            )
        if self.norm is not None:
            x = self.norm(x)
        return x
