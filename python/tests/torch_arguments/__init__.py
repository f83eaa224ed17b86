"""Arguments of layers, optimizers, schedulers and functions next to PyTorch's: by place, and set after construction."""
