#include "src/engine/cache/page_pool.h"

#include "src/base/error.h"

namespace gabbro {

PagePool::PagePool(int64_t pages) : pages_(static_cast<size_t>(pages)) {
  for (int64_t page = pages; page-- > 0;) free_.push_back(static_cast<int32_t>(page));
}

int32_t PagePool::take() {
  if (free_.empty()) {
    if (unused_.empty()) throw Error(ErrorCode::kNoDevice, "the KV cache is full: all its pages belong to sequences");
    remove_name(unused_.front());
  }
  const int32_t page = free_.back();
  free_.pop_back();
  pages_[static_cast<size_t>(page)].count = 1;
  return page;
}

int32_t PagePool::take_named() {
  if (unused_.empty()) return -1;
  remove_name(unused_.front());  // it is the free page on top then
  return take();
}

void PagePool::share(int32_t page) {
  Page& p = pages_[static_cast<size_t>(page)];
  if (p.count++ == 0) unused_.erase(p.unused);
}

void PagePool::release(int32_t page) {
  Page& p = pages_[static_cast<size_t>(page)];
  if (--p.count > 0) return;
  if (p.name == nullptr) {
    free_.push_back(page);
  } else {
    p.unused = unused_.insert(unused_.end(), page);
  }
}

void PagePool::set_name(int32_t page, const Name& name) {
  if (by_name_.try_emplace(name.get(), page).second) pages_[static_cast<size_t>(page)].name = name;
}

void PagePool::remove_name(int32_t page) {
  Page& p = pages_[static_cast<size_t>(page)];
  if (p.name == nullptr) return;
  by_name_.erase(p.name.get());
  p.name.reset();
  if (p.count > 0) return;
  unused_.erase(p.unused);
  free_.push_back(page);
}

void PagePool::remove_names() {
  for (size_t page = 0; page < pages_.size(); ++page) remove_name(static_cast<int32_t>(page));
}

int32_t PagePool::find(const Name& name) const {
  const auto found = by_name_.find(name.get());
  return found == by_name_.end() ? -1 : found->second;
}

}  // namespace gabbro
