// Reference counts of the pages of a group of the cache's layers. A full page can be named by its tokens and all tokens
// before it, so that another sequence with the same beginning shares it. A named page that no sequence holds stays
// until its memory is needed.
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

  // Pages that take() can return: free pages, and named pages that no sequence holds.
  int64_t available() const { return static_cast<int64_t>(free_.size() + unused_.size()); }
  // Pages that sequences hold.
  int64_t in_use() const { return static_cast<int64_t>(pages_.size()) - available(); }

  // Takes an unnamed page for one sequence: a free one, else the least recently used named page that no sequence holds.
  // Throws Error kNoDevice if sequences hold all pages.
  int32_t take();
  // Takes the least recently used named page that no sequence holds, which has memory already. Returns -1 if there is
  // none.
  int32_t take_named();
  void share(int32_t page);    // one more sequence holds it
  void release(int32_t page);  // one sequence less holds it
  bool is_shared(int32_t page) const { return pages_[static_cast<size_t>(page)].count > 1; }

  // Names a full page. If another page has the name already, that page keeps it.
  void set_name(int32_t page, const Name& name);
  // Removes the name of a page whose tokens are about to change.
  void remove_name(int32_t page);
  // Removes the names of all pages: their keys and values are no longer what the model would compute.
  void remove_names();
  int32_t find(const Name& name) const;  // -1: no page has it

 private:
  struct Page {
    int32_t count = 0;
    Name name{};
    std::list<int32_t>::iterator unused{};  // if `count` is 0 and it has a name
  };

  std::vector<Page> pages_;
  std::vector<int32_t> free_;                           // the lowest index on top
  std::list<int32_t> unused_;                           // least recently used first
  std::unordered_map<const Prefix*, int32_t> by_name_;  // named pages
};

}  // namespace gabbro
