// Reading values: eval, copies to the host, compile().
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "src/backend/device.h"
#include "src/graph/plan.h"

namespace gabbro {

// Computes the tensors (all on one device); afterwards they have values. Plans are cached by the graph's structure.
void eval(std::span<const Tensor> tensors, const std::atomic<bool>* cancel = nullptr);

// The elements in row-major order, after eval. T must be the dtype's C++ type (2-byte integers for f16 and bf16).
template <class T>
std::vector<T> to_host(const Tensor& tensor);

// A function traced once and replayed: `trace` builds the graph from tensors that it captures (weights, states, input
// buffers), whose contents may change between runs, but not their places.
class Compiled {
 public:
  explicit Compiled(const std::function<std::vector<Tensor>()>& function);

  // The results of this run. Their memory is written again by the next run, unless the caller still holds them then.
  std::vector<Tensor> operator()(const std::atomic<bool>* cancel = nullptr);

  const Plan& plan() const { return *plan_; }

 private:
  std::shared_ptr<Device> device_;  // outlives the plan's kernels
  std::vector<Tensor> captured_;
  std::unique_ptr<Plan> plan_;
  std::vector<std::shared_ptr<void>> storages_;
};

// A tensor whose contents the host may replace in place: the inputs of compiled functions, and states.
void overwrite(const Tensor& tensor, const void* host, size_t bytes);

// How many plans the device has made since it was opened, for tests.
size_t plans_made(Device& device);

}  // namespace gabbro
