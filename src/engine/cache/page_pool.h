// The pages of a group of the cache's layers, counted. A full page can be named by its tokens and those before it, so
// that another sequence that begins likewise shares it; named pages that no sequence has stay until their memory is
// needed.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/engine/cache/prefix.h"

namespace gabbro {

class PagePool {
 public:
  static constexpr int64_t kTokens = nn::KvCacheConfig::kPageTokens;
  // The tokens of a page, and all before it.
  using Name = std::shared_ptr<const Prefix>;

  explicit PagePool(int64_t pages);

  // Pages that take() would give: free ones, and those with a name that no sequence has.
  int64_t available() const { return static_cast<int64_t>(free_.size() + unused_.size()); }
  // Pages that sequences have.
  int64_t in_use() const { return static_cast<int64_t>(pages_.size()) - available(); }

  // A page for one sequence, without a name. Of pages with a name that no sequence has, the one that was used the
  // longest time ago. Throws Error kNoDevice where all belong to sequences.
  int32_t take();
  // The same of pages with a name only, which have memory; -1 if sequences have all of them.
  int32_t take_named();
  void share(int32_t page);    // one more sequence has it
  void release(int32_t page);  // one less
  bool is_shared(int32_t page) const { return pages_[static_cast<size_t>(page)].count > 1; }

  // Names a full page. Where another page has the name already, that one keeps it.
  void set_name(int32_t page, const Name& name);
  // The page whose tokens are to be changed loses its name.
  void remove_name(int32_t page);
  // All pages lose theirs: their keys and values are no longer what the model would compute.
  void remove_names();
  int32_t find(const Name& name) const;  // -1: no page has it

 private:
  struct Page {
    int32_t count = 0;
    Name name{};
    std::list<int32_t>::iterator unused{};  // where count is 0 and it has a name
  };

  std::vector<Page> pages_;
  std::vector<int32_t> free_;                           // the lowest on top
  std::list<int32_t> unused_;                           // the one that was used the longest time ago first
  std::unordered_map<const Prefix*, int32_t> by_name_;  // named pages
};

}  // namespace gabbro
