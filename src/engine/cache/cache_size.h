// The number of pages of a cache. Layers with a window of attention form groups with pages for the windows of all
// sequences and the tokens of one step; all other layers have pages for the whole context.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "src/models/kv_cache.h"

namespace gabbro {

// A sequence that is cut by at most this many tokens, such as rejected drafts, still has all pages that it needs.
inline constexpr int64_t kCutTokens = nn::KvCacheConfig::kPageTokens;

struct CacheSize {
  int64_t context = 0;  // tokens of a sequence
  int64_t sequences = 1;
  int64_t chunk = 0;  // tokens of prompts in a step, of all sequences together
};

nn::KvCacheConfig cache_config(std::vector<nn::CacheLayer> layers, DType kv_type, const CacheSize& size);

// The longest context in whole pages, not beyond the page of `context`, that fits; 0: none does.
int64_t longest_context(int64_t context, const std::function<bool(int64_t context)>& fits);

}  // namespace gabbro
