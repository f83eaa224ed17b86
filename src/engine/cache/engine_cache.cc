#include "src/engine/cache/engine_cache.h"

#include <algorithm>
#include <limits>

#include "src/base/round_up.h"

namespace gabbro {
namespace {

int64_t longest_cut_of(const nn::KvCacheConfig& config) {
  const auto is_text = [](const nn::CacheLayer& layer) { return layer.kind == nn::CacheKind::kText; };
  if (std::ranges::any_of(config.layers, is_text)) return EngineCache::kNoOther;
  return config.state_bytes() > 0 ? 0 : std::numeric_limits<int64_t>::max();
}

}  // namespace

void EngineCache::make(std::span<const std::shared_ptr<Device>> devices, const nn::KvCacheConfig& config,
                       int64_t context, size_t ranks) {
  memory_.emplace(devices, config);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const size_t layers = config.layers.size() / ranks;
    of_ranks_.push_back(memory_->layers(rank * layers, layers));
  }
  if (config.state_bytes() > 0) states = StatePool(config.slots);
  pages_per_sequence_ = round_up(context, PagePool::kTokens) / PagePool::kTokens;
  longest_cut_ = longest_cut_of(config);
  if (holds_texts()) return;  // they are in their slots, whose sequences take turns
  for (const nn::PageGroup& group : config.groups) pools.emplace_back(group.pages);
}

const std::shared_ptr<Prefix>& EngineCache::prefixes_of(int64_t rotation, const std::string& tree) {
  constexpr size_t kMany = 1024;  // dynamic NTK has one for each length, and each key may have its own
  if (prefixes_.size() > kMany) std::erase_if(prefixes_, [](const auto& root) { return root.second.use_count() == 1; });
  std::shared_ptr<Prefix>& root = prefixes_[{rotation, tree}];
  if (root == nullptr) root = Prefix::empty();
  return root;
}

void EngineCache::forget_names() {
  for (PagePool& pool : pools) pool.remove_names();
  prefixes_.clear();
  store.reset();
}

}  // namespace gabbro
