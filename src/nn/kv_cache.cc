#include "src/nn/kv_cache.h"

#include "src/base/error.h"

namespace gabbro::nn {

namespace {

// The states of a layer.
struct LayerShapes {
  LayerShapes(const CacheLayer& layer, int64_t pages) {
    const int64_t p = KvCacheConfig::kPageTokens, g = layer.heads, d = layer.dimension;
    keys = {pages, g, d, p};
    values = {pages, g, p, d};
    key_scales = {pages, g, d / 32, p};
    value_scales = {pages, g, p, d / 32};
  }

  size_t rounded_bytes(bool quantized) const {
    const auto bytes = [](DType type, const Shape& shape) {
      return MemoryBlock::rounded(dtype_bytes(type, static_cast<size_t>(shape.elements())));
    };
    const DType dtype = quantized ? DType::i8 : DType::f16;
    const size_t scales = quantized ? bytes(DType::f16, key_scales) + bytes(DType::f16, value_scales) : 0;
    return bytes(dtype, keys) + bytes(dtype, values) + scales;
  }

  Shape keys, values, key_scales, value_scales;
};

void check(const KvCacheConfig& config) {
  const bool quantized = config.dtype == DType::q8_0;
  if (!quantized && config.dtype != DType::f16)
    throw bad_input("a KV cache is f16 or q8_0, not {}", dtype_name(config.dtype));
  for (const CacheLayer& layer : config.layers) {
    if (quantized && layer.dimension % 32 != 0)
      throw bad_input("a q8_0 KV cache needs heads of a multiple of 32 elements; this model's have {}",
                      layer.dimension);
  }
}

}  // namespace

int64_t KvCacheConfig::bytes_per_token() const {
  int64_t elements = 0;  // keys and values
  for (const CacheLayer& layer : layers) elements += 2 * layer.heads * layer.dimension;
  return dtype == DType::f16 ? elements * 2 : elements + elements / 32 * 2;
}

// The states of all layers: by need where the device can, else in one block. The host gives pages out as they are
// written, and large ones where a block is large: there each state has its own.
KvCache::KvCache(const std::shared_ptr<Device>& device, const KvCacheConfig& config) : config_(config) {
  check(config);
  const bool quantized = config.dtype == DType::q8_0;
  size_t room = 0;
  for (const CacheLayer& layer : config.layers) room += LayerShapes(layer, config.pages).rounded_bytes(quantized);
  const bool by_need = !device->host_accessible() && device->reserve_range(1) != nullptr;
  MemoryBlock block(device, by_need || device->host_accessible() ? 0 : room);
  const auto make = [&](DType type, const Shape& shape) {
    const size_t bytes = dtype_bytes(type, static_cast<size_t>(shape.elements()));
    Tensor states = device->tensor_in(by_need ? device->reserve_range(bytes) : block.take(bytes), type, shape);
    if (by_need && bytes > 0) ranges_.push_back({states, bytes / static_cast<size_t>(config.pages)});
    return states;
  };
  const DType dtype = quantized ? DType::i8 : DType::f16;
  for (const CacheLayer& spec : config.layers) {
    const LayerShapes shapes(spec, config.pages);
    KvLayer layer{.keys = make(dtype, shapes.keys), .values = make(dtype, shapes.values)};
    if (quantized) {
      layer.key_scales = make(DType::f16, shapes.key_scales);
      layer.value_scales = make(DType::f16, shapes.value_scales);
    }
    layers_.push_back(std::move(layer));
  }
}

void KvCache::provide(int64_t pages) {
  if (pages <= provided_) return;
  for (const Range& range : ranges_) {
    const TensorState& state = range.states.state();
    state.device->extend_range(state.storage.get(), static_cast<size_t>(pages) * range.page_bytes);
  }
  provided_ = pages;
}

void KvCache::copy_page(int32_t from, int32_t to) const {
  for (const KvLayer& layer : layers_) {
    for (const Tensor* states : {&layer.keys, &layer.values, &layer.key_scales, &layer.value_scales}) {
      if (!states->defined()) continue;
      Device& device = *states->device();
      const size_t bytes = dtype_bytes(states->dtype(), static_cast<size_t>(states->shape().elements())) /
                           static_cast<size_t>(config_.pages);
      auto* const memory = static_cast<std::byte*>(states->state().storage.get());
      device.copy_from(device, memory + static_cast<size_t>(to) * bytes, memory + static_cast<size_t>(from) * bytes,
                       bytes);
    }
  }
}

}  // namespace gabbro::nn
