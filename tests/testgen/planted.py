"""Faults that planted_faults.py plants: each is what a public report describes, written as a patch of the running process."""
import dataclasses
from collections.abc import Callable

# Packs of the files of --cases that do not name theirs.
TYPES_OF_CASES = {"fault_padding_leaks": ("bert", "t5", "whisper"), "fault_beams": ("llama", "mamba")}


@dataclasses.dataclass
class Row:
    types: tuple[str, ...]
    plant: Callable[[], None]


FAULTS: dict[str, Row] = {}


def fault(*types):
    """Registers a function that plants a fault which has to turn the packs of these types red."""
    def register(plant):
        FAULTS[plant.__name__] = Row(types, plant)
        return plant
    return register
