#include "src/engine/sequence.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "src/base/error.h"
#include "src/base/round_up.h"
#include "src/engine/cache/cache_size.h"
#include "src/engine/engine_state.h"

namespace gabbro {

namespace {

// Number of pages for this number of tokens.
int64_t pages_of(int64_t tokens) { return round_up(tokens, PagePool::kTokens) / PagePool::kTokens; }

}  // namespace

Sequence::Sequence(std::shared_ptr<Engine> engine)
    : engine_(std::move(engine)), pages_(engine_->state_->cache.pools.size()) {
  name_up_to(std::numeric_limits<int64_t>::max());
}
Sequence::Sequence(Sequence&&) noexcept = default;

Sequence::~Sequence() {
  if (engine_ == nullptr) return;  // moved from
  const std::lock_guard lock(engine_->state_->mutex);
  lose_pages();
}

Sequence::Sequence(const Sequence& other)
    : engine_(other.engine_),
      tokens_(other.tokens_),
      tree_(other.tree_),
      expected_(other.expected_),
      named_(other.named_),
      rotation_(other.rotation_),
      computed_(other.computed_),
      pages_(other.pages_),
      prefixes_(other.prefixes_),
      text_length_(other.text_length_) {
  const std::lock_guard lock(engine_->state_->mutex);
  for (size_t group = 0; group < pages_.size(); ++group) {
    Pages& own = pages_[group];
    // The other sequence is about to write a page after the computed tokens.
    own.ids.resize(std::min(own.ids.size(), static_cast<size_t>(pages_of(computed_))));
    for (size_t i = static_cast<size_t>(own.passed); i < own.ids.size(); ++i)
      engine_->state_->cache.pools[group].share(own.ids[i]);
  }
}

void Sequence::truncate(int64_t length) {
  if (length < 0 || length > std::ssize(tokens_))
    throw bad_input("a session of {} tokens cannot be cut to {}", tokens_.size(), length);
  const std::lock_guard lock(engine_->state_->mutex);
  engine_->state_->plans.queued.forget(state_);
  if (state_->length > length) state_->length = 0;
  tokens_.resize(static_cast<size_t>(length));
  if (length >= computed_) return;
  release_pages(length);
  if (!find_passed(length)) return lose_pages();
  computed_ = length;
  prefixes_.resize(std::min(prefixes_.size(), static_cast<size_t>(length / PagePool::kTokens + 1)));
}

void Sequence::set_tree(const std::string& tree) {
  if (tree == tree_) return;
  if (!tokens_.empty()) throw bad_input("a session with tokens cannot change its tree of prefixes");
  tree_ = tree;
}

int64_t Sequence::reuse(std::span<const int32_t> prompt, bool looks_on_disk) {
  const std::lock_guard lock(engine_->state_->mutex);
  if (computed_ < std::ssize(tokens_) || prompt.empty()) return std::ssize(tokens_);
  engine_->state_->plans.queued.forget(state_);
  const int64_t rotation = engine_->state_->loaded.rotation_of(std::ssize(prompt));
  if (rotation != rotation_ && !tokens_.empty()) return computed_;  // the next step computes all of it again
  set_rotation(rotation);
  find_pages(prompt.first(prompt.size() - 1));
  if (looks_on_disk) find_stored_pages(prompt.first(prompt.size() - 1));
  const auto found = prompt.first(static_cast<size_t>(computed_)).subspan(tokens_.size());
  tokens_.insert(tokens_.end(), found.begin(), found.end());
  name_pages();  // those from disk
  return computed_;
}

// Pages of a text that cannot be cut cannot begin another text.
void Sequence::name_up_to(int64_t length) {
  named_ = std::min(length, std::max<int64_t>(engine_->state_->cache.longest_cut(), 0));
}

int64_t Sequence::beginning_of(std::span<const int32_t> text) const {
  const int64_t common = std::ranges::mismatch(text, tokens_).in2 - tokens_.begin();
  return std::ssize(tokens_) - common <= engine_->state_->cache.longest_cut() ? common : 0;
}

// Prepares for `count` more tokens: the text, or its end if the sequence was cut within it.
void Sequence::add_to_text(int64_t count) {
  const int64_t held = std::ssize(tokens_);
  if (held == 0 || held < text_length_) text_length_ = held + count;
}

// The first page of a group that the token at position `length` reads.
int64_t Sequence::first_page(size_t group, int64_t length) const {
  const int64_t window = engine_->state_->cache.config().groups[group].window;
  return window == 0 ? 0 : std::max<int64_t>(length - window + 1, 0) / PagePool::kTokens;
}

// Releases a group's pages before page `first`.
void Sequence::pass(size_t group, int64_t first) {
  Pages& own = pages_[group];
  for (; own.passed < std::min(first, std::ssize(own.ids)); ++own.passed)
    engine_->state_->cache.pools[group].release(std::exchange(own.ids[static_cast<size_t>(own.passed)], 0));
}

// Takes over the whole pages of `text` after the computed tokens that are in the cache. Layers with a window need only
// the pages in the window at the end.
void Sequence::find_pages(std::span<const int32_t> text) {
  Engine::State& shared = *engine_->state_;
  constexpr int64_t kPage = PagePool::kTokens;
  if (computed_ % kPage != 0) return;
  begin_names();
  release_pages(computed_);  // the page of the next token
  const int64_t before = computed_ / kPage;
  int64_t taken = before;
  std::vector<std::shared_ptr<Prefix>> prefixes;
  std::vector<std::vector<int32_t>> found(pages_.size());
  std::vector<int64_t> run(pages_.size());  // consecutive pages in the cache, up to this one
  for (size_t group = 0; group < pages_.size(); ++group) run[group] = before - pages_[group].passed;
  for (int64_t page = before; (page + 1) * kPage <= std::ssize(text); ++page) {
    const Prefix& last = prefixes.empty() ? *prefixes_.back() : *prefixes.back();
    prefixes.push_back(last.find(text.subspan(static_cast<size_t>(page * kPage), static_cast<size_t>(kPage))));
    if (prefixes.back() == nullptr) break;
    bool complete = true;
    for (size_t group = 0; group < pages_.size(); ++group) {
      found[group].push_back(shared.cache.pools[group].find(prefixes.back()));
      run[group] = found[group].back() < 0 ? 0 : run[group] + 1;
      complete = complete && run[group] >= page + 1 - first_page(group, (page + 1) * kPage);
    }
    if (complete) taken = page + 1;
  }
  if (taken == before) return;
  for (size_t group = 0; group < pages_.size(); ++group) {
    const int64_t first = first_page(group, taken * kPage);
    pass(group, first);
    Pages& own = pages_[group];
    for (int64_t page = before; page < taken; ++page) {
      const int32_t id = page < first ? 0 : found[group][static_cast<size_t>(page - before)];
      if (page >= first) shared.cache.pools[group].share(id);
      own.ids.push_back(id);
    }
    own.passed = std::max(own.passed, std::min(first, taken));
  }
  prefixes_.insert(prefixes_.end(), prefixes.begin(), prefixes.begin() + (taken - before));
  computed_ = taken * kPage;
}

// Takes back, by their names, passed pages that the first `length` tokens need. Returns false if one is gone.
bool Sequence::find_passed(int64_t length) {
  Engine::State& shared = *engine_->state_;
  std::vector<std::vector<int32_t>> found(pages_.size());
  for (size_t group = 0; group < pages_.size(); ++group) {
    for (int64_t page = first_page(group, length); page < pages_[group].passed; ++page) {
      const auto pages = static_cast<size_t>(page + 1);  // of the prefix that names it
      const int32_t id = pages < prefixes_.size() ? shared.cache.pools[group].find(prefixes_[pages]) : -1;
      if (id < 0) return false;
      found[group].push_back(id);
    }
  }
  for (size_t group = 0; group < pages_.size(); ++group) {
    Pages& own = pages_[group];
    for (const int32_t id : found[group]) shared.cache.pools[group].share(id);
    own.passed -= std::ssize(found[group]);
    std::ranges::copy(found[group], own.ids.begin() + own.passed);
  }
  return true;
}

// A writable page: a new one, or, if the device has no memory for it, a named page that no sequence holds.
int32_t Sequence::take_page(size_t group) {
  PagePool& pool = engine_->state_->cache.pools[group];
  int32_t page = -1;
  try {
    page = pool.take();
    engine_->state_->cache.memory().provide(group, page + 1);
  } catch (const Error& error) {
    if (page >= 0) pool.release(page);
    page = pool.take_named();
    if (page < 0) throw CacheFull(*this, fmt::format("no room for more tokens in the KV cache: {}", error.what()));
  }
  return page;
}

// Takes pages for `length` tokens; the pages after the computed tokens are writable.
void Sequence::take_pages(int64_t length) {
  begin_names();
  for (size_t group = 0; group < pages_.size(); ++group) {
    PagePool& pool = engine_->state_->cache.pools[group];
    std::vector<int32_t>& ids = pages_[group].ids;
    if (computed_ % PagePool::kTokens != 0) {
      int32_t& last = ids[static_cast<size_t>(computed_ / PagePool::kTokens)];
      if (pool.is_shared(last)) {
        const int32_t own = take_page(group);
        engine_->state_->cache.memory().copy_page(group, last, own);
        pool.release(std::exchange(last, own));
      } else {
        pool.remove_name(last);
      }
    }
    while (std::ssize(ids) * PagePool::kTokens < length) ids.push_back(take_page(group));
  }
}

// The number of pages that take_pages(length) adds to a group.
int64_t Sequence::missing_pages(size_t group, int64_t length) const {
  return std::max<int64_t>(pages_of(length) - std::ssize(pages_[group].ids), 0);
}

// Releases the pages after the first `length` tokens.
void Sequence::release_pages(int64_t length) {
  for (size_t group = 0; group < pages_.size(); ++group) {
    Pages& own = pages_[group];
    for (; std::ssize(own.ids) > pages_of(length); own.ids.pop_back()) {
      if (std::ssize(own.ids) > own.passed) engine_->state_->cache.pools[group].release(own.ids.back());
    }
    own.passed = std::min(own.passed, std::ssize(own.ids));
  }
}

// Records that `count` more tokens are in the cache.
void Sequence::computed(int64_t count) {
  computed_ += count;
  name_pages();
  release_passed();
}

// Releases the pages that no later token reads, even if the last tokens are cut.
void Sequence::release_passed() {
  for (size_t group = 0; group < pages_.size(); ++group)
    pass(group, first_page(group, std::max<int64_t>(computed_ - kCutTokens, 0)));
}

void Sequence::abandon_step() {
  engine_->state_->plans.queued.forget(state_);
  release_pages(computed_);
  state_->length = 0;
}

void Sequence::give_up_pages() {
  const std::lock_guard lock(engine_->state_->mutex);
  lose_pages();
  state_->length = 0;
}

// Releases all pages: the tokens are computed again.
void Sequence::lose_pages() {
  engine_->state_->plans.queued.forget(state_);
  release_pages(0);
  prefixes_.clear();
  computed_ = 0;
}

// A text begins with the tree of the weights and the rotation that it is computed with.
void Sequence::begin_names() {
  if (computed_ == 0) prefixes_.assign(1, engine_->state_->cache.prefixes_of(rotation_, tree_));
}

// With another rotation all tokens are computed again, and so are states.
void Sequence::set_rotation(int64_t rotation) {
  if (rotation == rotation_) return;
  lose_pages();
  state_->length = 0;
  rotation_ = rotation;
}

void Sequence::name_pages() {
  constexpr auto kPage = static_cast<size_t>(PagePool::kTokens);
  begin_names();
  while (std::ssize(prefixes_) * PagePool::kTokens <= std::min(computed_, named_)) {
    const size_t page = prefixes_.size() - 1;
    prefixes_.push_back(prefixes_.back()->with(std::span(tokens_).subspan(page * kPage, kPage)));
    for (size_t group = 0; group < pages_.size(); ++group) {
      if (std::cmp_less(page, pages_[group].passed)) continue;
      engine_->state_->cache.pools[group].set_name(pages_[group].ids[page], prefixes_.back());
    }
  }
}

}  // namespace gabbro
