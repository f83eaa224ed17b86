#include "python/src/layout_writes.h"

#include <algorithm>

#include "gabbro/ops.h"
#include "src/base/error.h"

namespace gabbro::python {

std::vector<std::shared_ptr<Node>> steps_between(const Tensor& from, const Tensor& to) {
  std::vector<std::shared_ptr<Node>> steps;
  const TensorState* state = &to.state();
  while (state != &from.state()) {
    if (state->node == nullptr || state->node->op->view == nullptr) return {};
    steps.push_back(state->node);
    state = &state->node->inputs[0].state();
  }
  std::ranges::reverse(steps);
  return steps;
}

bool repeats_elements(const Layout& layout) {
  for (int axis = 0; axis < layout.shape.rank(); ++axis)
    if (layout.shape[axis] > 1 && layout.strides[static_cast<size_t>(axis)] == 0) return true;
  return false;
}

namespace {

// i32 [layout.shape].
Tensor positions(const Layout& layout, const std::shared_ptr<Device>& device) {
  Tensor sum = reshape(iota(device, 1, DType::i32, static_cast<double>(layout.offset), 1.0), Shape{});
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    std::vector<int64_t> lengths(static_cast<size_t>(layout.shape.rank()), 1);
    lengths[static_cast<size_t>(axis)] = layout.shape[axis];
    const auto stride = static_cast<double>(layout.strides[static_cast<size_t>(axis)]);
    sum = sum + reshape(iota(device, layout.shape[axis], DType::i32, 0.0, stride), Shape(lengths));
  }
  return broadcast_to(sum, layout.shape);
}

}  // namespace

Tensor with_elements(const char* op, const Tensor& root, const Layout& layout, const Tensor& value) {
  const int64_t all = root.shape().elements(), count = value.shape().elements();
  const Tensor values = reshape(value, Shape{count});
  if (layout.is_contiguous() || count == 1) {
    if (count == all) return reshape(value, root.shape());
    const Tensor flat = reshape(root, Shape{all});
    std::vector<Tensor> parts;
    if (layout.offset > 0) parts.push_back(slice(flat, 0, 0, layout.offset));
    parts.push_back(values);
    const int64_t end = layout.offset + count;
    if (end < all) parts.push_back(slice(flat, 0, end, all - end));
    return reshape(concat(parts, 0), root.shape());
  }
  if (all > INT32_MAX) throw bad_input("[{}] in place: a view of shape {}", op, root.shape().to_string());
  const Tensor places = reshape(positions(layout, root.device()), Shape{count});
  return reshape(put_along_axis(reshape(root, Shape{all}), places, values, 0), root.shape());
}

}  // namespace gabbro::python
