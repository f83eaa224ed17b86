"""Training with numbers of 16 bits under PyTorch's names: `autocast` and `GradScaler`."""

from .precision import GradScaler, autocast

__all__ = ["GradScaler", "autocast"]
