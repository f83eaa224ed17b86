// Functions that are traced once and then replayed (gabbro/replay.py is their face).
#include <algorithm>
#include <array>
#include <unordered_set>

#include "python/src/assignment.h"
#include "python/src/bind.h"
#include "python/src/captures.h"
#include "python/src/random_state.h"
#include "python/src/views.h"
#include "src/base/error.h"
#include "src/graph/history.h"
#include "src/plan/eval.h"

namespace gabbro::python {
namespace {

int traces = 0;     // running; guarded by the GIL
uint64_t runs = 0;  // of all compiled functions; guarded by the GIL

struct TraceScope {
  TraceScope() { ++traces; }
  ~TraceScope() { --traces; }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
};

// Another handle of the same value: what the function captures is not taken for an input. It has no history, since the
// plan's results have none.
Tensor placeholder(const Tensor& example) {
  auto state = std::make_shared<TensorState>(example.state());
  state->history.reset();
  return Tensor(std::move(state));
}

// A tensor to which a function has given another value (x += y, a running mean): an argument, or a captured place.
struct Update {
  bool is_argument;
  size_t index;
};

class CompiledFunction;

// The functions that ran last. Others keep no memory for results: a program may call a function with many lengths.
// Guarded by the GIL.
class RecentRuns {
 public:
  void ran(CompiledFunction* function);
  void forget(CompiledFunction* function) { std::ranges::replace(recent_, function, nullptr); }

 private:
  std::array<CompiledFunction*, 8> recent_{};  // the last one first
};
RecentRuns recent_runs;

class CompiledFunction {
 public:
  // `function` takes tensors like the examples, which have values, and gives a list of tensors.
  // `places` are the tensors that gabbro/captures.py has found. The function fills `used`: which of them it has
  // reached.
  CompiledFunction(const nb::callable& function, const std::vector<Tensor>& examples, const nb::list& places,
                   const nb::list& used)
      : captures_(places), arguments_(examples.size()) {
    std::vector<Tensor> inputs;
    for (const Tensor& example : examples) inputs.push_back(placeholder(example));
    const PutBack put_back(captures_);
    const UndoWrites undo;
    std::unordered_set<const TensorState*> known;
    for (size_t i = 0; i < captures_.size(); ++i) {
      Tensor& place = captures_.place(i);
      evaluate(place);
      // Places that have one value now may have several later.
      if (!known.insert(&place.state()).second)
        replace_handle(place, Tensor(std::make_shared<TensorState>(place.state())));
      inputs.push_back(place);
      gradients_.push_back(needs_gradient(place));
    }
    std::vector<Tensor> keys;
    std::vector<Tensor> results = traced(function, inputs, keys);
    forget_unused_places(used, results, inputs);
    for (const Tensor& key : keys) key_devices_.push_back(key.device());
    inputs.insert(inputs.end(), keys.begin(), keys.end());
    compiled_ = std::make_unique<Compiled>([&] { return results; }, inputs);
    compiled_->forget_inputs();
  }

  CompiledFunction(const CompiledFunction&) = delete;
  CompiledFunction& operator=(const CompiledFunction&) = delete;
  ~CompiledFunction() { recent_runs.forget(this); }

  void forget_results() {
    if (running_ == 0) compiled_->forget_results();
  }

  // Whether it was made for such arguments, all with values, and everything else that it depends on.
  bool takes(std::span<const Tensor> arguments) const {
    if (arguments.size() != arguments_ || !captures_.hold()) return false;
    for (size_t i = 0; i < arguments_; ++i)
      if (!compiled_->takes(i, arguments[i])) return false;
    for (size_t i = 0; i < captures_.size(); ++i) {
      const Tensor& place = captures_.place(i);
      evaluate(place);
      if (!compiled_->takes(arguments_ + i, place) || needs_gradient(place) != gradients_[i]) return false;
    }
    return true;
  }

  // `holders`: the arguments as Python objects. The ones that the function changes get their new values.
  std::vector<Tensor> operator()(std::vector<Tensor> inputs, nb::handle holders) {
    for (const Update& update : updates_)
      if (update.is_argument) require_alone(update.index, holders);
    for (size_t i = 0; i < captures_.size(); ++i) inputs.push_back(captures_.place(i));
    for (const std::shared_ptr<Device>& device : key_devices_) inputs.push_back(next_key(device));
    recent_runs.ran(this);
    last_run_ = ++runs;
    const Running running(running_);
    std::vector<Tensor> results;
    // To let other threads go on and to listen to Ctrl-C takes longer than a small plan.
    if (auto inline_results = compiled_->try_run_inline(inputs)) {
      results = std::move(*inline_results);
    } else {
      run_interruptibly([&](const std::atomic<bool>* cancel) { results = (*compiled_)(inputs, cancel); });
    }
    for (const Tensor& result : results) note_memory(result.shared_state());
    const size_t own = results.size() - updates_.size();
    for (size_t i = 0; i < updates_.size(); ++i) {
      const auto [is_argument, index] = updates_[i];
      give(is_argument ? nb::cast<Tensor&>(nb::object(holders[index])) : captures_.place(index), results[own + i]);
    }
    results.resize(own);
    return results;
  }

  void set_guards(const nb::list& guards) { captures_.set_guards(guards); }
  // Whether the plan has places that were not reached by what the function was seen to read.
  bool misses_places() const { return misses_places_; }
  uint64_t last_run() const { return last_run_; }

  // One row per launch: op, kernel, bytes and floating point operations; 0 where the kernel does not say.
  nb::list launches() const {
    nb::list facts;
    for (const PlanStep& step : compiled_->plan().steps()) {
      const abi::BoundKernel& kernel = step.kernel->bound;
      facts.append(nb::make_tuple(step.op->name, kernel.implementation, kernel.bytes, kernel.flops));
    }
    return facts;
  }

 private:
  // Calls the function with the first of the inputs. The results, and the values that it gave to arguments and places.
  std::vector<Tensor> traced(const nb::callable& function, const std::vector<Tensor>& inputs,
                             std::vector<Tensor>& keys) {
    nb::list arguments;
    for (size_t i = 0; i < arguments_; ++i) arguments.append(inputs[i]);
    const TraceScope scope;
    const KeyRecorder recorder(keys);
    auto results = nb::cast<std::vector<Tensor>>(function(*arguments));
    if (results.empty()) throw bad_input("[compile] the function has no results");
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_argument = i < arguments_;
      const size_t index = is_argument ? i : i - arguments_;
      const Tensor now = is_argument ? nb::cast<Tensor>(nb::object(arguments[i])) : captures_.place(index);
      if (&now.state() == &inputs[i].state()) continue;
      updates_.push_back({is_argument, index});
      results.push_back(now);
    }
    return results;
  }

  // Forgets the places that the function has not reached and that the plan does not need.
  void forget_unused_places(const nb::list& used, std::span<const Tensor> results, std::vector<Tensor>& inputs) {
    std::vector<bool> kept = nb::cast<std::vector<bool>>(used);
    if (std::ranges::all_of(kept, std::identity())) return;
    const Trace trace = trace_ready(results);
    std::vector<bool> needed(kept.size());
    for (size_t i = 0; i < kept.size(); ++i) needed[i] = trace.leaves.contains(&inputs[arguments_ + i].state());
    for (const Update& update : updates_)
      if (!update.is_argument) needed[update.index] = true;
    std::vector<size_t> position(kept.size());
    size_t count = 0;
    for (size_t i = 0; i < kept.size(); ++i) {
      misses_places_ |= needed[i] && !kept[i];
      kept[i] = kept[i] || needed[i];
      position[i] = count;
      if (!kept[i]) continue;
      gradients_[count] = gradients_[i];
      inputs[arguments_ + count] = inputs[arguments_ + i];
      ++count;
    }
    gradients_.resize(count);
    inputs.resize(arguments_ + count);
    for (Update& update : updates_)
      if (!update.is_argument) update.index = position[update.index];
    captures_.keep(kept);
  }

  // A trace sees each argument by itself.
  void require_alone(size_t changed, nb::handle holders) const {
    const nb::object holder = holders[changed];
    const Tensor& place = nb::cast<const Tensor&>(holder);
    const auto shares = [&](const Tensor& other) { return &other == &place || are_relatives(place, other); };
    bool shared = false;
    for (size_t i = 0; i < arguments_; ++i)
      shared |= i != changed && shares(nb::cast<const Tensor&>(nb::object(holders[i])));
    for (size_t i = 0; i < captures_.size(); ++i) shared |= shares(captures_.place(i));
    if (!shared) return;
    throw bad_input(
        "[compile] the function changes argument {} (shape {}), which shares elements with another tensor "
        "that it uses: copy it first",
        changed, place.shape().to_string());
  }

  // Gives the places their values back when it ends.
  class PutBack {
   public:
    explicit PutBack(const Captures& captures) : captures_(captures) {
      for (size_t i = 0; i < captures.size(); ++i) before_.push_back(captures.place(i));
    }
    ~PutBack() {
      for (size_t i = 0; i < before_.size(); ++i) replace_handle(captures_.place(i), before_[i]);
    }
    PutBack(const PutBack&) = delete;
    PutBack& operator=(const PutBack&) = delete;

   private:
    const Captures& captures_;
    std::vector<Tensor> before_;
  };

  // While a plan runs without the GIL, other threads leave its results' memory.
  class Running {
   public:
    explicit Running(int& count) : count_(++count) {}
    ~Running() { --count_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    int& count_;
  };

  // A leaf stays one, with its gradient.
  static void give(Tensor& place, const Tensor& value) {
    if (has_relatives(place)) return write_to_relatives("compile", place, value, true);
    const std::shared_ptr<History> history = place.state().history;
    place = value;
    if (history == nullptr || history->node != nullptr) return;
    auto state = std::make_shared<TensorState>(value.state());
    state->history = std::make_shared<History>(History{.gradient = history->gradient});
    place = Tensor(std::move(state));
  }

  Captures captures_;
  size_t arguments_;
  std::vector<bool> gradients_;  // of each place: whether it needed one
  std::vector<Update> updates_;
  std::vector<std::shared_ptr<Device>> key_devices_;
  std::unique_ptr<Compiled> compiled_;
  bool misses_places_ = false;
  uint64_t last_run_ = 0;  // as a number among all runs
  int running_ = 0;
};

void RecentRuns::ran(CompiledFunction* function) {
  if (recent_.front() == function) return;
  auto place = std::ranges::find(recent_, function);
  if (place == recent_.end()) {
    place = std::prev(recent_.end());
    if (*place != nullptr) (*place)->forget_results();
  }
  *place = function;
  std::rotate(recent_.begin(), place, std::next(place));
}

// The replays of one function that are for tensors alone and give one, and so can be found without taking apart what
// they are called with. The ones that ran last come first.
class Replays {
 public:
  void add(nb::object compiled) {
    if (known_.size() == kMany) known_.pop_back();
    known_.insert(known_.begin(), std::move(compiled));
  }
  void remove(nb::handle compiled) {
    std::erase_if(known_, [&](const nb::object& held) { return held.is(compiled); });
  }

  // None where there is no replay for these.
  nb::object operator()(const nb::tuple& arguments) {
    if (known_.empty() || traces > 0) return nb::none();
    std::vector<Tensor> inputs;
    inputs.reserve(arguments.size());
    for (nb::handle argument : arguments) {
      if (!nb::isinstance<Tensor>(argument)) return nb::none();
      inputs.push_back(nb::cast<const Tensor&>(argument));
      evaluate(inputs.back());
    }
    const auto takes = [&](const nb::object& held) { return nb::cast<CompiledFunction&>(held).takes(inputs); };
    const auto found = std::ranges::find_if(known_, takes);
    if (found == known_.end()) return nb::none();
    std::rotate(known_.begin(), found, std::next(found));
    const nb::object held = known_.front();  // another thread may add one while it runs
    return nb::cast(std::move(nb::cast<CompiledFunction&>(held)(std::move(inputs), arguments).front()));
  }

 private:
  static constexpr size_t kMany = 16;  // more are found as fast by what tells them apart
  std::vector<nb::object> known_;
};

// The key of a plan: inputs with different keys need different plans.
nb::tuple signature_of(const Tensor& x) {
  evaluate(x);
  nb::list strides;
  for (int axis = 0; axis < x.shape().rank(); ++axis)
    strides.append(x.state().layout.strides[static_cast<size_t>(axis)]);
  return nb::make_tuple(dtype_public_name(x.dtype()), shape_tuple(x.shape()), nb::tuple(strides),
                        x.device()->facts().id);
}

}  // namespace

bool is_tracing() { return traces > 0; }

void require_no_trace() {
  if (!is_tracing()) return;
  throw bad_input("[compile] a function may not read values of tensors while it is traced: it would read them once");
}

void bind_compile(nb::module_& m) {
  nb::class_<CompiledFunction>(m, "_CompiledFunction")
      .def(
          "__init__",
          [](CompiledFunction* self, const nb::callable& function, const std::vector<Tensor>& examples,
             const nb::list& places,
             const nb::list& used) { new (self) CompiledFunction(function, examples, places, used); },
          nb::sig("def __init__(self, function: Callable[..., list[Tensor]], examples: list[Tensor], "
                  "places: list[Tensor], used: list[bool]) -> None"))
      .def(
          "takes", [](const CompiledFunction& self, const std::vector<Tensor>& inputs) { return self.takes(inputs); },
          nb::sig("def takes(self, inputs: list[Tensor], /) -> bool"))
      .def(
          "__call__",
          [](CompiledFunction& self, const nb::list& inputs) {
            return self(nb::cast<std::vector<Tensor>>(inputs), inputs);
          },
          nb::sig("def __call__(self, inputs: list[Tensor], /) -> list[Tensor]"))
      .def("set_guards", &CompiledFunction::set_guards,
           nb::sig("def set_guards(self, guards: list[tuple[str, Any, Any, Any]], /) -> None"))
      .def("misses_places", &CompiledFunction::misses_places)
      .def("last_run", &CompiledFunction::last_run)
      .def("launches", &CompiledFunction::launches,
           nb::sig("def launches(self) -> list[tuple[str, str, float, float]]"));
  nb::class_<Replays>(m, "_Replays")
      .def(nb::init<>())
      .def("add", &Replays::add, nb::sig("def add(self, compiled: _CompiledFunction, /) -> None"))
      .def("remove", &Replays::remove, nb::sig("def remove(self, compiled: _CompiledFunction, /) -> None"))
      .def("__call__", &Replays::operator(),
           nb::sig("def __call__(self, arguments: tuple[Any, ...], /) -> Tensor | None"));
  m.def("_is_tracing", is_tracing);
  m.def("_signature", signature_of, nb::sig("def _signature(x: Tensor, /) -> tuple[Any, ...]"));
}

}  // namespace gabbro::python
