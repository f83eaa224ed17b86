#include "src/engine/cache/page_bytes.h"

#include <fmt/format.h>

#include "src/backend/device.h"
#include "src/base/error.h"

namespace gabbro {
namespace {

// Calls visit(device, memory, bytes) for each tensor's part of the page, in the order of the layers.
template <class Visit>
void visit_page(const nn::KvCache& cache, size_t group, int32_t page, Visit visit) {
  const nn::KvCacheConfig& config = cache.config();
  for (size_t i = 0; i < config.layers.size(); ++i) {
    if (config.layers[i].group != group || config.layers[i].kind == nn::CacheKind::kState) continue;
    const KvLayer& layer = cache.layer(i);
    const LatentLayer& latents = cache.latents(i);
    for (const Tensor* const tensor :
         {&layer.keys, &layer.values, &layer.key_scales, &layer.value_scales, &latents.latents, &latents.scales}) {
      if (!tensor->defined()) continue;
      const size_t bytes = dtype_bytes(tensor->dtype(), static_cast<size_t>(tensor->shape().elements())) /
                           static_cast<size_t>(config.groups[group].pages);
      auto* const memory = static_cast<std::byte*>(tensor->state().storage.get());
      visit(*tensor->device(), memory + static_cast<size_t>(page) * bytes, bytes);
    }
  }
}

}  // namespace

std::vector<std::byte> read_page(const nn::KvCache& cache, size_t group, int32_t page) {
  size_t total = 0;
  visit_page(cache, group, page, [&](Device&, std::byte*, size_t bytes) { total += bytes; });
  std::vector<std::byte> out(total);
  size_t at = 0;
  visit_page(cache, group, page, [&](Device& device, std::byte* memory, size_t bytes) {
    device.copy_to_host(out.data() + at, memory, bytes);
    at += bytes;
  });
  return out;
}

void write_page(const nn::KvCache& cache, size_t group, int32_t page, std::span<const std::byte> from) {
  size_t at = 0;
  visit_page(cache, group, page, [&](Device& device, std::byte* memory, size_t bytes) {
    if (bytes > from.size() - at) throw failed("a page of the cache has {} bytes, which are too few", from.size());
    device.copy_to_device(memory, from.data() + at, bytes);
    at += bytes;
  });
  if (at != from.size()) throw failed("a page of the cache has {} bytes, expected {}", from.size(), at);
}

std::string layout_of(const nn::KvCacheConfig& config) {
  std::string text = fmt::format("{} tokens of {}", nn::KvCacheConfig::kPageTokens, dtype_name(config.dtype));
  for (const nn::CacheLayer& layer : config.layers) {
    text += fmt::format("; {} {}x{} window {} group {}", static_cast<int>(layer.kind), layer.heads, layer.dimension,
                        layer.window, layer.group);
  }
  return text;
}

}  // namespace gabbro
