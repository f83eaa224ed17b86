"""Random programs with gradients, views and in-place forms, that Gabbro and PyTorch run line by line."""
