"""Puts the functions of instructions.cc into the instruction emulator's dispatch table.

The emulator translates an instruction on first sight. Then the entries of those that the memory model has to see get
another function.
"""
import ctypes
import re
import struct

from amd_emulator import instructions as emulator
from amd_emulator.memory import view

CHIPS = {"rdna3": 0, "cdna": 1, "rdna4": 2}  # enum Chip
READ, WRITE, ATOMIC, TWO, STRIDE_64 = 0, 1, 2, 4, 8  # parameter 6 of emulated_gpu_lds
BLOCK, AGENT = 1, 2  # enum Scope
_LDS = re.compile(
    r"DS_(READ|LOAD|WRITE|STORE)(2|_2ADDR)?(ST64|_STRIDE64)?_[BUI](8|16|32|64|96|128)(_D16)?(_HI)?$")
_LDS_ATOMIC = re.compile(r"DS_.*_(?:[BUIF]|BF)(16|32|64)$")
_NOT_MEMORY = re.compile(r"DS_(B?PERMUTE|SWIZZLE|NOP|APPEND|CONSUME)")


class Library:
    """The runtime's functions that Python calls."""

    def __init__(self, path):
        self.functions = ctypes.CDLL(path)
        for name in ("fault", "write_backs", "system_loads"):
            getattr(self.functions, f"emulated_gpu_{name}").restype = ctypes.c_uint64
        self.functions.emulated_gpu_race.restype = ctypes.c_char_p
        own = emulator.library()
        self.emulators = {self.address(getattr(own, f"ov_{name}")): name for name in ("mem", "atomic", "buffer")}

    @staticmethod
    def address(function):
        return ctypes.cast(function, ctypes.c_void_p).value

    def of(self, name):
        return self.address(getattr(self.functions, f"emulated_gpu_{name}"))


def _stores_are_awaited(isa, op, word):
    """Whether an instruction waits until all stores of the wave are done."""
    if op in ("S_WAIT_STORECNT", "S_WAIT_IDLE"):
        return word & 0xFFFF == 0 or op == "S_WAIT_IDLE"
    if op == "S_WAIT_STORECNT_DSCNT":
        return word >> 8 & 0x3F == 0
    if op == "S_WAITCNT_VSCNT":
        return word & 0xFFFF == 0
    return op == "S_WAITCNT" and isa == "cdna" and word & 0xF == 0 and word >> 14 & 3 == 0


def _cache_operation(isa, words):
    """(scope that is invalidated, scope that is written back) of an instruction that maintains caches, or None."""
    w0, w1 = words
    if isa == "rdna3" and w0 >> 26 == 0x38 and w0 >> 18 & 255 in (0x2B, 0x2C):  # buffer_gl0_inv, buffer_gl1_inv
        return (BLOCK, 0) if w0 >> 18 & 255 == 0x2B else (AGENT, 0)
    if isa == "cdna" and w0 >> 26 == 0x38 and w0 >> 18 & 127 in (0x28, 0x29):  # buffer_wbl2, buffer_inv
        scope = w0 >> 14 & 3  # sc0, sc1
        return (0, scope) if w0 >> 18 & 127 == 0x28 else (scope or BLOCK, 0)
    if isa == "rdna4" and w0 >> 24 == 0xEE and w0 >> 14 & 0xFF in (0x2B, 0x2C, 0x4F):  # global_inv, _wb, _wbinv
        scope = w1 >> 18 & 3
        return (scope, 0) if w0 >> 14 & 0xFF == 0x2B else (0, scope) if w0 >> 14 & 0xFF == 0x2C else (scope, scope)
    return None


def _lds_access(op):
    """Parameters 6 and 7 of emulated_gpu_lds, or None for what does not access LDS."""
    if not op.startswith("DS_") or _NOT_MEMORY.match(op):
        return None
    plain = _LDS.match(op)
    if plain:
        kind = READ if plain[1] in ("READ", "LOAD") else WRITE
        return kind | (TWO if plain[2] else 0) | (STRIDE_64 if plain[3] else 0), int(plain[4]) // 8
    atomic = _LDS_ATOMIC.match(op)
    return (ATOMIC, max(4, int(atomic[1]) // 8)) if atomic else None


def fill(module, pc, library):
    """Translates the instruction at pc; the memory model sees it if it has to."""
    emulator.fill(module, pc)
    entry = module.tab[(pc - module.tbase) >> 2:][:1]
    inst = module.ops[pc]
    op, words = emulator.op_name(inst), struct.unpack("<2I", bytes(view(pc, 8)))
    before = int(entry["fn"][0])
    own = library.emulators.get(before)
    caches = _cache_operation(module.isa, words)
    lds = _lds_access(op)
    if caches:
        _enter(entry, library.of("caches"), [inst.size(), *caches])
    elif own == "mem":
        entry["fn"] = library.of("global")
    elif own == "atomic":
        entry["inner"], entry["fn"], entry["stop"] = before, library.of("atomic"), 1
    elif own == "buffer":
        entry["inner"], entry["fn"] = before, library.of("direct")
    elif _stores_are_awaited(module.isa, op, words[0]):
        _enter(entry, library.of("wait"), [inst.size()])
    elif lds or op == "DS_BPERMUTE_B32":
        entry["inner"] = before
        _enter(entry, library.of("lds" if lds else "permute"), [*map(int, entry["a"][0]), *(lds or (0, 0))])


def _enter(entry, function, parameters):
    entry["a"] = [0, 1, 2, 3, 4, 5]
    entry["ia"] = parameters + [0] * (8 - len(parameters))
    entry["fn"] = function
