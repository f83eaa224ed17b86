#include "src/graph/node.h"

#include <atomic>
#include <cstring>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/base/pooled.h"
#include "src/graph/history.h"
#include "src/graph/observer.h"

namespace gabbro {

void Attributes::set(const char* name, Value value) {
  for (auto& entry : entries_) {
    if (std::strcmp(entry.first, name) == 0) {
      entry.second = std::move(value);
      return;
    }
  }
  constexpr size_t kUsual = 4;  // the lengths of a shape, one by one, take one allocation then
  if (entries_.capacity() == 0) entries_.reserve(kUsual);
  entries_.emplace_back(name, std::move(value));
}

const Attributes::Value& Attributes::at(std::string_view name) const {
  for (const auto& entry : entries_) {
    if (entry.first == name.data() || entry.first == name) return entry.second;
  }
  throw failed("internal: an op lacks its attribute '{}'", name);
}

int64_t Attributes::integer(std::string_view name) const { return std::get<int64_t>(at(name)); }
double Attributes::real(std::string_view name) const { return std::get<double>(at(name)); }

bool Attributes::operator==(const Attributes& other) const {
  if (entries_.size() != other.entries_.size()) return false;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (std::string_view(entries_[i].first) != other.entries_[i].first ||
        entries_[i].second != other.entries_[i].second)
      return false;
  }
  return true;
}

Node::~Node() {
  // Nodes that only we keep alive would be destroyed one inside the other: take them off the chain one by one instead.
  std::vector<Tensor> pending = std::move(inputs);
  while (!pending.empty()) {
    const Tensor tensor = std::move(pending.back());
    pending.pop_back();
    if (!tensor.defined() || !tensor.sole_owner()) continue;
    TensorState& state = tensor.state();
    std::shared_ptr<Node> nodes[] = {std::move(state.node), nullptr};
    if (state.history != nullptr) {
      if (state.history->gradient != nullptr) pending.push_back(*state.history->gradient);
      state.history->gradient.reset();  // another may hold the object
      nodes[1] = std::move(state.history->node);
      if (nodes[0] == nodes[1]) nodes[1].reset();
    }
    for (const std::shared_ptr<Node>& node : nodes) {
      if (node == nullptr || node.use_count() != 1) continue;
      for (Tensor& input : node->inputs) pending.push_back(std::move(input));
      node->inputs.clear();
    }
  }
}

namespace {
std::atomic<uint64_t> recorded = 0;
const Observer* the_observer = nullptr;

bool is_large(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors)
    if (tensor.shape().elements() >= kLargeElements) return true;
  return false;
}

}  // namespace

void set_observer(const Observer* observer) { the_observer = observer; }
const Observer* observer() { return the_observer; }
uint64_t nodes_recorded() { return recorded; }

namespace {

std::shared_ptr<Node> make_node(const Op& op, std::vector<Tensor> inputs, Attributes attributes,
                                std::shared_ptr<Device> device) {
  for (const Tensor& input : inputs) {
    if (!input.defined()) throw bad_input("[{}] an input is not a tensor", op.name);
    if (device == nullptr) device = input.device();
    if (input.device() != device) {
      throw bad_input("[{}] inputs are on different devices: {} and {}", op.name, device->facts().id,
                      input.device()->facts().id);
    }
  }
  if (device == nullptr) throw bad_input("[{}] no device", op.name);
  auto node = make_pooled<Node>();
  node->sequence = ++recorded;
  node->op = &op;
  node->attributes = std::move(attributes);
  node->inputs = std::move(inputs);
  node->device = std::move(device);
  node->outputs = op.infer(Args{node->inputs, node->attributes});
  return node;
}

Tensor pending_output(const std::shared_ptr<Node>& node, size_t output) {
  auto state = make_pooled<TensorState>();
  state->spec = node->outputs[output];
  state->device = node->device;
  state->node = node;
  state->output = static_cast<int>(output);
  return Tensor(std::move(state));
}

void announce(const std::shared_ptr<Node>& node, std::span<const Tensor> outputs) {
  record_history(node, outputs);
  if (the_observer != nullptr && (is_large(outputs) || is_large(node->inputs))) the_observer->recorded(node, outputs);
}

std::vector<Tensor> pending_outputs(const std::shared_ptr<Node>& node) {
  std::vector<Tensor> outputs;
  outputs.reserve(node->outputs.size());
  for (size_t i = 0; i < node->outputs.size(); ++i) outputs.push_back(pending_output(node, i));
  announce(node, outputs);
  return outputs;
}

}  // namespace

std::vector<Tensor> record_all(const Op& op, std::vector<Tensor> inputs, Attributes attributes,
                               std::shared_ptr<Device> device) {
  return pending_outputs(make_node(op, std::move(inputs), std::move(attributes), std::move(device)));
}

Tensor record(const Op& op, std::vector<Tensor> inputs, Attributes attributes, std::shared_ptr<Device> device) {
  const std::shared_ptr<Node> node = make_node(op, std::move(inputs), std::move(attributes), std::move(device));
  if (node->outputs.size() > 1) return pending_outputs(node).front();
  Tensor output = pending_output(node, 0);
  announce(node, std::span(&output, 1));
  return output;
}

}  // namespace gabbro
