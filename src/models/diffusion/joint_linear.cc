#include "src/models/diffusion/joint_linear.h"

#include <algorithm>
#include <stdexcept>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/products.h"
#include "gabbro/ops/shapes.h"
#include "src/backend/device.h"
#include "src/models/diffusion/image_layout.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {
namespace {

using Layers = std::vector<std::shared_ptr<AdaptableLinear>>;

// Whether the weights can be stored as one matrix.
bool can_join(const Layers& layers) {
  const AdaptableLinear& first = *layers.front();
  return layers.size() > 1 && std::ranges::all_of(layers, [&](const std::shared_ptr<AdaptableLinear>& layer) {
           return has_channels_last(layer->weight.dtype()) && !layer->weight.spec().packed &&
                  layer->weight.dtype() == first.weight.dtype() && layer->in_features() == first.in_features() &&
                  layer->bias.defined() == first.bias.defined() && !layer->order.defined() && layer->adapters.empty() &&
                  !layer->observe;
         });
}

// Consecutive matrices of one memory block as one matrix in place; undefined: they are stored otherwise.
Tensor joined_in_place(std::span<const Tensor> all) {
  const std::shared_ptr<void>& block = all.front().state().storage;
  int64_t rows = 0;
  for (const Tensor& one : all) {
    const TensorState& state = one.state();
    if (!one.has_value() || state.spec.shape.rank() != 2 || !state.layout.is_contiguous() || state.layout.offset != 0)
      return {};
    const size_t before = dtype_bytes(state.spec.dtype, static_cast<size_t>(rows * state.spec.shape[1]));
    const bool same_block = !block.owner_before(state.storage) && !state.storage.owner_before(block);
    if (!same_block || state.storage.get() != static_cast<const std::byte*>(block.get()) + before) return {};
    rows += state.spec.shape[0];
  }
  const Tensor& first = all.front();
  return first.device()->tensor_in(block, first.dtype(), Shape{rows, first.shape()[1]});
}

// A member of all layers in sequence; the layers get views of it.
Tensor join(const Layers& layers, Tensor AdaptableLinear::*member) {
  std::vector<Tensor> all;
  for (const auto& layer : layers) all.push_back((*layer).*member);
  Tensor joint = joined_in_place(all);
  if (!joint.defined()) {
    joint = concat(all, 0);
    eval(std::span(&joint, 1));
  }
  int64_t first = 0;
  for (const auto& layer : layers) {
    const int64_t rows = ((*layer).*member).shape()[0];
    (*layer).*member = slice(joint, 0, first, rows);
    first += rows;
  }
  return joint;
}

}  // namespace

JointLinear::JointLinear(Layers layers) : layers_(std::move(layers)) {
  if (layers_.empty() || !can_join(layers_)) return;
  weight_ = join(layers_, &AdaptableLinear::weight);
  if (layers_.front()->bias.defined()) bias_ = join(layers_, &AdaptableLinear::bias);
}

bool JointLinear::is_adapted() const {
  return std::ranges::any_of(layers_,
                             [](const std::shared_ptr<AdaptableLinear>& layer) { return layer->is_adapted(); });
}

size_t JointLinear::product_count() const { return weight_.defined() && !is_adapted() ? 1 : layers_.size(); }

std::vector<Tensor> JointLinear::products(const Tensor& x) const {
  std::vector<Tensor> results;
  if (!weight_.defined()) {
    for (const auto& layer : layers_) results.push_back(layer->forward(x));
    return results;
  }
  const Tensor y = linear(x, weight_, bias_);  // [..., N_0 + N_1 + ...]
  if (!is_adapted()) return {y};
  int64_t first = 0;
  for (const auto& layer : layers_) {
    const int64_t rows = layer->out_features();
    results.push_back(layer->add_terms(slice(y, -1, first, rows), x));
    first += rows;
  }
  return results;
}

std::vector<Tensor> JointLinear::parts(std::span<const Tensor> products) const {
  if (products.size() == layers_.size()) return {products.begin(), products.end()};
  std::vector<Tensor> views;
  int64_t first = 0;
  for (const auto& layer : layers_) {
    const int64_t rows = layer->out_features();
    views.push_back(slice(products.front(), -1, first, rows));
    first += rows;
  }
  return views;
}

std::span<const Tensor> TensorQueue::take(size_t count) {
  if (tensors_.size() - next_ < count) throw std::logic_error("fewer tensors than the layers take");
  next_ += count;
  return std::span(tensors_).subspan(next_ - count, count);
}

}  // namespace gabbro::diffusion
