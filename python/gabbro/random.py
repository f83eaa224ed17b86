"""The process's random numbers: as torch.random.

>>> _ = gb.random.manual_seed(7)
"""

from .functions.random import default_generator, get_rng_state, initial_seed, manual_seed, set_rng_state

__all__ = ["default_generator", "get_rng_state", "initial_seed", "manual_seed", "set_rng_state"]
