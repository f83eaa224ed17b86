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
  // Addresses for all pages. Their memory comes by need: on a CPU as tokens are written, on other devices with
  // provide(), but for those that cannot, which have all of it from the start. Throws OutOfMemory.
  KvCache(const std::shared_ptr<Device>& device, const KvCacheConfig& config);

  bool is_by_need() const { return !ranges_.empty(); }
  // The first `pages` pages can be written and read from here on. Throws OutOfMemory.
  void provide(int64_t pages);

  const KvCacheConfig& config() const { return config_; }
  const KvLayer& layer(size_t index) const { return layers_[index]; }
  // Copies the keys and values of a page, in all layers.
  void copy_page(int32_t from, int32_t to) const;

 private:
  KvCacheConfig config_;
  std::vector<KvLayer> layers_;
  struct Range {
    Tensor states;
    size_t page_bytes;
  };
  std::vector<Range> ranges_;  // whose memory comes with provide()
  int64_t provided_ = 0;       // pages
};

}  // namespace gabbro::nn
