"""Names of PyTorch that Gabbro has: the same lines of a program in both libraries, with values, dtypes and gradients."""
