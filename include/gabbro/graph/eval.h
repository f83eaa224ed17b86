// Evaluation: computing lazy tensors, reading them on the host, replaying a function.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gabbro/error.h"
#include "gabbro/tensor/tensor.h"

namespace gabbro {

class Plan;            // src/graph/plan.h
class PlanParameters;  // src/graph/plan.h

}  // namespace gabbro

#pragma GCC visibility push(default)
namespace gabbro {

// Computes the tensors (all on one device); afterward they have values. Plans are cached by the graph's structure.
// Intermediates live in the arena and are gone afterward, but for those of a training step that are needed again
// .
void eval(std::span<const Tensor> tensors, const std::atomic<bool>* cancel = nullptr);

// The elements in row-major order, after eval. T is the dtype's C++ type, or an integer of its size for the bits:
// 2-byte integers for f16 and bf16, uint8_t for bool. Throws bad_input "[to_host] ..." for other sizes, and for floats
// of integers.
template <class T>
[[gnu::visibility("default")]] std::vector<T> to_host(const Tensor& tensor);
// The only element. Throws bad_input as above, and where there are more or none.
template <class T>
T item(const Tensor& tensor) {
  if (tensor.shape().elements() != 1)
    throw Error(ErrorCode::kBadInput, "[item] a tensor of shape " + tensor.shape().to_string() + " is not one number");
  return to_host<T>(tensor)[0];
}

// The same elements on another device, after eval; x itself where it is there already. Throws for packed tensors.
Tensor to_device(const Tensor& x, const DevicePointer& device);

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
  // The same for a small graph on an idle device; else nothing, and nothing is done.
  std::optional<std::vector<Tensor>> try_run_inline(std::span<const Tensor> inputs);
  // Whether this one has a value, and the spec, device and strides that input `number` had in the trace.
  bool takes(size_t number, const Tensor& input) const;

  const Plan& plan() const { return *plan_; }

  // Lets go of the values that the inputs had in the trace, for functions that are only called with other ones.
  void forget_inputs();

 private:
  DevicePointer device_;  // outlives the plan's kernels
  std::vector<Tensor> captured_;
  std::vector<Tensor> inputs_;
  std::vector<int> input_of_;  // by captured tensor: the input that takes its place, or -1
  std::unique_ptr<Plan> plan_;
  std::vector<std::shared_ptr<void>> storages_;

  PlanParameters parameters_of(std::span<const Tensor> inputs) const;
};

// A tensor whose contents the host may replace in place: the inputs of compiled functions, and states.
void overwrite(const Tensor& tensor, const void* host, size_t bytes);

}  // namespace gabbro
#pragma GCC visibility pop
