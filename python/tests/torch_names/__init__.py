"""Names of PyTorch that Gabbro has: the same lines in both libraries, with values, dtypes and gradients."""
