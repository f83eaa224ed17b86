"""Tools under the names of torch.utils.

>>> len(gb.utils.data.DataLoader(gb.ones(5), batch_size=2))
3
"""

from . import data as data

__all__ = ["data"]
