// Functions that are traced once and then replayed (gabbro/replay.py is their face).
#include "python/assignment.h"
#include "python/bind.h"
#include "python/random_state.h"
#include "src/base/error.h"
#include "src/graph/eval.h"

namespace gabbro::python {
namespace {

int traces = 0;  // running; guarded by the GIL

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

class CompiledFunction {
 public:
  // `function` takes tensors like the examples, which have values, and gives a list of tensors.
  CompiledFunction(const nb::callable& function, const std::vector<Tensor>& examples) {
    std::vector<Tensor> inputs;
    nb::list arguments;
    for (const Tensor& example : examples) {
      inputs.push_back(placeholder(example));
      arguments.append(inputs.back());
    }
    std::vector<Tensor> keys;
    std::vector<Tensor> results;
    {
      const TraceScope scope;
      const KeyRecorder recorder(keys);
      results = nb::cast<std::vector<Tensor>>(function(*arguments));
    }
    for (const Tensor& key : keys) key_devices_.push_back(key.device());
    inputs.insert(inputs.end(), keys.begin(), keys.end());
    compiled_ = std::make_unique<Compiled>([&] { return results; }, inputs);
  }

  // Whether it was made for such inputs, all with values.
  bool takes(std::span<const Tensor> inputs) const { return key_devices_.empty() && compiled_->takes(inputs); }

  std::vector<Tensor> operator()(std::vector<Tensor> inputs) {
    for (const std::shared_ptr<Device>& device : key_devices_) inputs.push_back(next_key(device));
    // To let other threads go on and to listen to Ctrl-C takes longer than a little plan.
    if (auto little = compiled_->run_if_little(inputs)) return std::move(*little);
    std::vector<Tensor> results;
    run_interruptibly([&](const std::atomic<bool>* cancel) { results = (*compiled_)(inputs, cancel); });
    return results;
  }

  // Of each launch: op, kernel, bytes and floating point operations; 0 where the kernel does not say.
  nb::list launches() const {
    nb::list facts;
    for (const PlanStep& step : compiled_->plan().steps()) {
      const abi::BoundKernel& kernel = step.kernel->bound;
      facts.append(nb::make_tuple(step.op->name, kernel.implementation, kernel.bytes, kernel.flops));
    }
    return facts;
  }

 private:
  std::vector<std::shared_ptr<Device>> key_devices_;
  std::unique_ptr<Compiled> compiled_;
};

// The replays of one function that are for tensors alone and give one, and so can be found without taking apart what
// they are called with.
class Replays {
 public:
  void add(nb::object compiled) {
    if (known_.size() < kMany) known_.push_back(std::move(compiled));
  }

  // None where there is no replay for these.
  nb::object operator()(const nb::tuple& arguments) const {
    if (known_.empty() || traces > 0) return nb::none();
    std::vector<Tensor> inputs;
    inputs.reserve(arguments.size());
    for (nb::handle argument : arguments) {
      if (!nb::isinstance<Tensor>(argument)) return nb::none();
      inputs.push_back(nb::cast<const Tensor&>(argument));
      evaluate(inputs.back());
    }
    for (const nb::object& held : known_) {
      auto& compiled = nb::cast<CompiledFunction&>(held);
      if (compiled.takes(inputs)) return nb::cast(std::move(compiled(std::move(inputs)).front()));
    }
    return nb::none();
  }

 private:
  static constexpr size_t kMany = 16;  // more are found as fast by what tells them apart
  std::vector<nb::object> known_;
};

// What tells apart the inputs that need plans of their own.
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
      .def(nb::init<const nb::callable&, const std::vector<Tensor>&>(),
           nb::sig("def __init__(self, function: Callable[..., list[Tensor]], examples: list[Tensor]) -> None"))
      .def("__call__", &CompiledFunction::operator())
      .def("launches", &CompiledFunction::launches,
           nb::sig("def launches(self) -> list[tuple[str, str, float, float]]"));
  nb::class_<Replays>(m, "_Replays")
      .def(nb::init<>())
      .def("add", &Replays::add, nb::sig("def add(self, compiled: _CompiledFunction, /) -> None"))
      .def("__call__", &Replays::operator(),
           nb::sig("def __call__(self, arguments: tuple[Any, ...], /) -> Tensor | None"));
  m.def("_is_tracing", is_tracing);
  m.def("_signature", signature_of, nb::sig("def _signature(x: Tensor, /) -> tuple[Any, ...]"));
}

}  // namespace gabbro::python
