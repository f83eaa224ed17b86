// Reading values: eval, copies to the host, compile().
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/backend/device.h"
#include "src/graph/plan.h"

namespace gabbro {

// Computes the tensors (all on one device); afterward they have values. Plans are cached by the graph's structure.
// Intermediates live in the arena and are gone afterward, but for those of a training step that are needed again
// (retained_values.h).
void eval(std::span<const Tensor> tensors, const std::atomic<bool>* cancel = nullptr);

// Runs eval()'s plans when it is given no `cancel`; it calls run(cancel) at least once, and again if that threw
// kInterrupted and the plan is to go on. A program that has to be able to stop any computation of the library (initial
// values of a layer, a state that is loaded) sets it before it computes.
using Runner = void (*)(const std::function<void(const std::atomic<bool>* cancel)>& run);
void set_runner(Runner runner);

// Evaluates a small graph inline, as eval does: a few ops whose plan is known and takes microseconds, on a device that
// is idle. Returns whether it did. For callers that hold a lock.
bool try_eval_inline(const Tensor& tensor);

// The steps of eval, for callers with a separate lock around the graph (Python's): the first and the last read and
// write the tensors, and want it held; run() touches neither them nor their nodes.
class Evaluation {
 public:
  explicit Evaluation(std::span<const Tensor> tensors);

  bool has_work() const { return !pending_.empty(); }
  bool try_run_inline();                                // says whether it did, as try_eval_inline
  void run(const std::atomic<bool>* cancel = nullptr);  // again, after it was canceled
  void finish();

 private:
  std::vector<Tensor> pending_;  // what was asked for, and what is kept (retained_values.h)
  std::vector<std::pair<std::shared_ptr<Node>, int>>
      left_;  // of the last of these: the nodes that keep them, and which output it is
  std::shared_ptr<Device> device_;
  Trace traced_;
  std::string key_;
  std::shared_ptr<Plan> plan_;
  std::vector<Tensor> values_;
};

// The elements in row-major order, after eval. T must be the dtype's C++ type (2-byte integers for f16 and bf16).
template <class T>
std::vector<T> to_host(const Tensor& tensor);

// The same elements on another device, after eval; x itself where it is there already. Throws for packed tensors.
Tensor to_device(const Tensor& x, const std::shared_ptr<Device>& device);

// A function traced once and replayed: it builds the graph from tensors that it captures (weights, states, input
// buffers), whose contents may change between runs, but not their places. The tensors that take the place of `inputs`
// may be others in each run.
class Compiled {
 public:
  explicit Compiled(const std::function<std::vector<Tensor>()>& function, std::span<const Tensor> inputs = {});

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
  std::shared_ptr<Device> device_;  // outlives the plan's kernels
  std::vector<Tensor> captured_;
  std::vector<Tensor> inputs_;
  std::vector<int> places_;  // of each input among captured_; -1: the function does not use it
  std::unique_ptr<Plan> plan_;
  std::vector<std::shared_ptr<void>> storages_;

  std::vector<Tensor> parameters_of(std::span<const Tensor> inputs) const;
};

// A tensor whose contents the host may replace in place: the inputs of compiled functions, and states.
void overwrite(const Tensor& tensor, const void* host, size_t bytes);

// Computes a program on these parameters and leaves its results: its plan is cached as those of eval are.
void run_program(const std::shared_ptr<Device>& device, const Program& program, std::span<const Tensor> parameters,
                 const std::atomic<bool>* cancel = nullptr);

// How many plans the device has made since it was opened, for tests.
size_t plans_made(Device& device);

}  // namespace gabbro
