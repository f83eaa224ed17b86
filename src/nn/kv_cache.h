// The paged KV cache of a model: one pair of states a layer.
#pragma once

#include <memory>
#include <vector>

#include "src/backend/device.h"
#include "src/ops/ops.h"

namespace gabbro::nn {

// The keys and values of a layer, as the model asks for them.
struct CacheLayer {
  int64_t heads = 0;      // G
  int64_t dimension = 0;  // D
  int64_t window = 0;     // tokens that attention reaches back; 0: all. Their keys stay in the cache all the same

  bool operator==(const CacheLayer&) const = default;
};

struct KvCacheConfig {
  std::vector<CacheLayer> layers;
  int64_t pages = 0;
  DType dtype = DType::f16;  // or q8_0: 8 bits with a scale for each 32 elements; D must be a multiple of 32

  static constexpr int64_t kPageTokens = 64;  // P: a page of one head is 16 KiB at D = 64 in f16, half of an L1 cache

  int64_t bytes_per_token() const;
};

class KvCache {
 public:
  // Memory for all pages; on a CPU it becomes resident only as tokens are written.
  KvCache(const std::shared_ptr<Device>& device, const KvCacheConfig& config);

  const KvCacheConfig& config() const { return config_; }
  const KvLayer& layer(size_t index) const { return layers_[index]; }
  // Copies the keys and values of a page, in all layers.
  void copy_page(int32_t from, int32_t to) const;

 private:
  KvCacheConfig config_;
  std::vector<KvLayer> layers_;
};

}  // namespace gabbro::nn
