"""The same numbers for the weights of both libraries."""

import zlib

import numpy as np


def fill(torch, model):
    """Gives each tensor of the model's state numbers that its name chooses."""
    state = {}
    for name, tensor in model.state_dict().items():
        shape = tuple(tensor.shape)
        numbers = np.random.RandomState(zlib.crc32(name.encode()) % 2**31).randn(*shape)
        state[name] = torch.tensor((numbers / np.sqrt(max(1, np.prod(shape[1:])))).astype("float32"))
    model.load_state_dict(state)
