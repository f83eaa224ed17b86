"""Layers in the modules where torch.nn.modules has them: for imports by their full names."""

from . import (
    activation,
    batchnorm,
    container,
    conv,
    dropout,
    instancenorm,
    linear,
    loss,
    module,
    normalization,
    padding,
    pooling,
    rnn,
    sparse,
    transformer,
)
from .module import Module

__all__ = [
    "Module",
    "activation",
    "batchnorm",
    "container",
    "conv",
    "dropout",
    "instancenorm",
    "linear",
    "loss",
    "module",
    "normalization",
    "padding",
    "pooling",
    "rnn",
    "sparse",
    "transformer",
]
