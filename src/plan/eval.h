// Evaluation inside the library: its steps, inline runs, programs. gabbro/graph/eval.h has what users call.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "gabbro/graph/eval.h"
#include "gabbro/plan/compiled.h"
#include "src/backend/device.h"
#include "src/plan/executor.h"
#include "src/plan/program.h"

namespace gabbro {

// Evaluates a small graph inline, as eval does: a few ops whose plan is known and takes microseconds, on a device that
// is idle. Returns whether it did. For callers that hold a lock.
bool try_eval_inline(const Tensor& tensor);

// A pending tensor that may never be read, such as the initial value of a parameter that a file replaces: it is
// computed where it is read first, by itself, so that the graphs that read it are the same as in later calls.
void defer(const Tensor& tensor);
void compute_deferred(const Tensor& tensor);  // does nothing for others

// The device of tensors that are all on one; else throws bad_input "[doing] ...".
std::shared_ptr<Device> common_device(const char* doing, std::span<const Tensor> tensors);
// The trace in which tensors that were deferred are parameters: it computes them.
Trace trace_ready(std::span<const Tensor> results);

// The steps of eval, for callers with a separate lock around the graph (Python's): the first and the last read and
// write the tensors, and want it held; run() touches neither them nor their nodes.
class Evaluation {
 public:
  explicit Evaluation(std::span<const Tensor> tensors);

  bool has_work() const { return !pending_.empty(); }
  bool try_run_inline();                                // says whether it did, as try_eval_inline
  void run(const std::atomic<bool>* cancel = nullptr);  // again, after it was canceled
  void finish();

  Executor& executor() const { return Executor::of(*device_); }  // if it has work

 private:
  std::vector<Tensor> pending_;  // what was asked for, and what is kept (retained_values.h)
  std::vector<std::pair<std::shared_ptr<Node>, int>>
      left_;  // of the last of these: the nodes that keep them, and which output it is
  std::shared_ptr<Device> device_;
  std::vector<Tensor> parameters_;
  std::shared_ptr<Plan> plan_;
  std::string key_;  // of the plan; if there is none, also the program to make it from
  Program program_;
  std::vector<Tensor> values_;
};

// Computes a program on these parameters and leaves its results: its plan is cached like eval's.
void run_program(const std::shared_ptr<Device>& device, const Program& program, std::span<const Tensor> parameters,
                 const std::atomic<bool>* cancel = nullptr);

// How many plans the device has made since it was opened, for tests.
size_t plans_made(Device& device);

}  // namespace gabbro
