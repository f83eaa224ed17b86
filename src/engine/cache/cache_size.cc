#include "src/engine/cache/cache_size.h"

#include <algorithm>

#include "src/base/round_up.h"

namespace gabbro {
namespace {

constexpr int64_t kPage = nn::KvCacheConfig::kPageTokens;

// Pages of a group with this window. Before a step a sequence holds the tokens that its next one sees, and as many
// before these as it may be cut by. They may begin and end anywhere in a page, and so may the tokens of the step.
int64_t window_pages(int64_t window, const CacheSize& size) {
  const int64_t held = window - 1 + kCutTokens;
  const int64_t of_sequence = round_up(held, kPage) / kPage + 2;
  // Sequences that share the engine begin likewise: one more window, for pages that a later one finds.
  const int64_t found = size.sequences > 1 ? 1 : 0;
  return (size.sequences + found) * of_sequence + round_up(size.chunk, kPage) / kPage;
}

}  // namespace

nn::KvCacheConfig cache_config(std::vector<nn::CacheLayer> layers, DType kv_type, const CacheSize& size) {
  const int64_t all = round_up(size.context, kPage) / kPage * size.sequences;
  nn::KvCacheConfig config{.slots = size.sequences, .dtype = kv_type};
  for (nn::CacheLayer& layer : layers) {
    nn::PageGroup group{.pages = all};
    if (layer.kind == nn::CacheKind::kState || layer.kind == nn::CacheKind::kText) continue;
    if (layer.window > 0 && window_pages(layer.window, size) < all)
      group = {.pages = window_pages(layer.window, size), .window = layer.window};
    const auto found = std::ranges::find(config.groups, group.window, &nn::PageGroup::window);
    layer.group = static_cast<size_t>(found - config.groups.begin());
    if (found == config.groups.end()) config.groups.push_back(group);
  }
  if (config.groups.empty()) config.groups.push_back({.pages = all});
  config.layers = std::move(layers);
  return config;
}

int64_t longest_context(int64_t context, const std::function<bool(int64_t context)>& fits) {
  int64_t pages = 0;  // the most that fit, by bisection: `beyond` pages do not
  for (int64_t beyond = round_up(context, kPage) / kPage; beyond - pages > 1;) {
    const int64_t middle = pages + (beyond - pages) / 2;
    (fits(middle * kPage) ? pages : beyond) = middle;
  }
  return pages * kPage;
}

}  // namespace gabbro
