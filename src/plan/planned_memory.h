// Memory of computations that are planned and not run: addresses without memory, which are counted while they live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/backend/device.h"

namespace gabbro {

class PlannedMemory {
 public:
  // Sizes are rounded up as the pools of the device's backend do.
  explicit PlannedMemory(const Device& device) : in_host_memory_(device.host_accessible()) {}

  // An address that must not be read, for `bytes`; counted until its last owner is gone.
  std::shared_ptr<void> allocate(size_t bytes);
  void add_plan(size_t arena_bytes);

  uint64_t bytes() const { return counts_->bytes; }
  uint64_t peak_bytes() const { return counts_->peak; }    // of bytes()
  uint64_t arena_bytes() const { return counts_->arena; }  // of the largest plan
  void reset_peaks();                                      // the peaks become the present bytes, and no plan

 private:
  size_t rounded(size_t bytes) const;

  struct Counts {
    uint64_t bytes = 0, peak = 0, arena = 0;
    uintptr_t next = uintptr_t{1} << 20;  // address
  };
  bool in_host_memory_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

// While it lives, computations on the device are planned: results get memory from `memory`, and to_host() gives zeros.
// One at a time for a device, and no other thread computes there.
class PlanningScope {
 public:
  PlanningScope(Device& device, PlannedMemory& memory);
  ~PlanningScope();
  PlanningScope(const PlanningScope&) = delete;
  PlanningScope& operator=(const PlanningScope&) = delete;

 private:
  Device& device_;
};

}  // namespace gabbro
