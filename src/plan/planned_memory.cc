#include "src/plan/planned_memory.h"

#include <algorithm>

#include "src/plan/executor.h"

namespace gabbro {

// Whole huge pages on a CPU (backends/cpu/device.cc), and steps of at least a sixteenth on GPUs (backends/gpu/memory).
size_t PlannedMemory::rounded(size_t bytes) const {
  constexpr size_t kHugePage = size_t{2} << 20;
  if (in_host_memory_) return round_up(bytes, bytes >= kHugePage ? kHugePage : MemoryBlock::kAlignment);
  size_t step = MemoryBlock::kAlignment;
  while (step * 16 < bytes && step < kHugePage) step *= 2;
  return round_up(bytes, step);
}

std::shared_ptr<void> PlannedMemory::allocate(size_t bytes) {
  const size_t size = rounded(bytes);
  counts_->bytes += size;
  counts_->peak = std::max(counts_->peak, counts_->bytes);
  const uintptr_t address = counts_->next;
  counts_->next += size + MemoryBlock::kAlignment;
  return {reinterpret_cast<void*>(address), [counts = counts_, size](void*) { counts->bytes -= size; }};
}

void PlannedMemory::add_plan(size_t arena_bytes) { counts_->arena = std::max<uint64_t>(counts_->arena, arena_bytes); }

void PlannedMemory::reset_peaks() {
  counts_->peak = counts_->bytes;
  counts_->arena = 0;
}

PlanningScope::PlanningScope(Device& device, PlannedMemory& memory) : device_(device) {
  Executor::of(device_).set_planned(&memory);
}

PlanningScope::~PlanningScope() { Executor::of(device_).set_planned(nullptr); }

}  // namespace gabbro
