"""The class of parameters: as torch.nn.parameter."""

from .._core import Parameter
from .parameters import ParameterDict, ParameterList

__all__ = ["Parameter", "ParameterDict", "ParameterList"]
