"""Ordinary PyTorch programs: Gabbro runs them with another import, and has the losses of PyTorch."""
