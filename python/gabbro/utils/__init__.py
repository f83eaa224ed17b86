"""Tools under the names of torch.utils."""

from . import data as data

__all__ = ["data"]
