// The state that the instructions in instructions.cc share. One launch runs at a time.
#pragma once

#include <cstdint>

#include "tests/emulated_hip/instructions/lds_races.h"
#include "tests/emulated_hip/instructions/memory_model.h"

namespace emulated_hip {

// An entry of the instruction emulator's dispatch table, which has one for each 32-bit word of code.
struct CodeEntry {
  using Function = void (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
  Function function;
  uint64_t count;
  uint8_t arguments[6];  // which of the six addresses of a wave's state the function gets
  uint8_t stops;
  uint8_t unused;
  Function inner;         // the emulator's function that this one calls
  uint8_t parameters[8];  // of `function`, or `inner`'s arguments
};

struct Machine {
  Chip chip = Chip::kRdna3;
  MemoryModel memory;
  LdsRaces lds;
  uint32_t slot = 0, wave = 0;
  uint64_t code = 0, image = 0;  // addresses of the first word that `entries` describe, and of the code object
  CodeEntry* entries = nullptr;
  const uint64_t* bounds = nullptr;  // sorted pairs [begin, end) that a kernel may touch
  uint64_t bound_count = 0;
  uint64_t last_bound = 0;    // that an access was in
  uint64_t fault = 0;         // the address of an access outside; 0: none
  uint64_t write_backs = 0;   // of an L2 cache
  uint64_t system_loads = 0;  // past all caches, by all waves
  bool at_atomic = false;     // the turn ended after an atomic operation on global memory

  static Machine& get();

  uint32_t lanes() const { return chip == Chip::kCdna3 ? 64 : 32; }
  const CodeEntry& entry_at(uint64_t pc) const { return entries[(pc - code) >> 2]; }
  // Ends the wave's turn by a fault if the kernel may not touch these bytes. Frames above it have no destructors.
  void require(uint64_t at, uint64_t bytes);
};

}  // namespace emulated_hip
