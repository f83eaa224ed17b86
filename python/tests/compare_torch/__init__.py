"""Random programs over the public functions of gabbro, compared with PyTorch: see run.py."""
