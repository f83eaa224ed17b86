// Weights that take turns on a device, one segment of a model at a time, from host memory.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "gabbro/nn/module.h"
#include "gabbro/tensor/tensor.h"
#include "src/backend/device.h"
#include "src/plan/planned_memory.h"

namespace gabbro::diffusion {

// add() numbers segments from 0 on. The weights of a segment have no memory between its turns.
class WeightSegments {
 public:
  // The first segments, up to `resident_bytes` together, stay on the device. With `planned` nothing is copied, and
  // addresses come from there.
  WeightSegments(std::shared_ptr<Device> device, uint64_t resident_bytes, PlannedMemory* planned = nullptr);

  // Takes the weights of modules whose values are on the device: matrices and kernels of layers, but not projections
  // of time, norms and biases, which stay there. Throws OutOfMemory.
  size_t add(std::span<const nn::Module* const> modules);

  // Called after the last add(): allocates the memory that the segments share by turns.
  void finish();

  // Called by the thread that computes: brings the weights. `compute` returns pending tensors, which are evaluated
  // before the weights go.
  template <class Compute>
  void take_turn(size_t segment, const std::atomic<bool>* cancel, const Compute& compute) {
    enter(segment);
    const Leaving leaving{*this, segment};
    evaluate(compute(), cancel);
  }

  uint64_t moved_bytes() const;  // that a step copies to the device

 private:
  struct Weight {
    Tensor tensor;
    size_t offset = 0, bytes = 0;  // in the segment
  };
  struct Segment {
    std::vector<Weight> weights;
    std::shared_ptr<void> host;  // null: it stays on the device
    uint64_t bytes = 0;
  };
  struct Leaving {
    ~Leaving() { segments.leave(segment); }
    WeightSegments& segments;
    size_t segment;
  };

  void move_to_host(Segment& segment) const;
  void enter(size_t segment);
  void leave(size_t segment);
  static void evaluate(const std::vector<Tensor>& results, const std::atomic<bool>* cancel);

  std::shared_ptr<Device> device_;
  uint64_t resident_left_;
  PlannedMemory* planned_;
  std::vector<Segment> segments_;
  uint64_t place_bytes_ = 0;  // of the largest segment that moves
  std::shared_ptr<void> place_;
};

}  // namespace gabbro::diffusion
