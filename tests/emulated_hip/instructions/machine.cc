#include "tests/emulated_hip/instructions/machine.h"

#include <sys/mman.h>

#include <cstddef>
#include <string>

namespace emulated_hip {

Machine& Machine::get() {
  static Machine& machine = *new Machine;
  return machine;
}

void Machine::require(uint64_t at, uint64_t bytes) {
  const auto is_in = [&](uint64_t i) { return at >= bounds[2 * i] && at + bytes <= bounds[2 * i + 1]; };
  if (bound_count != 0 && is_in(last_bound)) return;
  uint64_t low = 0, high = bound_count;  // the last range that begins at or before `at` is in [low, high)
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    (bounds[2 * middle] <= at ? low : high) = middle;
  }
  last_bound = low;
  if (bound_count != 0 && is_in(low)) return;
  fault = at;
  // The emulator's handler of faults ends the wave's turn.
  constexpr size_t kBytes = 4096;
  static auto* const forbidden = static_cast<volatile char*>(
      ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  *forbidden;
}

}  // namespace emulated_hip

using emulated_hip::Machine;

#pragma GCC visibility push(default)
extern "C" {

struct EmulatedGpuLaunch {
  uint64_t code, image, entries, bounds, bound_count, seed;
  uint32_t chip, slots, waves, lds_bytes, late;
};

void emulated_gpu_begin(const EmulatedGpuLaunch* launch) {
  Machine& machine = Machine::get();
  machine.chip = static_cast<emulated_hip::Chip>(launch->chip);
  machine.code = launch->code;
  machine.image = launch->image;
  machine.entries = reinterpret_cast<emulated_hip::CodeEntry*>(launch->entries);
  machine.bounds = reinterpret_cast<const uint64_t*>(launch->bounds);
  machine.bound_count = launch->bound_count;
  machine.last_bound = machine.fault = machine.write_backs = machine.system_loads = 0;
  machine.memory.begin(machine.chip, launch->seed, launch->slots, launch->waves, launch->late != 0);
  machine.lds.begin(launch->slots, launch->lds_bytes);
}
void emulated_gpu_end() { Machine::get().memory.end(); }

void emulated_gpu_select(uint32_t slot, uint32_t wave) {
  Machine& machine = Machine::get();
  machine.slot = slot;
  machine.wave = wave;
  machine.at_atomic = false;
  machine.memory.select(slot, wave);
  machine.memory.drift();
}
void emulated_gpu_barrier(uint32_t slot) { Machine::get().lds.barrier(slot); }
void emulated_gpu_leave(uint32_t slot) {
  Machine::get().memory.leave(slot);
  Machine::get().lds.barrier(slot);
}
uint32_t emulated_gpu_at_atomic() { return Machine::get().at_atomic ? 1 : 0; }
uint64_t emulated_gpu_write_backs() { return Machine::get().write_backs; }
uint64_t emulated_gpu_system_loads() { return Machine::get().system_loads; }
uint64_t emulated_gpu_fault() { return Machine::get().fault; }

// The race in the launch that ended, as text; empty if there is none.
const char* emulated_gpu_race() {
  static std::string text;
  text = Machine::get().lds.found();
  return text.c_str();
}
}
#pragma GCC visibility pop
