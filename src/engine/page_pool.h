// The pages of a KV cache, counted. A full page can be named by its tokens and those before it, so that another
// sequence that begins likewise shares it; named pages that no sequence has stay until their memory is needed.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/nn/kv_cache.h"

namespace gabbro {

class PagePool {
 public:
  static constexpr int64_t kTokens = nn::KvCacheConfig::kPageTokens;

  // A name stands for the tokens of a page and all before it. kNone: of the page before the first; of no page.
  using Name = uint64_t;
  static constexpr Name kNone = 0;

  explicit PagePool(int64_t pages);

  // Pages that take() would give: free ones, and those with a name that no sequence has.
  int64_t available() const { return static_cast<int64_t>(free_.size() + unused_.size()); }

  // A page for one sequence, without a name. Of pages with a name that no sequence has, the one that was used the
  // longest time ago. Throws Error kNoDevice where all belong to sequences.
  int32_t take();
  void share(int32_t page);    // one more sequence has it
  void release(int32_t page);  // one less
  bool is_shared(int32_t page) const { return pages_[static_cast<size_t>(page)].count > 1; }

  // Names a full page after its `tokens` and the `before` name of the page before it. Where another page has these
  // already, that one keeps the name. Returns the name.
  Name set_name(int32_t page, Name before, std::span<const int32_t> tokens);
  // The page whose tokens are to be changed loses its name.
  void remove_name(int32_t page);
  // All pages lose theirs: their keys and values are no longer what the model would compute.
  void remove_names();

  struct Found {
    int32_t page = -1;  // none
    Name name = kNone;
  };
  Found find(Name before, std::span<const int32_t> tokens) const;

 private:
  using Tokens = std::array<int32_t, kTokens>;
  struct Page {
    int32_t count = 0;
    Name name = kNone, before = kNone;
    Tokens tokens{};
    std::list<int32_t>::iterator unused;  // where count is 0 and it has a name
  };

  static uint64_t hash(Name before, std::span<const int32_t> tokens);

  std::vector<Page> pages_;
  std::vector<int32_t> free_;                           // the lowest on top
  std::list<int32_t> unused_;                           // the one that was used the longest time ago first
  std::unordered_multimap<uint64_t, int32_t> by_hash_;  // named pages
  Name last_name_ = kNone;
};

}  // namespace gabbro
