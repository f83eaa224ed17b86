"""What the runtime asks of Python, as functions of bytes, integers and strings (interpreter.cc calls them).

The environment's EMULATED_GPU_INSTRUCTIONS is the folder of the instruction emulator, with the package amd_emulator.
"""
import ctypes
import itertools
import os

import hooks
import numpy
import schedule
from amd_emulator.code_object import Module
from amd_emulator.errors import EmulatorError, MemoryFault
from amd_emulator.execute import Launch

_modules = {}
_numbers = itertools.count(1)
_launched = {}  # "kernel grid" -> launches, write-backs of L2 caches, loads of system scope
_library = None


def open_library(path):
    """`path` is the runtime's own file."""
    global _library
    _library = hooks.Library(path)
    return ""


def load(code, target):
    """Loads a code object. Lines of fields separated by tabs: the module's number, then of each kernel its name, the
    bytes of its explicit arguments, the most threads of a block, its LDS and scratch bytes and its registers."""
    try:
        module = Module(bytes(code), target)
    except EmulatorError as problem:
        return f"error\t{problem}"
    number = next(_numbers)
    _modules[number] = module
    lines = [f"module\t{number}"]
    for name, facts in module.meta.items():
        explicit = [a for a in facts.get(".args", []) if not a[".value_kind"].startswith("hidden_")]
        end = max((a[".offset"] + a[".size"] for a in explicit), default=0)
        descriptor = module.descriptor(name)
        numbers = (end, facts[".max_flat_workgroup_size"], descriptor["lds"], descriptor["priv"], facts[".vgpr_count"])
        lines.append("\t".join(map(str, ("kernel", name, *numbers))))
    return "\n".join(lines)


def unload(number):
    _modules.pop(number).close()
    return ""


def launch(number, kernel, grid, threads, dynamic_lds, arguments, ranges, count, seed, resident):
    """Runs a kernel to its end. `ranges` is the address of `count` sorted pairs [begin, end) that it may touch. Empty,
    or "fault<TAB>address<TAB>message", or "error<TAB>0<TAB>message"."""
    pairs = numpy.frombuffer((ctypes.c_uint64 * (2 * count)).from_address(ranges), numpy.uint64).reshape(-1, 2)
    counts = _launched.setdefault(f"{kernel} {'x'.join(map(str, grid))}", [0, 0, 0])
    counts[0] += 1
    seed = seed * 1000003 + sum(count for count, _, _ in _launched.values())  # each launch has its own order
    request = Launch(kernel, grid, (threads, 1, 1), bytes(arguments), dynamic_lds, resident=resident, ranges=pairs)
    try:
        result, write_backs, system_loads = schedule.run(_modules[number], request, _library, seed)
    except MemoryFault as problem:
        return f"fault\t{problem.address}\t{problem}"
    except EmulatorError as problem:
        return f"error\t0\tkernel {kernel}: {problem}"
    counts[1] += write_backs
    counts[2] += system_loads
    if result.lds_high:
        return f"error\t0\tkernel {kernel}: wrote to byte {result.lds_high - 1} of LDS, beyond its allocation"
    return ""


def write_launches():
    """Appends `kernel grid launches write-backs system-loads` lines of this process to the file that
    EMULATED_GPU_LAUNCHES names."""
    with open(os.environ["EMULATED_GPU_LAUNCHES"], "a") as file:
        file.writelines(f"{launch} {' '.join(map(str, counts))}\n" for launch, counts in _launched.items())
    _launched.clear()
    return ""
