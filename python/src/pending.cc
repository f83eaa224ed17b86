// Pending work, in weak references, so that it keeps nothing alive: large ops by their nodes, and results that programs
// dropped, whose inputs are found through their other references.
#include "python/src/pending.h"
#include "python/src/fork.h"
#include "python/src/views.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "python/src/nn.h"
#include "src/graph/observer.h"
#include "src/plan/eval.h"

namespace gabbro::python {
namespace {

// All of it is guarded by the GIL.
class PendingWork {
 public:
  void recorded(const std::shared_ptr<Node>& node, std::span<const Tensor> outputs) {
    if (nodes_.size() >= limit_) {
      std::erase_if(nodes_, [](const auto& entry) { return entry.second.node.expired(); });
      limit_ = std::max(kLeast, 2 * nodes_.size());
    }
    Entry& entry = nodes_[node.get()] = {node, {}};
    for (const Tensor& output : outputs) entry.outputs.push_back(output.shared_state());
  }

  void evaluated(std::span<const Node* const> nodes) {
    if (nodes_.empty()) return;
    for (const Node* const node : nodes) nodes_.erase(node);
  }

  // A result that will never be read.
  void dropped(const Tensor& result) {
    if (nodes_.empty()) return;
    Trace traced = trace(std::span(&result, 1));
    if (std::ranges::none_of(traced.nodes, [&](const auto& node) { return is_known(node); })) return;
    evaluated(addresses_of(traced.nodes));
    Dropped& entry = dropped_.emplace_back(Dropped{result.device(), std::move(traced.program), {}});
    for (const Tensor& parameter : traced.parameters) {
      const bool small = parameter.shape().elements() < kLargeElements;  // numbers and random keys
      entry.parameters.push_back({parameter.shared_state(), small ? parameter : Tensor()});
    }
    if (dropped_.size() > kMostDropped) dropped_.pop_front();
  }

  // The results of this device, but for those that others of them are computed from.
  std::vector<Tensor> held(const Device& device) {
    std::vector<Tensor> results;
    std::unordered_set<const TensorState*> inputs;
    for (const auto& [address, entry] : nodes_) {
      for (const std::weak_ptr<TensorState>& output : entry.outputs) {
        const std::shared_ptr<TensorState> state = output.lock();
        if (state == nullptr || state->node == nullptr || state->device.get() != &device) continue;
        for (const Tensor& input : state->node->inputs) inputs.insert(&input.state());
        results.emplace_back(state);
      }
    }
    std::erase_if(results, [&](const Tensor& result) { return inputs.contains(&result.state()); });
    std::ranges::sort(results, {}, [](const Tensor& result) { return result.state().node->sequence; });
    return results;
  }

  std::pair<size_t, size_t> counts() {
    std::erase_if(nodes_, [](const auto& entry) { return entry.second.node.expired(); });
    return {nodes_.size(), dropped_.size()};
  }

  // Runs the programs of this device's dropped results whose inputs still exist, and forgets them.
  void compute_dropped(const std::shared_ptr<Device>& device) {
    std::deque<Dropped> programs;
    std::swap(programs, dropped_);
    for (Dropped& entry : programs) {
      if (entry.device != device) {
        dropped_.push_back(std::move(entry));
        continue;
      }
      std::vector<Tensor> parameters;
      for (const Dropped::Parameter& parameter : entry.parameters)
        if (std::shared_ptr<TensorState> state = parameter.state.lock()) parameters.emplace_back(std::move(state));
      if (parameters.size() != entry.parameters.size()) continue;
      run_interruptibly(
          [&](const std::atomic<bool>* cancel) { run_program(device, entry.program, parameters, cancel); });
    }
  }

 private:
  static constexpr size_t kLeast = 64;
  static constexpr size_t kMostDropped = 1024;  // a program of one op takes about 1 KiB

  struct Entry {
    std::weak_ptr<Node> node;
    std::vector<std::weak_ptr<TensorState>> outputs;
  };
  struct Dropped {
    struct Parameter {
      std::weak_ptr<TensorState> state;
      Tensor kept;  // undefined where it is large
    };
    std::shared_ptr<Device> device;
    Program program;
    std::vector<Parameter> parameters;
  };

  bool is_known(const std::shared_ptr<Node>& node) const {
    const auto found = nodes_.find(node.get());
    return found != nodes_.end() && !found->second.node.expired();
  }

  std::unordered_map<const Node*, Entry> nodes_;
  std::deque<Dropped> dropped_;
  size_t limit_ = kLeast;
};

PendingWork& work() {
  static PendingWork& pending = *new PendingWork;
  return pending;
}

// Planning records ops, too, without the GIL: they are not the user's work.
constexpr Observer kObserver = {
    .recorded =
        [](const std::shared_ptr<Node>& node, std::span<const Tensor> outputs) {
          if (holds_gil()) work().recorded(node, outputs);
        },
    .evaluated =
        [](std::span<const Node* const> nodes) {
          if (holds_gil()) work().evaluated(nodes);
        },
    .stored =
        [](const std::shared_ptr<TensorState>& state) {
          if (holds_gil()) note_memory(state);
        },
};

destructor original_dealloc = nullptr;

void forget_view(Tensor& tensor) {
  try {
    forget_place(tensor);
  } catch (const std::exception&) {  // out of memory
  }
}

// tp_dealloc of Tensor.
void dealloc(PyObject* self) {
  if (nb::inst_ready(self)) {
    Tensor& tensor = *nb::inst_ptr<Tensor>(self);
    forget_view(tensor);
    const auto [is_ready, owns_tensor] = nb::inst_state(self);  // that of `p.grad` belongs to the parameter
    if (owns_tensor && tensor.defined() && !tensor.has_value() && tensor.sole_owner()) {
      try {
        work().dropped(tensor);
      } catch (const std::exception&) {  // out of memory: then it is not computed
      }
    }
  }
  original_dealloc(self);
}

// tp_dealloc of Parameter.
void dealloc_parameter(PyObject* self) {
  if (nb::inst_ready(self)) forget_view(*nb::inst_ptr<Tensor>(self));
  original_dealloc(self);
}

}  // namespace

void compute_pending(const std::shared_ptr<Device>& device) {
  require_no_trace();
  work().compute_dropped(device);
  const std::vector<Tensor> results = work().held(*device);
  if (!results.empty()) evaluate(results);
}

std::pair<size_t, size_t> pending_counts() { return work().counts(); }

destructor tensor_dealloc() { return dealloc; }
destructor parameter_dealloc() { return dealloc_parameter; }

void watch_pending_work() {
  auto* const type = reinterpret_cast<PyTypeObject*>(nb::type<nn::Module>().ptr());  // with nanobind's own function
  original_dealloc = reinterpret_cast<destructor>(PyType_GetSlot(type, Py_tp_dealloc));
  set_observer(&kObserver);
}

}  // namespace gabbro::python
