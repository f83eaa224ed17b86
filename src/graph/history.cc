#include "src/graph/history.h"

#include <algorithm>
#include <unordered_set>

#include "gabbro/graph/autocast.h"
#include "src/base/error.h"
#include "src/base/pooled.h"

namespace gabbro {
namespace {

thread_local bool enabled = true;
thread_local bool training = false;

// A tensor of this spec that stands for another one and has no value.
Tensor stand_in(const TensorSpec& spec, const std::shared_ptr<Device>& device) {
  auto state = make_pooled<TensorState>();
  state->spec = spec;
  state->device = device;
  state->layout = Layout::contiguous(spec.shape);
  return Tensor(std::move(state));
}

// The tensors with values that the graphs of these are computed from.
std::unordered_set<const TensorState*> values_read_by(std::vector<Tensor> tensors) {
  std::unordered_set<const TensorState*> values;
  std::unordered_set<const Node*> visited;
  while (!tensors.empty()) {
    const Tensor tensor = std::move(tensors.back());
    tensors.pop_back();
    if (tensor.has_value()) {
      values.insert(&tensor.state());
    } else if (const Node& node = *tensor.state().node; visited.insert(&node).second) {
      tensors.insert(tensors.end(), node.inputs.begin(), node.inputs.end());
    }
  }
  return values;
}

}  // namespace

bool gradients_enabled() { return enabled; }
GradientMode::GradientMode(bool now) : before_(std::exchange(enabled, now)) {}
GradientMode::~GradientMode() { enabled = before_; }
TrainingNodes::TrainingNodes() : before_(std::exchange(training, true)) {}
TrainingNodes::~TrainingNodes() { training = before_; }

bool is_differentiable(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f64;
}

void require_gradient(const Tensor& x) {
  if (!x.defined()) throw bad_input("[requires_grad] the tensor is undefined");
  if (!is_differentiable(x.dtype()) || x.spec().packed) {
    throw bad_input("[requires_grad] {}{} {} cannot have a gradient: only f16, bf16, f32 and f64 can",
                    x.spec().packed ? "packed " : "", dtype_name(x.dtype()), x.shape().to_string());
  }
  if (!is_leaf(x)) {
    throw bad_input("[requires_grad] {} {} was computed from a tensor that requires a gradient; detach it",
                    dtype_name(x.dtype()), x.shape().to_string());
  }
  if (!needs_gradient(x)) x.state().history = make_pooled<History>();
}

void record_history(const std::shared_ptr<Node>& node, std::span<const Tensor> outputs) {
  node->training = training;
  const bool has_gradient = enabled && std::ranges::any_of(node->inputs, needs_gradient);
  if (!has_gradient && outputs.size() == 1) return;
  for (size_t i = 0; i < outputs.size(); ++i) {
    TensorState& state = outputs[i].state();
    node->made.push_back(std::weak_ptr<TensorState>(outputs[i].shared_state()));
    if (!has_gradient || !is_differentiable(state.spec.dtype)) continue;
    state.history = make_pooled<History>(History{.node = node, .output = static_cast<int>(i)});
    node->training = true;
  }
}

Tensor output_of(const std::shared_ptr<Node>& node, int output) {
  std::weak_ptr<TensorState>& made = node->made[static_cast<size_t>(output)];
  if (auto state = made.lock()) return Tensor(std::move(state));
  const Tensor again = stand_in(node->outputs[static_cast<size_t>(output)], node->device);
  const auto kept = std::ranges::find(node->kept, output, &std::pair<int, Tensor>::first);
  if (kept != node->kept.end()) {
    again.state() = kept->second.state();
  } else {
    again.state().node = node;
    again.state().output = output;
  }
  if (is_differentiable(again.dtype()))
    again.state().history = make_pooled<History>(History{.node = node, .output = output});
  made = again.shared_state();
  return again;
}

std::vector<bool> read_by_gradient(const Node& node) {
  const size_t count = node.inputs.size();
  std::vector<bool> read(count + node.outputs.size(), false);
  // A checkpoint, or the composition, is computed once more from the inputs.
  if (node.gradient != nullptr || node.op->gradient == nullptr) {
    std::fill_n(read.begin(), count, true);
    return read;
  }
  // The rule is asked on stand-ins, and what it builds is looked through.
  const NoGrad no_grad;
  const NoAutocast as_recorded;
  std::vector<Tensor> inputs, outputs, gradients;
  for (const Tensor& input : node.inputs) inputs.push_back(stand_in(input.spec(), node.device));
  for (const TensorSpec& spec : node.outputs) {
    outputs.push_back(stand_in(spec, node.device));
    gradients.push_back(is_differentiable(spec.dtype) ? stand_in(spec, node.device) : Tensor());
  }
  const Gradients results =
      node.op->gradient({.inputs = inputs, .outputs = outputs, .attributes = node.attributes, .gradients = gradients});
  std::vector<Tensor> wanted;
  for (size_t i = 0; i < count; ++i)
    if (results[i].defined() && needs_gradient(node.inputs[i])) wanted.push_back(results[i]);
  const std::unordered_set<const TensorState*> parameters = values_read_by(std::move(wanted));
  for (size_t i = 0; i < count; ++i) read[i] = parameters.contains(&inputs[i].state());
  for (size_t i = 0; i < outputs.size(); ++i) read[count + i] = parameters.contains(&outputs[i].state());
  return read;
}

void free_history(std::span<const std::shared_ptr<Node>> nodes) {
  for (const std::shared_ptr<Node>& node : nodes) {
    for (const std::weak_ptr<TensorState>& made : node->made) {
      const std::shared_ptr<TensorState> state = made.lock();
      if (state == nullptr || state->history == nullptr) continue;
      state->history->node.reset();
      state->history->freed = true;
    }
  }
}

}  // namespace gabbro
