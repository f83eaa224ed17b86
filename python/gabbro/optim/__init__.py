"""Optimizers, and schedules of their rates: as torch.optim has them.

>>> model = gb.nn.Linear(2, 1)
>>> optimizer = gb.optim.AdamW(model.parameters(), lr=0.1)
>>> loss = gb.nn.functional.mse_loss(model(gb.ones((4, 2))), gb.zeros((4, 1)))
>>> loss.backward()
>>> optimizer.step()
"""

from . import lr_scheduler as lr_scheduler
from .formulas import ASGD, Adadelta, Adafactor, Adamax, NAdam, RAdam, Rprop
from .lbfgs import LBFGS
from .muon import Muon
from .optimizer import Optimizer
from .optimizers import SGD, Adagrad, Adam, AdamW, Lion, RMSprop

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
]
