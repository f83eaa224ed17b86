// Evaluation inside the library: its steps, inline runs, programs. gabbro/graph/eval.h has what users call.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "gabbro/graph/eval.h"
#include "src/backend/device.h"
#include "src/graph/plan.h"
#include "src/graph/program.h"

namespace gabbro {

// Runs eval()'s plans when it is given no `cancel`; it calls run(cancel) at least once, and again if that threw
// kInterrupted and the plan is to go on. A program that has to be able to stop any computation of the library (initial
// values of a layer, a state that is loaded) sets it before it computes.
using EvalHook = void (*)(const std::function<void(const std::atomic<bool>* cancel)>& run);
void set_eval_hook(EvalHook hook);

// Evaluates a small graph inline, as eval does: a few ops whose plan is known and takes microseconds, on a device that
// is idle. Returns whether it did. For callers that hold a lock.
bool try_eval_inline(const Tensor& tensor);

// A pending tensor that may never be read, such as the initial value of a parameter that a file replaces: it is
// computed where it is read first, by itself, so that the graphs that read it are those of later calls.
void defer(const Tensor& tensor);
void compute_deferred(const Tensor& tensor);  // does nothing for others

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

// Computes a program on these parameters and leaves its results: its plan is cached as those of eval are.
void run_program(const std::shared_ptr<Device>& device, const Program& program, std::span<const Tensor> parameters,
                 const std::atomic<bool>* cancel = nullptr);

// How many plans the device has made since it was opened, for tests.
size_t plans_made(Device& device);

}  // namespace gabbro
