"""Hands tensors to NumPy, and where it is installed to PyTorch, and takes theirs: no number is copied on the CPU.

python examples/dlpack.py
"""

from __future__ import annotations

import importlib.util

import numpy as np

import gabbro as gb


def main() -> None:
    gb.set_device("cpu")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = gb.from_dlpack(array)
    print("of NumPy:", x.tolist())

    y = gb.softmax(x)
    print("seen by NumPy:", np.from_dlpack(y).sum(axis=-1).round(5))

    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: its part is left out")
        return
    import torch

    seen = torch.from_dlpack(y)
    print("seen by PyTorch:", seen.sum(dim=-1))
    print("back again:", gb.from_dlpack(seen * 2).tolist())


if __name__ == "__main__":
    main()
