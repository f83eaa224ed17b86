#include "src/models/diffusion/weight_segments.h"

#include <algorithm>

#include "gabbro/graph/eval.h"
#include "src/models/diffusion/adaptable.h"
#include "src/models/diffusion/attention.h"

namespace gabbro::diffusion {
namespace {

// Bytes of a tensor's memory, from its first element on.
size_t bytes_of(const Tensor& tensor) {
  const TensorState& state = tensor.state();
  const Shape& shape = state.spec.shape;
  if (state.spec.packed) return tensor.device()->matrix_bytes(state.spec.dtype, shape[0], shape[1]);
  int64_t last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    last += (shape[axis] - 1) * state.layout.strides[static_cast<size_t>(axis)];
  return shape.elements() > 0 ? dtype_bytes(state.spec.dtype, static_cast<size_t>(last + 1)) : 0;
}

// Parts of a joint weight are views without a value, and left out.
void append_weight(const Tensor& weight, std::vector<Tensor>& weights) {
  if (weight.defined() && weight.has_value()) weights.push_back(weight);
}

void append_weights(const nn::Module& module, std::vector<Tensor>& weights) {
  if (const auto* const linear = dynamic_cast<const AdaptableLinear*>(&module)) append_weight(linear->weight, weights);
  if (const auto* const conv = dynamic_cast<const AdaptableConv2d*>(&module)) append_weight(conv->weight, weights);
  if (const auto* const attention = dynamic_cast<const Attention*>(&module))
    append_weight(attention->joint_weight(), weights);
  for (const nn::Module::Child& child : module.children()) {
    if (child.name != "time_emb_proj") append_weights(*child.module, weights);
  }
}

}  // namespace

WeightSegments::WeightSegments(std::shared_ptr<Device> device, uint64_t resident_bytes, PlannedMemory* planned)
    : device_(std::move(device)), resident_left_(resident_bytes), planned_(planned) {}

size_t WeightSegments::add(std::span<const nn::Module* const> modules) {
  std::vector<Tensor> weights;
  for (const nn::Module* const module : modules) append_weights(*module, weights);
  Segment& segment = segments_.emplace_back();
  for (const Tensor& weight : weights) {
    const size_t bytes = bytes_of(weight);
    segment.weights.push_back({.tensor = weight, .offset = segment.bytes, .bytes = bytes});
    segment.bytes += MemoryBlock::rounded(bytes);
  }
  if (segment.bytes <= resident_left_) {
    resident_left_ -= segment.bytes;
  } else {
    resident_left_ = 0;
    move_to_host(segment);
    place_bytes_ = std::max(place_bytes_, segment.bytes);
  }
  return segments_.size() - 1;
}

void WeightSegments::move_to_host(Segment& segment) const {
  segment.host = planned_ != nullptr ? std::make_shared<char>() : device_->allocate_host(segment.bytes);
  for (const Weight& weight : segment.weights) {
    TensorState& state = weight.tensor.state();
    if (planned_ == nullptr) {
      const auto* const from = static_cast<const std::byte*>(state.storage.get()) +
                               dtype_bytes(state.spec.dtype, static_cast<size_t>(state.layout.offset));
      device_->copy_to_host(static_cast<std::byte*>(segment.host.get()) + weight.offset, from, weight.bytes);
    }
    state.layout.offset = 0;
    state.storage.reset();
  }
}

void WeightSegments::finish() {
  if (place_bytes_ == 0) return;
  if (planned_ == nullptr) device_->trim(abi::MemoryKind::kDevice);  // what loading took
  place_ = planned_ != nullptr ? planned_->allocate(place_bytes_) : device_->allocate_unpooled(place_bytes_);
}

void WeightSegments::enter(size_t number) {
  const Segment& segment = segments_.at(number);
  if (segment.host == nullptr) return;
  auto* const place = static_cast<std::byte*>(place_.get());
  for (const Weight& weight : segment.weights)
    weight.tensor.state().storage = std::shared_ptr<void>(place_, place + weight.offset);
  // On the stream of the computation, which so is done with the segment before.
  if (planned_ == nullptr) device_->copy_to_device(place, segment.host.get(), segment.bytes);
}

void WeightSegments::leave(size_t number) {
  const Segment& segment = segments_[number];
  if (segment.host == nullptr) return;
  for (const Weight& weight : segment.weights) weight.tensor.state().storage.reset();
}

void WeightSegments::evaluate(const std::vector<Tensor>& results, const std::atomic<bool>* cancel) {
  eval(results, cancel);
}

uint64_t WeightSegments::moved_bytes() const {
  uint64_t sum = 0;
  for (const Segment& segment : segments_) {
    if (segment.host != nullptr) sum += segment.bytes;
  }
  return sum;
}

}  // namespace gabbro::diffusion
