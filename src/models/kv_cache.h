// The cache of a model: pages of keys and values, or of latents, and recurrent states of sequences, by layer.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/backend/device.h"
#include "src/ops/kv_type.h"
#include "src/ops/ops.h"

namespace gabbro::nn {

enum class CacheKind { kKeysValues, kLatent, kState, kText };

// The contents of a layer's cache, as the model asks for them.
struct CacheLayer {
  int64_t heads = 0;      // G; of latents 1
  int64_t dimension = 0;  // D
  int64_t window = 0;     // a token attends to this many at most, itself and those right before it; 0: to all
  CacheKind kind = CacheKind::kKeysValues;
  std::vector<Shape> states{};  // f32, for each sequence: all of kState, and what kKeysValues has besides
  size_t group = 0;             // of layers whose pages are given out together
  int64_t text = 0;             // tokens that an encoder reads, at most, of kText

  bool operator==(const CacheLayer&) const = default;
};

// Layers that have pages at the same positions: a page number stands for a page of each of them.
struct PageGroup {
  int64_t pages = 0;
  int64_t window = 0;  // pages whose tokens are all before it are not read any more; 0: all are
};

// Throws bad_input for a type that is not one of kKvTypes, or that does not fit the layers' heads.
void require_kv_type(DType kv_type, std::span<const CacheLayer> layers);

struct KvCacheConfig {
  std::vector<CacheLayer> layers;
  std::vector<PageGroup> groups;
  int64_t slots = 0;         // sequences that have states
  DType dtype = DType::f16;  // one of kKvTypes; q8_0 and q4_0 have a scale for each 32 elements, a divisor of D

  static constexpr int64_t kPageTokens = 64;  // P: a page of one head is 16 KiB at D = 64 in f16, half of an L1 cache

  int64_t bytes_per_token(const CacheLayer& layer) const;
  int64_t bytes_per_token() const;  // in all layers
  // Keys and values that a token after `tokens` others reads: in layers with a window those in it.
  int64_t bytes_read(int64_t tokens) const;
  int64_t state_bytes() const;  // of a sequence, with its text
  int64_t bytes() const;        // of all pages and slots
};

// Keys and values of a text that an encoder has read, and of the decoder's tokens after it: all layers of kText.
struct EncodedText {
  std::vector<KvNumbers> text_keys, text_values;  // by layer [H, S, D], of the encoder's states
  std::vector<KvNumbers> keys, values;            // by layer [H, N, D], of tokens; those after `length` are of none
  int64_t length = 0;                             // tokens
  int64_t room = 0;                               // N
};

class KvCache {
 public:
  // Addresses for all pages. Their memory comes by need: on a CPU as tokens are written, on other devices with
  // provide(), but for those that cannot, which have all of it from the start. Throws OutOfMemory.
  KvCache(const std::shared_ptr<Device>& device, const KvCacheConfig& config);
  // The layers may be on several devices: `devices` by layer.
  KvCache(std::span<const std::shared_ptr<Device>> devices, const KvCacheConfig& config);

  // A view of the memory of layers [first, first + count), as the cache of a model with these layers. It provides
  // nothing, and holds no texts.
  KvCache layers(size_t first, size_t count) const;

  bool is_by_need() const { return !ranges_.empty(); }
  // The first `pages` pages of a group can be written and read from here on. Throws OutOfMemory, and failed() if the
  // device refuses to map memory; pages that were there stay.
  void provide(size_t group, int64_t pages);

  const KvCacheConfig& config() const { return config_; }
  size_t group(size_t index) const { return config_.layers[index].group; }
  const KvLayer& layer(size_t index) const { return layers_[index]; }
  const LatentLayer& latents(size_t index) const { return latents_[index]; }
  const std::vector<Tensor>& states(size_t index) const { return states_[index]; }  // each [slots, ...]
  // The text of a sequence, of layers of kText, which forward passes replace as they write to pages.
  EncodedText& text(int64_t slot) const { return texts_[static_cast<size_t>(slot)]; }
  // Copies what a page holds, in all layers of its group.
  void copy_page(size_t group, int32_t from, int32_t to) const;

 private:
  KvCache() = default;

  KvCacheConfig config_;
  // One per layer, undefined for a layer of another kind.
  std::vector<KvLayer> layers_;
  std::vector<LatentLayer> latents_;
  std::vector<std::vector<Tensor>> states_;
  mutable std::vector<EncodedText> texts_;  // by slot
  struct Range {
    Tensor states;
    size_t page_bytes;
    size_t group;
  };
  std::vector<Range> ranges_;      // whose memory comes with provide()
  std::vector<int64_t> provided_;  // pages, by group
};

}  // namespace gabbro::nn
