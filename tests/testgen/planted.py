"""Faults that planted_faults.py plants, most of them from public reports, each as a patch of the running process.

The functions are in faults/*.py. A fault "of the device" spares f64, which is the oracle's, and on a card the CPU; one
of the code spares nothing.
"""
import dataclasses
import importlib.util
import inspect
import os
import pathlib
from collections.abc import Callable

# Packs of the files of --cases that do not name theirs. The states of mamba have another reorder_cache() than the
# layers that fault_beams breaks: faults/states.py has it.
TYPES_OF_CASES = {"fault_padding_leaks": ("bert", "t5", "whisper"), "fault_beams": ("llama", "t5")}
CHECKS_OF_CASES = {"fault_padding_leaks": "mask", "fault_beams": "beams", "fault_batch_of_four": "batch_sizes",
                   "fault_checkpoint": "checkpointing", "fault_long_keys": "lengths", "fault_loss": "loss",
                   "fault_positions": "unplaced", "fault_scale": "layers", "fault_static_cache": "static"}


@dataclasses.dataclass
class Row:
    types: tuple[str, ...]
    plant: Callable[[], None]
    report: str  # the public report, or the commit or paper that has the right formula
    dtypes: str
    block: str  # part of the block's name that the message has to have; empty if the fault is in no block
    check: str  # pytest's expression of the tests that are to find it
    module: str  # the file of faults/


FAULTS: dict[str, Row] = {}


def fault(*types, report="", dtypes="f32", block="", check=""):
    """Registers a function that plants a fault which has to turn the packs of these types red."""
    def register(plant):
        FAULTS[plant.__name__] = Row(types, plant, report, dtypes, block, check, plant.__module__)
        return plant
    return register


def on_device(x):
    """Whether a tensor is the device's: on $PLANTED_DEVICE; on the CPU all but the oracle's, which are f64."""
    import torch

    is_number = isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64
    return is_number and (x.is_cuda or os.environ.get("PLANTED_DEVICE", "cpu") == "cpu")


def is_of_device(plant):
    """Whether a fault spares the oracle and, on a card, the CPU: its source asks on_device()."""
    return any(word in inspect.getsource(plant) for word in ("on_device(", "around_sdpa(", "around("))


def replace(place, name, make):
    """place.name becomes make(the function that was there)."""
    setattr(place, name, make(getattr(place, name)))


def load():
    """Imports faults/*.py, which fills FAULTS."""
    for path in sorted((pathlib.Path(__file__).parent / "faults").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"faults_{path.stem}", path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return FAULTS
