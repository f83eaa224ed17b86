// Functions that are traced once and replayed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gabbro/tensor/tensor.h"

namespace gabbro {

class Plan;            // src/plan/plan.h
class PlanParameters;  // src/plan/plan.h

}  // namespace gabbro

#pragma GCC visibility push(default)
namespace gabbro {

// A function traced once and replayed: it builds the graph from tensors that it captures (weights, states, input
// buffers), whose contents may change between runs, but not their places. The tensors that take the place of `inputs`
// may be others in each run.
class Compiled {
 public:
  explicit Compiled(const std::function<std::vector<Tensor>()>& function, std::span<const Tensor> inputs = {});
  ~Compiled();
  Compiled(Compiled&& other) noexcept;
  Compiled& operator=(Compiled&& other) noexcept;

  // The results of this run. Their memory is written again by the next run, unless the caller still holds them then.
  std::vector<Tensor> operator()(const std::atomic<bool>* cancel = nullptr);
  // With these for the inputs: of their shapes, dtypes and strides, and with values; else throws bad_input.
  std::vector<Tensor> operator()(std::span<const Tensor> inputs, const std::atomic<bool>* cancel = nullptr);
  // Runs a small graph on an idle device; else returns nothing and does nothing.
  std::optional<std::vector<Tensor>> try_run_inline(std::span<const Tensor> inputs);
  // Whether this one has a value, and the spec, device and strides that input `number` had in the trace.
  bool takes(size_t number, const Tensor& input) const;

  const Plan& plan() const { return *plan_; }

  // Lets go of the values that the inputs had in the trace, for functions that are only called with other ones.
  void forget_inputs();
  // Lets go of the results' memory, which the next run then allocates again.
  void forget_results() { storages_.clear(); }

 private:
  DevicePointer device_;  // outlives the plan's kernels
  std::vector<Tensor> captured_;
  std::vector<Tensor> inputs_;
  std::vector<int> input_of_;  // by captured tensor: the input that takes its place, or -1
  std::unique_ptr<Plan> plan_;
  std::vector<std::shared_ptr<void>> storages_;

  PlanParameters parameters_of(std::span<const Tensor> inputs) const;
};

}  // namespace gabbro
#pragma GCC visibility pop
