#include "src/nn/kv_cache.h"

#include "src/base/error.h"

namespace gabbro::nn {

int64_t KvCacheConfig::bytes_per_token() const {
  const int64_t elements = 2 * layers * heads * dimension;  // keys and values
  return dtype == DType::f16 ? elements * 2 : elements + elements / 32 * 2;
}

KvCache::KvCache(const std::shared_ptr<Device>& device, const KvCacheConfig& config) : config_(config) {
  const int64_t p = KvCacheConfig::kPageTokens;
  const int64_t d = config.dimension;
  const bool quantized = config.dtype == DType::q8_0;
  if (!quantized && config.dtype != DType::f16)
    throw bad_input("a KV cache is f16 or q8_0, not {}", dtype_name(config.dtype));
  if (quantized && d % 32 != 0)
    throw bad_input("a q8_0 KV cache needs heads of a multiple of 32 elements; this model's have {}", d);
  const DType dtype = quantized ? DType::i8 : DType::f16;
  const Shape keys{config.pages, config.heads, d, p}, values{config.pages, config.heads, p, d};
  const Shape key_scales{config.pages, config.heads, d / 32, p}, value_scales{config.pages, config.heads, p, d / 32};
  const auto bytes = [](DType type, const Shape& shape) {
    return dtype_bytes(type, static_cast<size_t>(shape.elements()));
  };
  // The host gives pages out as they are written, and large ones where a block is large: there each layer has its own.
  size_t room = 0;
  if (!device->host_accessible()) {
    room = MemoryBlock::rounded(bytes(dtype, keys)) + MemoryBlock::rounded(bytes(dtype, values));
    if (quantized)
      room +=
          MemoryBlock::rounded(bytes(DType::f16, key_scales)) + MemoryBlock::rounded(bytes(DType::f16, value_scales));
  }
  MemoryBlock block(device, static_cast<size_t>(config.layers) * room);
  const auto make = [&](DType type, const Shape& shape) {
    return device->tensor_in(block.take(bytes(type, shape)), type, shape);
  };
  for (int64_t i = 0; i < config.layers; ++i) {
    KvLayer layer{.keys = make(dtype, keys), .values = make(dtype, values)};
    if (quantized) {
      layer.key_scales = make(DType::f16, key_scales);
      layer.value_scales = make(DType::f16, value_scales);
    }
    layers_.push_back(std::move(layer));
  }
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
