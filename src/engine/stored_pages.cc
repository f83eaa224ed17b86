// Pages of a sequence to and from the engine's PageStore.
#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/engine/cache/page_bytes.h"
#include "src/engine/engine_state.h"
#include "src/engine/runner.h"
#include "src/engine/sequence.h"

namespace gabbro {
namespace {

constexpr int64_t kPage = PagePool::kTokens;

}  // namespace

void Runner::open_store(PageStoreOptions options, const std::string& mode) {
  Engine::State& shared = *engine_->state_;
  if (options.folder.empty()) return;
  const std::string& device = shared.loaded.facts.device_id;
  options.identity = fmt::format("{}; {}; {} {}; {}", shared.loaded.identity, layout_of(shared.cache.config()),
                                 device.substr(0, device.find(':')), shared.loaded.facts.device_name, mode);
  const std::lock_guard lock(shared.mutex);
  shared.cache.store = std::make_unique<PageStore>(std::move(options));
}

PageKey Sequence::key_of(std::span<const int32_t> tokens) const {
  return {.tree = fmt::format("{} {}", rotation_, tree_), .tokens = tokens};
}

void Sequence::store_pages() {
  const std::lock_guard lock(engine_->state_->mutex);
  Engine::State& shared = *engine_->state_;
  if (shared.cache.store == nullptr) return;
  for (int64_t page = 0; page + 1 < std::ssize(prefixes_); ++page) {
    const PageKey key = key_of(std::span(tokens_).first(static_cast<size_t>((page + 1) * kPage)));
    if (shared.cache.store->touch(key)) continue;
    std::vector<std::vector<std::byte>> groups(pages_.size());
    for (size_t group = 0; group < pages_.size(); ++group) {
      if (page >= pages_[group].passed)
        groups[group] = read_page(shared.cache.memory(), group, pages_[group].ids[static_cast<size_t>(page)]);
    }
    if (!shared.cache.store->write(key, std::move(groups))) return;
  }
}

// As find_pages(), of those that are on disk.
void Sequence::find_stored_pages(std::span<const int32_t> text) {
  Engine::State& shared = *engine_->state_;
  if (shared.cache.store == nullptr || computed_ % kPage != 0) return;
  begin_names();
  const int64_t before = computed_ / kPage;
  int64_t end = before;
  while ((end + 1) * kPage <= std::ssize(text) &&
         shared.cache.store->has(key_of(text.first(static_cast<size_t>((end + 1) * kPage)))))
    ++end;
  // A page that is of no use ends the text that is taken over.
  while (end > before) {
    const int64_t taken = take_stored_pages(text, end);
    if (taken == end) return;
    end = taken;
  }
}

// Takes over pages up to `end`. Returns `end`, or the first page that cannot be taken, and then takes none.
int64_t Sequence::take_stored_pages(std::span<const int32_t> text, int64_t end) {
  Engine::State& shared = *engine_->state_;
  const int64_t before = computed_ / kPage;
  std::vector<std::vector<int32_t>> taken(pages_.size());
  int64_t page = before;
  try {
    for (; page < end; ++page) {
      const auto is_read = [&](size_t group) { return page >= first_page(group, end * kPage); };
      bool is_needed = false;
      for (size_t group = 0; group < pages_.size(); ++group) is_needed = is_needed || is_read(group);
      std::optional<std::vector<std::vector<std::byte>>> groups;
      if (is_needed) groups = shared.cache.store->read(key_of(text.first(static_cast<size_t>((page + 1) * kPage))));
      if (is_needed && (!groups || groups->size() != pages_.size())) break;
      for (size_t group = 0; group < pages_.size(); ++group) {
        taken[group].push_back(is_read(group) ? take_page(group) : 0);
        if (is_read(group)) write_page(shared.cache.memory(), group, taken[group].back(), (*groups)[group]);
      }
    }
  } catch (const CacheFull&) {
    // Other texts need the pages.
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error&) {
    // A group's bytes are missing: its window had passed when the page was stored.
  }
  if (page < end) {
    for (size_t group = 0; group < pages_.size(); ++group) {
      for (size_t i = 0; i < taken[group].size(); ++i) {
        if (before + static_cast<int64_t>(i) >= first_page(group, end * kPage))
          shared.cache.pools[group].release(taken[group][i]);
      }
    }
    return page;
  }
  release_pages(computed_);  // the one for a token to come
  for (size_t group = 0; group < pages_.size(); ++group) {
    const int64_t first = first_page(group, end * kPage);
    pass(group, first);
    pages_[group].ids.insert(pages_[group].ids.end(), taken[group].begin(), taken[group].end());
    pages_[group].passed = std::max(pages_[group].passed, std::min(first, end));
  }
  computed_ = end * kPage;
  return end;
}

}  // namespace gabbro
