"""One launch: blocks and waves take turns in an order that a seed chooses, on the memory model of the runtime."""
import ctypes
import heapq
import itertools
import random
import time

import hooks
from amd_emulator import execute
from amd_emulator.errors import EmulatorError, MemoryFault

_MOST_INSTRUCTIONS = 1 << 36
# Shares of the turns after which a wave pauses, and the most turns of others that a pause takes. In late launches all
# other blocks end meanwhile.
_PAUSES, _PAUSES_AT_ATOMIC, _LATE_PAUSES_AT_ATOMIC, _LONGEST_PAUSE, _LATE_PAUSE = 0.02, 0.5, 0.9, 1000, 50000
_MANY_TURNS = 4096
_PATTERNS = (0x7FC0A5A5, 0xA5A5A5A5, 0x7F7FFFFF, 0xFFFFFFFF)


class Parameters(ctypes.Structure):
    """EmulatedGpuLaunch of machine.cc."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("code", "image", "entries", "bounds", "bound_count", "seed")] + [
        (name, ctypes.c_uint32) for name in ("chip", "slots", "waves", "lds_bytes", "late")]


class Launch(execute._Run):
    def __init__(self, module, launch, library, seed):
        self.library, self.seed, self.random = library, seed, random.Random(seed)
        self.late = self.random.random() < 0.5
        launch.poison = self.random.choice(_PATTERNS)
        groups = launch.grid[0] * launch.grid[1] * launch.grid[2]
        launch.resident = launch.resident or min(groups, self.random.choice((2, 3, 8, 16)))
        launch.max_insts, launch.count = _MOST_INSTRUCTIONS, False
        super().__init__(module, launch)
        garbage = range(self.user + len(self.group_ids), 106)
        self.template[garbage.start:garbage.stop] = launch.poison

    def step(self, s, w, group):
        module, out = self.m, self.out
        while True:
            rc = self.run_wave(*self.table, self.bases[s, w].ctypes.data, self.quantum, self.mxcsr, out.ctypes.data)
            if rc != execute._NO_ENTRY:
                break
            begin = time.perf_counter()
            hooks.fill(module, self.pc(s, w), self.library)
            self.result.compile_seconds += time.perf_counter() - begin
        if rc == execute._FAULT:
            pc = self.pc(s, w)
            address = self.library.functions.emulated_gpu_fault() or int(out[1])
            raise MemoryFault(f"kernel {self.l.kernel}: memory fault at {address:#x} by {module.ops.get(pc)!r} "
                              f"(+{pc - module.base:#x}), block {group} wave {w}", address)
        if out[0] > self.l.max_insts:
            raise EmulatorError(f"more than {self.l.max_insts} instructions")
        if rc == execute._BARRIER and self.library.functions.emulated_gpu_at_atomic():
            return execute._READY
        return {execute._END: execute._DONE, execute._BARRIER: execute._AT_BARRIER,
                execute._QUANTUM: execute._READY}[rc]

    def schedule(self):
        functions, bounds = self.library.functions, self._bounds()
        parameters = Parameters(self.m.tbase, self.m.base, self.m.tab.ctypes.data, bounds.ctypes.data, len(bounds),
                                self.seed, hooks.CHIPS[self.m.isa], self.resident, self.waves, self.lds, self.late)
        functions.emulated_gpu_begin(ctypes.byref(parameters))
        try:
            self._turns(functions)
        finally:
            functions.emulated_gpu_end()

    def _turns(self, functions):
        pick, next_group = self.random, 0
        states, ids = [None] * self.resident, [0] * self.resident
        longest = pick.choice((40, 400, 4000))  # instructions of a turn
        longest_pause = _LATE_PAUSE if self.late else _LONGEST_PAUSE
        at_atomic = _LATE_PAUSES_AT_ATOMIC if self.late else _PAUSES_AT_ATOMIC
        ready, paused = [], []  # slots and waves that can go on; with the turn until which they do not
        for turn in itertools.count():
            if turn % _MANY_TURNS == _MANY_TURNS - 1:  # a long kernel: most of the time would go into turns
                longest *= 2
            for s in range(self.resident):
                if states[s] is None and next_group < self.groups:
                    states[s], ids[s] = self.start(s, next_group), next_group
                    functions.emulated_gpu_barrier(s)
                    ready += [(s, w) for w in range(self.waves)]
                    next_group += 1
            while paused and (not ready or paused[0][0] <= turn):
                ready.append(heapq.heappop(paused)[1])
            if not ready:
                break
            at = pick.randrange(len(ready))
            s, w = ready[at]
            self.quantum = 1 + int(longest * pick.random() ** 2)
            functions.emulated_gpu_select(s, w)
            states[s][w] = self.step(s, w, ids[s])
            if states[s][w] == execute._READY:
                if pick.random() < (at_atomic if functions.emulated_gpu_at_atomic() else _PAUSES):
                    ready[at] = ready[-1]
                    ready.pop()
                    heapq.heappush(paused, (turn + pick.randrange(longest_pause), (s, w)))
                continue
            ready[at] = ready[-1]
            ready.pop()
            if all(x == execute._DONE for x in states[s]):
                functions.emulated_gpu_leave(s)
                self.look_behind_lds(s)
                states[s] = None
            elif execute._READY not in states[s]:
                functions.emulated_gpu_barrier(s)
                ready += [(s, w) for w, x in enumerate(states[s]) if x == execute._AT_BARRIER]
                states[s] = [execute._READY if x == execute._AT_BARRIER else x for x in states[s]]


def run(module, launch, library, seed):
    """Runs a launch to its end: its result, its write-backs of an L2 cache and its loads of system scope. A race in LDS
    is an error."""
    execute.emu()
    one = Launch(module, launch, library, seed)
    try:
        result = one.go()
    finally:
        one.close()
    race = library.functions.emulated_gpu_race().decode()
    if race:
        raise EmulatorError(race)
    return result, library.functions.emulated_gpu_write_backs(), library.functions.emulated_gpu_system_loads()
