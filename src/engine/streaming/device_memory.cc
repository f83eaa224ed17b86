#include "src/engine/streaming/device_memory.h"

#include <algorithm>
#include <vector>

#include "src/backend/device.h"
#include "src/base/converted_weights.h"
#include "src/base/round_up.h"
#include "src/models/kv_cache.h"

namespace gabbro::streaming {
namespace {

// The step in which a range gets memory; 0 where the device has none. It is what the first byte takes.
uint64_t range_step(Device& device) {
  if (device.host_accessible() || !device.counts_memory()) return 0;
  const std::shared_ptr<void> range = device.reserve_range(1);
  if (range == nullptr) return 0;
  const uint64_t before = device.memory(abi::MemoryKind::kDevice).reserved;
  device.extend_range(range.get(), 1);
  return device.memory(abi::MemoryKind::kDevice).reserved - before;
}

// The tensors of a layer's pages, in bytes: half of them keys, but for latents; scales of codes besides.
std::vector<uint64_t> page_tensors(const nn::CacheLayer& layer, DType kv_type, int64_t tokens) {
  if (layer.kind == nn::CacheKind::kState) return {};
  const auto all = static_cast<uint64_t>(nn::KvCacheConfig{.dtype = kv_type}.bytes_per_token(layer) * tokens);
  std::vector<uint64_t> tensors = {all};
  if (is_quantized(kv_type)) {
    const uint64_t scales = all / dtype_info(kv_type).block_bytes * sizeof(uint16_t);
    tensors = {all - scales, scales};
  }
  if (layer.kind == nn::CacheKind::kLatent) return tensors;
  std::vector<uint64_t> parts;
  for (const uint64_t bytes : tensors) parts.insert(parts.end(), 2, bytes / 2);
  return parts;
}

}  // namespace

uint64_t pool_rounding(uint64_t bytes) {
  constexpr uint64_t kLeast = 512, kMost = uint64_t{2} << 20;
  return std::clamp(bytes / 8, kLeast, kMost);
}

uint64_t converted_bytes(DType dtype, int64_t rows, int64_t columns) {
  if (dtype == DType::f16) return 0;
  return static_cast<uint64_t>(converted_rows(rows, columns, kConvertedWeights) * columns) * 2;
}

uint64_t cache_bytes(const ModelNeeds& needs, DType kv_type, const CacheSize& size, Device& device) {
  const nn::KvCacheConfig config = cache_config(needs.cache, kv_type, size);
  auto bytes = static_cast<uint64_t>(config.bytes());
  const uint64_t step = range_step(device);
  if (step == 0) return bytes;
  for (const nn::CacheLayer& layer : config.layers) {
    const int64_t tokens = config.groups[layer.group].pages * nn::KvCacheConfig::kPageTokens;
    for (const uint64_t tensor : page_tensors(layer, kv_type, tokens)) bytes += round_up(tensor, step) - tensor;
  }
  return bytes;
}

}  // namespace gabbro::streaming
