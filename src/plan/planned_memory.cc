#include "src/plan/planned_memory.h"

#include <algorithm>

#include "src/plan/executor.h"

namespace gabbro {

std::shared_ptr<void> PlannedMemory::allocate(size_t bytes) {
  const size_t rounded = MemoryBlock::rounded(bytes);
  counts_->bytes += rounded;
  counts_->peak = std::max(counts_->peak, counts_->bytes);
  const uintptr_t address = counts_->next;
  counts_->next += rounded + MemoryBlock::kAlignment;
  return {reinterpret_cast<void*>(address), [counts = counts_, rounded](void*) { counts->bytes -= rounded; }};
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
