"""Layers of torch.nn.modules.container."""

from ..containers import (
    ModuleDict,
    ModuleList,
    Sequential,
)
from ..parameters import (
    ParameterDict,
    ParameterList,
)

__all__ = [
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]
