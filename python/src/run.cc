// Running what was recorded: eval, compiled functions, explain. The GIL is released meanwhile, and Ctrl-C works.
#include <signal.h>
#include <unistd.h>

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <atomic>

#include "python/src/checked.h"
#include "python/src/fork.h"
#include "python/src/nn.h"
#include "src/base/error.h"
#include "src/plan/eval.h"

namespace gabbro::python {
namespace {

std::atomic<bool> interrupted{false};
struct sigaction python_handler;

void on_interrupt(int number, siginfo_t* info, void* context) {
  interrupted.store(true, std::memory_order_relaxed);
  if ((python_handler.sa_flags & SA_SIGINFO) != 0) {
    python_handler.sa_sigaction(number, info, context);
  } else if (python_handler.sa_handler != SIG_DFL && python_handler.sa_handler != SIG_IGN) {
    python_handler.sa_handler(number);
  }
}

bool is_main_thread() {
  thread_local const bool main = ::gettid() == ::getpid();
  return main;
}

// While it lives, Ctrl-C sets `interrupted`, besides what Python does about it: Python's own handler only makes a note
// that is read when the interpreter goes on. In the main thread alone, where Python handles signals.
class InterruptScope {
 public:
  InterruptScope() {
    if (!is_main_thread()) return;
    interrupted.store(false, std::memory_order_relaxed);
    struct sigaction ours {};
    ours.sa_sigaction = on_interrupt;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    if (::sigaction(SIGINT, &ours, &python_handler) != 0) return;
    active_ = python_handler.sa_handler != SIG_DFL && python_handler.sa_handler != SIG_IGN;
    if (!active_) ::sigaction(SIGINT, &python_handler, nullptr);
  }
  ~InterruptScope() {
    if (active_) ::sigaction(SIGINT, &python_handler, nullptr);
  }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  const std::atomic<bool>* flag() const { return active_ ? &interrupted : nullptr; }

 private:
  bool active_ = false;
};

// The tensors in nested lists, tuples and dicts, and of what has a method __tensors__: modules, optimizers.
void collect(nb::handle object, std::vector<Tensor>& tensors) {
  const Deeper step(" in what is to be evaluated");
  if (nb::isinstance<Tensor>(object)) {
    tensors.push_back(nb::cast<const Tensor&>(object));
  } else if (nb::isinstance<nb::dict>(object)) {
    for (nb::handle value : nb::borrow<nb::dict>(object).values()) collect(value, tensors);
  } else if (nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object)) {
    for (nb::handle value : nb::borrow<nb::sequence>(object)) collect(value, tensors);
  } else if (nb::hasattr(object, "__tensors__")) {
    collect(object.attr("__tensors__")(), tensors);
  }
}

thread_local std::vector<std::weak_ptr<TensorState>> left;

void eval_all(const nb::args& objects) {
  std::vector<Tensor> tensors;
  collect(objects, tensors);
  // Evaluates the tensors of each device together.
  while (!tensors.empty()) {
    const std::shared_ptr<Device> device = tensors.front().device();
    const auto others = std::ranges::stable_partition(tensors, [&](const Tensor& x) { return x.device() == device; });
    evaluate(std::span(tensors.begin(), others.begin()));
    tensors.erase(tensors.begin(), others.begin());
  }
}

// As text, and as a picture in Graphviz' language.
std::pair<std::string, std::string> explain(const std::vector<Tensor>& results) {
  std::vector<Tensor> pending;
  for (const Tensor& result : results) {
    if (!result.has_value()) pending.push_back(result);
  }
  if (pending.empty()) return {"0 launches; all values are there\n", "digraph plan {}\n"};
  Trace traced = trace(pending);
  const Plan plan(pending.front().device(), std::move(traced.program));
  double bytes = 0, flops = 0;
  for (const PlanStep& step : plan.steps()) {
    bytes += step.kernel->bound.bytes;
    flops += step.kernel->bound.flops;
  }
  return {plan.explain() + fmt::format("{:.1f} KiB moved; {:.3g} flops\n", bytes / 1024, flops), plan.to_dot()};
}

}  // namespace

void compute_with_step(const Tensor& tensor) {
  if (tensor.has_value()) return;
  // Expired entries are dropped before the list grows, since no step may ever clear them.
  if (left.size() == left.capacity()) std::erase_if(left, [](const auto& state) { return state.expired(); });
  left.push_back(tensor.shared_state());
}

std::vector<Tensor> left_to_compute(const std::shared_ptr<Device>& device) {
  std::vector<Tensor> tensors;
  for (const std::weak_ptr<TensorState>& held : left) {
    std::shared_ptr<TensorState> state = held.lock();
    if (state == nullptr) continue;
    const Tensor tensor(std::move(state));
    if (!tensor.has_value() && tensor.device() == device) tensors.push_back(tensor);
  }
  left.clear();
  return tensors;
}

void run_interruptibly(const std::function<void(const std::atomic<bool>* cancel)>& run) {
  for (;;) {
    try {
      const InterruptScope scope;
      const WithoutGil without_gil;
      return run(scope.flag());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInterrupted) throw;
    }
    // Python's handler raises; where the user's does not, what was stopped starts again.
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void evaluate(std::span<const Tensor> tensors) {
  require_no_trace();
  if (tensors.size() == 1 && tensors[0].defined()) {
    if (tensors[0].has_value()) return;
    require_this_process(*tensors[0].device());
    if (try_eval_inline(tensors[0])) return;
  }
  Evaluation evaluation(tensors);
  if (!evaluation.has_work()) return;
  require_this_process(*tensors.front().device());
  // To let other threads go on and to listen to Ctrl-C takes longer than a small plan.
  if (evaluation.try_run_inline()) return evaluation.finish();
  run_interruptibly([&](const std::atomic<bool>* cancel) { evaluation.run(cancel); });
  evaluation.finish();
}

void listen_to_interrupts(Device& device) {
  Executor::of(device).set_run_interruptibly([](const std::function<void(const std::atomic<bool>* cancel)>& run) {
    if (holds_gil()) return run_interruptibly(run);
    run(nullptr);  // within what runs already
  });
}

void bind_run(nb::module_& m, TensorClass& tensor) {
  m.def("eval", eval_all, nb::sig("def eval(*tensors: Any) -> None"),
        R"(Computes tensors now, in one plan for each device.

Parameters
----------
*tensors : Tensor, module or optimizer, or nested lists, tuples and dicts of these
    Afterward they have values, and so do the parameters, buffers and states of modules and optimizers. What else such a container holds is left alone.

>>> x = gb.tensor([1.0, 2.0]) * 2
>>> gb.eval(x)
)");
  m.def("_explain", explain, nb::sig("def _explain(results: list[Tensor], /) -> tuple[str, str]"));
  tensor.def(
      "eval",
      [](nb::object self) {
        evaluate(nb::cast<const Tensor&>(self));
        return self;
      },
      nb::sig("def eval(self) -> Tensor"),
      "Computes the tensor now, and returns it.\n\n>>> gb.tensor(2.0).eval()\ntensor(2.)\n");
}

}  // namespace gabbro::python
