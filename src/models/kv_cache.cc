#include "src/models/kv_cache.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "src/base/error.h"
#include "src/ops/kv_type.h"

namespace gabbro::nn {

namespace {

struct Part {
  DType dtype;
  Shape shape;

  size_t bytes() const { return dtype_bytes(dtype, static_cast<size_t>(shape.elements())); }
};

std::vector<Part> states_of(const CacheLayer& layer, const KvCacheConfig& config) {
  std::vector<Part> parts;
  for (const Shape& state : layer.states) {
    std::vector<int64_t> all{config.slots};
    for (int i = 0; i < state.rank(); ++i) all.push_back(state[i]);
    parts.push_back({DType::f32, Shape(all)});
  }
  return parts;
}

// The tensors of a layer's pages, in the order of KvLayer and of LatentLayer.
std::vector<Part> pages_of(const CacheLayer& layer, const KvCacheConfig& config) {
  const int64_t n = config.groups[layer.group].pages, p = KvCacheConfig::kPageTokens, g = layer.heads;
  const DType dtype = kv_elements(config.dtype);
  const int64_t d = stored_length(dtype, layer.dimension), blocks = layer.dimension / kKvBlock;
  std::vector<Part> parts;
  switch (layer.kind) {
    case CacheKind::kKeysValues:
      parts = {{dtype, Shape{n, g, d, p}}, {dtype, Shape{n, g, p, d}}};
      if (has_kv_scales(dtype)) {
        parts.push_back({DType::f16, Shape{n, g, blocks, p}});
        parts.push_back({DType::f16, Shape{n, g, p, blocks}});
      }
      break;
    case CacheKind::kLatent:
      parts = {{dtype, Shape{n, 1, p, d}}};
      if (has_kv_scales(dtype)) parts.push_back({DType::f16, Shape{n, 1, p, blocks}});
      break;
    case CacheKind::kState:
    case CacheKind::kText:
      break;
  }
  return parts;
}

// Memory of the layers of one device.
struct DeviceMemory {
  bool by_need = false;
  size_t room = 0;  // bytes that are not by need
  std::optional<MemoryBlock> block;
};

}  // namespace

void require_kv_type(DType kv_type, std::span<const CacheLayer> layers) {
  if (!parse_kv_type(dtype_name(kv_type)))
    throw bad_input("a KV cache is {}, not {}", kv_type_names(), dtype_name(kv_type));
  for (const CacheLayer& layer : layers) {
    if (!is_quantized(kv_type) || layer.kind == CacheKind::kState || layer.dimension % kKvBlock == 0) continue;
    throw Error(ErrorCode::kBadInput,
                fmt::format("a {} KV cache has blocks of {} elements, which do not divide this model's heads of {}",
                            dtype_name(kv_type), kKvBlock, layer.dimension),
                "f16, bf16 and f32 take heads of any size");
  }
}

int64_t KvCacheConfig::bytes_per_token(const CacheLayer& layer) const {
  int64_t elements = 0;
  if (layer.kind == CacheKind::kKeysValues || layer.kind == CacheKind::kText)
    elements = 2 * layer.heads * layer.dimension;
  if (layer.kind == CacheKind::kLatent) elements = layer.dimension;
  return static_cast<int64_t>(dtype_bytes(dtype, static_cast<size_t>(elements)));
}

int64_t KvCacheConfig::bytes_per_token() const {
  int64_t bytes = 0;
  for (const CacheLayer& layer : layers) bytes += bytes_per_token(layer);
  return bytes;
}

int64_t KvCacheConfig::bytes_read(int64_t tokens) const {
  int64_t bytes = 0;
  for (const CacheLayer& layer : layers)
    bytes += (layer.window > 0 ? std::min(tokens, layer.window) : tokens) * bytes_per_token(layer);
  return bytes;
}

int64_t KvCacheConfig::state_bytes() const {
  int64_t elements = 0, text_bytes = 0;
  for (const CacheLayer& layer : layers) {
    for (const Shape& state : layer.states) elements += state.elements();
    text_bytes += layer.text * bytes_per_token(layer);
  }
  return elements * static_cast<int64_t>(sizeof(float)) + text_bytes;
}

int64_t KvCacheConfig::bytes() const {
  int64_t bytes = slots * state_bytes();
  for (const CacheLayer& layer : layers) bytes += groups[layer.group].pages * kPageTokens * bytes_per_token(layer);
  return bytes;
}

// The tensors of all layers; pages by need if the device can, else in one block. The host provides memory pages
// when they are written, and large ones for a large block: there each tensor has a separate one.
KvCache::KvCache(const std::shared_ptr<Device>& device, const KvCacheConfig& config)
    : KvCache(std::vector<std::shared_ptr<Device>>(config.layers.size(), device), config) {}

KvCache::KvCache(std::span<const std::shared_ptr<Device>> devices, const KvCacheConfig& config)
    : config_(config),
      layers_(config.layers.size()),
      latents_(config.layers.size()),
      states_(config.layers.size()),
      provided_(config.groups.size(), 0) {
  require_kv_type(config.dtype, config.layers);
  std::map<Device*, DeviceMemory> memories;
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::shared_ptr<Device>& device = devices[i];
    const auto [found, is_new] = memories.try_emplace(device.get());
    DeviceMemory& memory = found->second;
    if (device->host_accessible()) continue;
    if (is_new) memory.by_need = device->reserve_range(1) != nullptr;
    for (const Part& part : states_of(config.layers[i], config)) memory.room += MemoryBlock::rounded(part.bytes());
    if (memory.by_need) continue;
    for (const Part& part : pages_of(config.layers[i], config)) memory.room += MemoryBlock::rounded(part.bytes());
  }
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const CacheLayer& layer = config.layers[i];
    const std::shared_ptr<Device>& device = devices[i];
    DeviceMemory& memory = memories[device.get()];
    if (!memory.block) memory.block.emplace(device, memory.room);
    MemoryBlock& block = *memory.block;
    const bool by_need = memory.by_need;
    for (const Part& part : states_of(layer, config))
      states_[i].push_back(device->tensor_in(block.take(part.bytes()), part.dtype, part.shape));
    std::vector<Tensor> made;
    for (const Part& part : pages_of(layer, config)) {
      // Null too if the device's ranges have failed meanwhile.
      const std::shared_ptr<void> range = by_need && part.bytes() > 0 ? device->reserve_range(part.bytes()) : nullptr;
      made.push_back(device->tensor_in(range != nullptr ? range : block.take(part.bytes()), part.dtype, part.shape));
      if (range != nullptr) {
        const auto pages = static_cast<size_t>(config.groups[layer.group].pages);
        ranges_.push_back({.states = made.back(), .page_bytes = part.bytes() / pages, .group = layer.group});
      }
    }
    if (layer.kind == CacheKind::kText) texts_.resize(static_cast<size_t>(config.slots));
    if (made.empty()) continue;
    made.resize(4);
    if (layer.kind == CacheKind::kLatent) {
      latents_[i] = {.latents = made[0], .scales = made[1]};
    } else {
      layers_[i] = {.keys = made[0], .values = made[1], .key_scales = made[2], .value_scales = made[3]};
    }
  }
}

KvCache KvCache::layers(size_t first, size_t count) const {
  const auto part = [&](const auto& all) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    return std::remove_cvref_t<decltype(all)>(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  KvCache some;
  some.config_ = config_;
  some.config_.layers = part(config_.layers);
  some.layers_ = part(layers_);
  some.latents_ = part(latents_);
  some.states_ = part(states_);
  return some;
}

void KvCache::provide(size_t group, int64_t pages) {
  if (pages <= provided_[group]) return;
  for (const Range& range : ranges_) {
    if (range.group != group) continue;
    const TensorState& state = range.states.state();
    state.device->extend_range(state.storage.get(), static_cast<size_t>(pages) * range.page_bytes);
  }
  provided_[group] = pages;
}

void KvCache::copy_page(size_t group, int32_t from, int32_t to) const {
  const auto copy = [&](const Tensor& tensor) {
    if (!tensor.defined()) return;
    Device& device = *tensor.device();
    const size_t bytes = dtype_bytes(tensor.dtype(), static_cast<size_t>(tensor.shape().elements())) /
                         static_cast<size_t>(config_.groups[group].pages);
    auto* const memory = static_cast<std::byte*>(tensor.state().storage.get());
    device.copy_from(device, memory + static_cast<size_t>(to) * bytes, memory + static_cast<size_t>(from) * bytes,
                     bytes);
  };
  for (size_t i = 0; i < config_.layers.size(); ++i) {
    if (config_.layers[i].group != group) continue;
    const KvLayer& layer = layers_[i];
    for (const Tensor* tensor : {&layer.keys, &layer.values, &layer.key_scales, &layer.value_scales}) copy(*tensor);
    copy(latents_[i].latents);
    copy(latents_[i].scales);
  }
}

}  // namespace gabbro::nn
