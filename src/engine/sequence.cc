#include "src/engine/sequence.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/engine/engine_state.h"

namespace gabbro {

Sequence::Sequence(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}
Sequence::Sequence(Sequence&&) noexcept = default;

Sequence::~Sequence() {
  if (engine_ == nullptr) return;  // moved from
  const std::lock_guard lock(engine_->state_->mutex);
  release_pages(0);
}

Sequence::Sequence(const Sequence& other)
    : engine_(other.engine_),
      tokens_(other.tokens_),
      pages_(other.pages_),
      names_(other.names_),
      text_length_(other.text_length_) {
  const std::lock_guard lock(engine_->state_->mutex);
  for (const int32_t page : pages_) engine_->state_->pages->share(page);
}

void Sequence::truncate(int64_t length) {
  if (length < 0 || length > std::ssize(tokens_))
    throw bad_input("a session of {} tokens cannot be cut to {}", tokens_.size(), length);
  const std::lock_guard lock(engine_->state_->mutex);
  if (state_->length > length) state_->length = 0;
  if (length == 0) text_length_ = 0;
  if (length < text_length_) t5_state_.reset();
  tokens_.resize(static_cast<size_t>(length));
  names_.resize(std::min(names_.size(), static_cast<size_t>(length / PagePool::kTokens)));
  release_pages(length);
}

int64_t Sequence::reuse(std::span<const int32_t> prompt) {
  const std::lock_guard lock(engine_->state_->mutex);
  if (engine_->state_->states || engine_->state_->text_to_text) return std::ssize(tokens_);
  PagePool& pool = *engine_->state_->pages;
  constexpr auto kPage = static_cast<size_t>(PagePool::kTokens);
  while (tokens_.size() % kPage == 0 && tokens_.size() + kPage < prompt.size()) {
    const std::span<const int32_t> next = prompt.subspan(tokens_.size(), kPage);
    const PagePool::Found found = pool.find(names_.empty() ? PagePool::kNone : names_.back(), next);
    if (found.page < 0) break;
    pool.share(found.page);
    pages_.push_back(found.page);
    names_.push_back(found.name);
    tokens_.insert(tokens_.end(), next.begin(), next.end());
  }
  return std::ssize(tokens_);
}

// A page that can be written.
int32_t Sequence::take_page() {
  Engine::State& shared = *engine_->state_;
  const int32_t page = shared.pages->take();
  try {
    shared.cache->provide(page + 1);
  } catch (...) {
    shared.pages->release(page);
    throw;
  }
  return page;
}

// Pages for `length` tokens, of which those after the present ones can be written.
void Sequence::take_pages(int64_t length) {
  PagePool& pool = *engine_->state_->pages;
  if (std::ssize(tokens_) % PagePool::kTokens != 0) {
    int32_t& last = pages_[tokens_.size() / PagePool::kTokens];
    if (pool.is_shared(last)) {
      const int32_t own = take_page();
      engine_->state_->cache->copy_page(last, own);
      pool.release(std::exchange(last, own));
    } else {
      pool.remove_name(last);
    }
  }
  while (std::ssize(pages_) * PagePool::kTokens < length) pages_.push_back(take_page());
}

void Sequence::release_pages(int64_t length) {
  while (!pages_.empty() && (std::ssize(pages_) - 1) * PagePool::kTokens >= length) {
    engine_->state_->pages->release(pages_.back());
    pages_.pop_back();
  }
}

void Sequence::name_pages() {
  // Pages alone do not make a beginning, and an encoder-decoder has none.
  if (engine_->state_->states || engine_->state_->text_to_text) return;
  constexpr auto kPage = static_cast<size_t>(PagePool::kTokens);
  while ((names_.size() + 1) * kPage <= tokens_.size()) {
    const size_t i = names_.size();
    const PagePool::Name before = names_.empty() ? PagePool::kNone : names_.back();
    names_.push_back(engine_->state_->pages->set_name(pages_[i], before, std::span(tokens_).subspan(i * kPage, kPage)));
  }
}

}  // namespace gabbro
