"""Layers, containers, losses and initial values, with the names of torch.nn.

>>> class Net(gb.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.hidden = gb.nn.Linear(4, 8)
...         self.output = gb.nn.Linear(8, 2)
...     def forward(self, x):
...         return self.output(gb.relu(self.hidden(x)))
>>> Net()(gb.ones((3, 4))).shape
(3, 2)
"""

from .._core import Layer, Parameter
from . import attention as attention
from . import copying as _copying
from . import functional as functional
from . import init as init
from . import module_methods as _module_methods
from . import modules as modules
from . import packed_layers as _packed_layers
from . import parallel as parallel
from . import parameter as parameter
from . import utils as utils
from .modules.activation import *  # noqa: F403
from .modules.batchnorm import *  # noqa: F403
from .modules.container import *  # noqa: F403
from .modules.conv import *  # noqa: F403
from .modules.distance import *  # noqa: F403
from .modules.dropout import *  # noqa: F403
from .modules.flatten import *  # noqa: F403
from .modules.fold import *  # noqa: F403
from .modules.instancenorm import *  # noqa: F403
from .modules.linear import *  # noqa: F403
from .modules.loss import *  # noqa: F403
from .modules.module import *  # noqa: F403
from .modules.normalization import *  # noqa: F403
from .modules.padding import *  # noqa: F403
from .modules.pixelshuffle import *  # noqa: F403
from .modules.pooling import *  # noqa: F403
from .modules.rnn import *  # noqa: F403
from .modules.sparse import *  # noqa: F403
from .modules.transformer import *  # noqa: F403
from .modules.upsampling import *  # noqa: F403
from .parallel import DataParallel

_copying.install()
_module_methods.install()
_packed_layers.install()

# The layers are listed in the files of `modules`.
_layers = [name for module in modules.__all__ for name in getattr(getattr(modules, module), "__all__", ())]
__all__ = [
    "DataParallel",
    "Layer",
    "Parameter",
    "attention",
    "functional",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]
__all__ += [name for name in _layers if name != "NonDynamicallyQuantizableLinear"]
