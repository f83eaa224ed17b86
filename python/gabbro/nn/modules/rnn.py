"""Layers of torch.nn.modules.rnn."""

from ..._core import (
    GRU,
    LSTM,
    RNN,
)
from ..more_layers import (
    GRUCell,
    LSTMCell,
    RNNCell,
)

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "GRUCell",
    "LSTMCell",
    "RNNCell",
]
