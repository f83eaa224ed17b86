// A plan: kernels bound to the steps of a program, memory laid out in one arena, ready to be run any number of times.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/backend/device.h"
#include "src/plan/program.h"

namespace gabbro {

class PlannedMemory;  // planned_memory.h

// Memory of a value.
struct Buffer {
  enum class Kind { kParameter, kArena, kResult };
  Kind kind = Kind::kArena;
  int index = 0;      // which parameter or result
  size_t offset = 0;  // bytes; into the arena
};

struct PlanStep {
  const Op* op = nullptr;
  std::shared_ptr<KernelHandle> kernel;
  std::vector<int> inputs;  // value numbers
  std::vector<int> outputs;
  size_t scratch_offset = 0;  // into the arena
};

// The tensors of a plan's parameters: `tensors`, but inputs[input_of[i]] for parameter i if input_of[i] >= 0.
// The caller holds them until the run is over.
class PlanParameters {
 public:
  PlanParameters(std::span<const Tensor> tensors) : tensors_(tensors) {}
  PlanParameters(const std::vector<Tensor>& tensors) : tensors_(tensors) {}
  PlanParameters(std::span<const Tensor> tensors, std::span<const int> input_of, std::span<const Tensor> inputs)
      : tensors_(tensors), input_of_(input_of), inputs_(inputs) {}

  const TensorState& operator[](int number) const {
    const auto i = static_cast<size_t>(number);
    if (input_of_.empty() || input_of_[i] < 0) return tensors_[i].state();
    return inputs_[static_cast<size_t>(input_of_[i])].state();
  }

 private:
  std::span<const Tensor> tensors_;
  std::span<const int> input_of_;
  std::span<const Tensor> inputs_;
};

class Plan {
 public:
  // Fuses, lowers, orders, lays out memory and binds kernels. Throws failed() where the device lacks a primitive.
  Plan(std::shared_ptr<Device> device, Program program);

  // Runs on these parameters (as many as the program has, of the same specs and strides). `reusable`, when given, holds
  // the storages of earlier results: those without another holder are written again. Throws kInterrupted when canceled.
  // `arena` has arena_bytes(). One run at a time: Executor runs plans.
  std::vector<Tensor> run(const PlanParameters& parameters, std::byte* arena, const std::atomic<bool>* cancel = nullptr,
                          std::vector<std::shared_ptr<void>>* reusable = nullptr);

  // The results of a run that does not take place, with memory of `memory`.
  std::vector<Tensor> planned_results(const PlanParameters& parameters, PlannedMemory& memory) const;

  // Whether it takes a few microseconds of a device that works in host memory.
  bool is_small() const { return small_; }

  // Facts of the plan, for tests and `explain`.
  const std::vector<PlanStep>& steps() const { return steps_; }
  size_t arena_bytes() const { return arena_bytes_; }
  std::string explain() const;  // one line for each launch
  std::string to_dot() const;   // the launches and what they hand on, in Graphviz' language

 private:
  friend class Planner;

  // A place in `views_` that each run has to point at the memory of this run.
  struct Patch {
    size_t view;
    Buffer buffer;
    int64_t byte_offset;
  };

  struct Result {
    TensorSpec spec;
    Layout layout;
    Buffer buffer;
    size_t bytes = 0;
  };

  void build_launches();
  std::vector<Tensor> tensors_in(const std::shared_ptr<Device>& device, const PlanParameters& parameters,
                                 std::span<const std::shared_ptr<void>> storages) const;

  std::weak_ptr<Device> device_;
  Program program_;
  Indexed<Layout> layouts_;  // by value number
  Indexed<Buffer> buffers_;  // by value number
  std::vector<PlanStep> steps_;
  std::vector<Result> results_;
  std::vector<abi::TensorView> views_;
  std::vector<abi::Launch> launches_;
  std::vector<Patch> patches_;
  size_t arena_bytes_ = 0;
  bool small_ = false;
};

// The view of a value as kernels get it; `data` is null.
abi::TensorView make_view(const TensorSpec& spec, const Layout& layout);

}  // namespace gabbro
