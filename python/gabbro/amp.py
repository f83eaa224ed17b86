"""Training with numbers of 16 bits under PyTorch's names: `autocast` and `GradScaler`.

>>> with gb.amp.autocast("cpu", dtype=gb.bfloat16):
...     y = gb.ones(2, 2) @ gb.ones(2, 2)
>>> y.dtype
gabbro.bfloat16
"""

from .precision import GradScaler, autocast

__all__ = ["GradScaler", "autocast"]
