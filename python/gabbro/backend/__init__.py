"""What is particular to a kind of GPU: its memory pools, and the tuning of its kernels.

`gabbro.backend.rocm` is about AMD's GPUs and `gabbro.backend.cuda` about NVIDIA's; both have the same functions. They
are about the device that new tensors live on (`gabbro.set_device`); where that is of another kind, about the best of
theirs.

>>> from gabbro.backend import rocm
>>> rocm.is_available() == gb.rocm_is_available()
True
"""

from . import cuda, rocm

__all__ = ["cuda", "rocm"]
