// Beginnings of texts in whole pages, as a tree: each node is a page of tokens after the node before it. Nodes live
// while a page of the cache, a sequence or a longer beginning holds them. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "src/models/kv_cache.h"

namespace gabbro {

class Prefix : public std::enable_shared_from_this<Prefix> {
 public:
  static constexpr int64_t kTokens = nn::KvCacheConfig::kPageTokens;

  static std::shared_ptr<Prefix> empty() { return std::make_shared<Prefix>(); }
  Prefix() = default;
  ~Prefix();
  Prefix(const Prefix&) = delete;
  Prefix& operator=(const Prefix&) = delete;

  // Returns this beginning followed by a page of tokens.
  std::shared_ptr<Prefix> with(std::span<const int32_t> page);
  // Returns the existing node of that beginning; null if there is none.
  std::shared_ptr<Prefix> find(std::span<const int32_t> page) const;

 private:
  using Tokens = std::array<int32_t, kTokens>;

  std::shared_ptr<Prefix> before_;  // null: this one is empty
  Tokens tokens_{};                 // the page after `before_`
  std::map<Tokens, Prefix*> longer_;
};

}  // namespace gabbro
