#include "src/engine/page_pool.h"

#include <algorithm>

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

void PagePool::share(int32_t page) {
  Page& p = pages_[static_cast<size_t>(page)];
  if (p.count++ == 0) unused_.erase(p.unused);
}

void PagePool::release(int32_t page) {
  Page& p = pages_[static_cast<size_t>(page)];
  if (--p.count > 0) return;
  if (p.name == kNone) {
    free_.push_back(page);
  } else {
    p.unused = unused_.insert(unused_.end(), page);
  }
}

PagePool::Name PagePool::set_name(int32_t page, Name before, std::span<const int32_t> tokens) {
  if (const Found found = find(before, tokens); found.page >= 0) return found.name;
  Page& p = pages_[static_cast<size_t>(page)];
  p.name = ++last_name_;
  p.before = before;
  std::ranges::copy(tokens, p.tokens.begin());
  by_hash_.emplace(hash(before, tokens), page);
  return p.name;
}

void PagePool::remove_name(int32_t page) {
  Page& p = pages_[static_cast<size_t>(page)];
  if (p.name == kNone) return;
  const auto [first, last] = by_hash_.equal_range(hash(p.before, p.tokens));
  by_hash_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == page; }));
  p.name = kNone;
  if (p.count > 0) return;
  unused_.erase(p.unused);
  free_.push_back(page);
}

void PagePool::remove_names() {
  for (size_t page = 0; page < pages_.size(); ++page) remove_name(static_cast<int32_t>(page));
}

PagePool::Found PagePool::find(Name before, std::span<const int32_t> tokens) const {
  const auto [first, last] = by_hash_.equal_range(hash(before, tokens));
  for (auto entry = first; entry != last; ++entry) {
    const Page& p = pages_[static_cast<size_t>(entry->second)];
    if (p.before == before && std::ranges::equal(p.tokens, tokens)) return {entry->second, p.name};
  }
  return {};
}

// FNV-1a over the numbers; find() compares the tokens themselves.
uint64_t PagePool::hash(Name before, std::span<const int32_t> tokens) {
  uint64_t value = 14695981039346656037u;
  const auto add = [&](uint64_t number) { value = (value ^ number) * 1099511628211u; };
  add(before);
  for (const int32_t token : tokens) add(static_cast<uint32_t>(token));
  return value;
}

}  // namespace gabbro
