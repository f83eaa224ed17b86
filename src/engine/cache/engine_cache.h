// The cache of an engine: its memory, and which sequence has which pages and slots of it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/engine/cache/page_pool.h"
#include "src/engine/cache/page_store.h"
#include "src/engine/cache/state_pool.h"

namespace gabbro {

class EngineCache {
 public:
  // To be called once, before all others. `devices`: of each layer; `context`: tokens of a sequence, at most; `ranks`:
  // the devices of a tensor split, each with an equal number of cache layers.
  void make(std::span<const std::shared_ptr<Device>> devices, const nn::KvCacheConfig& config, int64_t context,
            size_t ranks = 0);

  nn::KvCache& memory() { return *memory_; }
  const nn::KvCache& memory() const { return *memory_; }
  const nn::KvCache& of_rank(size_t rank) const { return of_ranks_[rank]; }
  const nn::KvCacheConfig& config() const { return memory_->config(); }
  int64_t pages_per_sequence() const { return pages_per_sequence_; }  // M
  // How many tokens at the end of a text can be forgotten so that another one goes on from the rest: any number. With
  // recurrent states, which have seen all tokens, none; and where an encoder has read the text, kNoOther: no other
  // text goes on from it.
  int64_t longest_cut() const { return longest_cut_; }
  static constexpr int64_t kNoOther = -1;
  bool holds_texts() const { return longest_cut_ == kNoOther; }  // of encoder-decoders

  // The tree of beginnings whose keys have this rotation, of those that Sequence::set_tree() tells apart.
  const std::shared_ptr<Prefix>& prefixes_of(int64_t rotation, const std::string& tree);
  // Pages lose their names, and none is stored: the model computes other keys and values from now on.
  void forget_names();

  std::vector<PagePool> pools;       // by group of the layers; none of texts
  std::unique_ptr<PageStore> store;  // null: pages are not stored
  StatePool states{0};               // of recurrent layers and encoded texts; no slots: the model has neither

 private:
  std::optional<nn::KvCache> memory_;
  std::vector<nn::KvCache> of_ranks_;
  int64_t pages_per_sequence_ = 0;
  int64_t longest_cut_ = 0;
  std::map<std::pair<int64_t, std::string>, std::shared_ptr<Prefix>> prefixes_;  // by rotation and tree
};

}  // namespace gabbro
