#include "src/train/device_links.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/graph/history.h"
#include "src/ops/grad.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::train {
namespace {

const Op kDeviceLink = {.name = "device_link"};

// The elements of the storage that a strided tensor spans, as one row: what is copied.
Tensor span_of_storage(const Tensor& tensor) {
  const TensorState& state = tensor.state();
  if (state.layout.is_contiguous()) return tensor;
  int64_t last = 0;
  for (int axis = 0; axis < state.layout.shape.rank(); ++axis)
    last += (state.layout.shape[axis] - 1) * state.layout.strides[static_cast<size_t>(axis)];
  const Shape shape{state.layout.shape.elements() == 0 ? 0 : last + 1};
  auto row = std::make_shared<TensorState>(state);
  row->spec.shape = shape;
  row->layout = Layout::contiguous(shape);
  row->layout.offset = state.layout.offset;
  return Tensor(std::move(row));
}

// The copy of such a row with the strides of the tensor.
Tensor with_layout(const Tensor& copy, const Layout& layout) {
  auto state = std::make_shared<TensorState>(copy.state());
  const int64_t offset = layout.is_contiguous() ? state->layout.offset : 0;
  state->spec.shape = layout.shape;
  state->layout = layout;
  state->layout.offset = offset;
  return Tensor(std::move(state));
}

// Another handle of a value, without a history.
Tensor alias_of(const Tensor& x) {
  auto state = std::make_shared<TensorState>(x.state());
  state->history.reset();
  return Tensor(std::move(state));
}

void evaluate_by_device(std::span<const Tensor> tensors) {
  std::vector<Tensor> pending;
  for (const Tensor& tensor : tensors)
    if (tensor.defined() && !tensor.has_value()) pending.push_back(tensor);
  while (!pending.empty()) {
    const std::shared_ptr<Device> device = pending.front().device();
    const auto others =
        std::ranges::stable_partition(pending, [&](const Tensor& tensor) { return tensor.device() == device; });
    eval(std::span(pending.begin(), others.begin()));
    pending.erase(pending.begin(), others.begin());
  }
}

}  // namespace

Handoff& DeviceLinks::handoff(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to) {
  std::unique_ptr<Handoff>& known = handoffs_[{from.get(), to.get()}];
  if (known == nullptr) known = std::make_unique<Handoff>(from, to);
  return *known;
}

DeviceLinks::Exchange DeviceLinks::send(std::span<const Tensor> tensors, const Devices& to) {
  evaluate_by_device(tensors);
  Exchange exchange{
      .tensors = std::vector<Tensor>(tensors.size()), .layouts = std::vector<Layout>(tensors.size()), .routes = {}};
  std::map<std::pair<const Device*, const Device*>, std::vector<size_t>> pairs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    if (tensors[i].spec().packed)
      throw bad_input("[replicas] a packed matrix {} stays on {}", tensors[i].shape().to_string(),
                      tensors[i].device()->facts().id);
    exchange.layouts[i] = tensors[i].state().layout;
    if (tensors[i].device() == to[i]) {
      exchange.tensors[i] = alias_of(tensors[i]);
    } else {
      pairs[{tensors[i].device().get(), to[i].get()}].push_back(i);
    }
  }
  for (auto& [pair, which] : pairs) {
    Handoff& handoff = this->handoff(tensors[which.front()].device(), to[which.front()]);
    std::vector<Tensor> rows;
    for (const size_t i : which) rows.push_back(span_of_storage(tensors[i]));
    const size_t slot = handoff.send(rows);
    exchange.routes.push_back({.handoff = &handoff, .slot = slot, .tensors = std::move(which)});
  }
  return exchange;
}

std::vector<Tensor> DeviceLinks::receive(Exchange exchange) {
  for (const Exchange::Route& route : exchange.routes) {
    const std::vector<Tensor> copies = route.handoff->receive(route.slot);
    route.handoff->keep(route.slot);
    for (size_t i = 0; i < copies.size(); ++i) {
      const size_t number = route.tensors[i];
      exchange.tensors[number] = with_layout(copies[i], exchange.layouts[number]);
    }
  }
  return std::move(exchange.tensors);
}

std::vector<Tensor> DeviceLinks::moved(std::span<const Tensor> tensors, const Devices& to) {
  Devices from;
  for (const Tensor& tensor : tensors) from.push_back(tensor.device());
  const std::vector<Tensor> values = copies(tensors, to);
  return with_gradient(tensors, values, [links = shared_from_this(), from](std::span<const Tensor> gradients) {
    return links->copies(gradients, from);
  });
}

std::vector<Tensor> with_gradient(std::span<const Tensor> inputs, std::span<const Tensor> values,
                                  std::function<std::vector<Tensor>(std::span<const Tensor>)> gradient) {
  std::vector<Tensor> outputs(values.begin(), values.end());
  if (!gradients_enabled() || std::ranges::none_of(inputs, needs_gradient)) return outputs;
  const auto node = std::make_shared<Node>();
  node->op = &kDeviceLink;
  node->inputs.assign(inputs.begin(), inputs.end());
  node->device = values.front().device();
  node->training = true;
  const Tensor after = detach(values.front());  // a recorded node: this one comes after all that made the inputs
  node->sequence = nodes_recorded();
  node->gradient = [gradient = std::move(gradient)](const GradientArgs& args) {
    if (gradients_enabled()) throw bad_input("[DataParallel] there are no gradients of gradients over several devices");
    return gradient(args.gradients);
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = alias_of(outputs[i]);
    node->outputs.push_back(outputs[i].spec());
    node->made.push_back(std::weak_ptr<TensorState>(outputs[i].shared_state()));
    if (needs_gradient(inputs[i % inputs.size()])) {
      outputs[i].state().history = std::make_shared<History>(History{.node = node, .output = static_cast<int>(i)});
    }
  }
  return outputs;
}

}  // namespace gabbro::train
