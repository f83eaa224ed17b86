"""What a run of a program gives, in either library."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .program import Program


@dataclass
class Outcome:
    """Arrays (floats as float64) and names of dtypes: of the outputs, and of the gradients by inputs with `grad`."""

    values: list[np.ndarray] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    gradients: list[np.ndarray] = field(default_factory=list)
    gradient_dtypes: list[str] = field(default_factory=list)
    seconds: list[np.ndarray] = field(default_factory=list)  # gradients of a weighted sum of the gradients

    def arrays(self) -> list[tuple[str, np.ndarray]]:
        named = [(f"output {at}", y) for at, y in enumerate(self.values)]
        named += [(f"gradient {at}", g) for at, g in enumerate(self.gradients)]
        return named + [(f"second gradient {at}", g) for at, g in enumerate(self.seconds)]


def weights_of(program: Program, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Multiples of 1/8 that every float dtype holds, none of them zero."""
    random = np.random.default_rng(program.weights)
    return [
        np.asarray(random.integers(1, 17, shape) * random.choice([-0.125, 0.125], shape), np.float64)
        for shape in shapes
    ]
