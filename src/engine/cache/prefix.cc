#include "src/engine/cache/prefix.h"

#include <algorithm>
#include <utility>

namespace gabbro {

// Releases a long chain of nodes in a loop: nested destructors would overflow the stack.
Prefix::~Prefix() {
  std::shared_ptr<Prefix> before = std::move(before_);
  if (before != nullptr) before->longer_.erase(tokens_);
  while (before != nullptr && before.use_count() == 1) {
    std::shared_ptr<Prefix> next = std::move(before->before_);
    if (next != nullptr) next->longer_.erase(before->tokens_);
    before = std::move(next);
  }
}

std::shared_ptr<Prefix> Prefix::find(std::span<const int32_t> page) const {
  Tokens tokens;
  std::ranges::copy(page, tokens.begin());
  const auto found = longer_.find(tokens);
  return found == longer_.end() ? nullptr : found->second->shared_from_this();
}

std::shared_ptr<Prefix> Prefix::with(std::span<const int32_t> page) {
  if (std::shared_ptr<Prefix> found = find(page)) return found;
  auto longer = std::make_shared<Prefix>();
  std::ranges::copy(page, longer->tokens_.begin());
  longer->before_ = shared_from_this();
  longer_[longer->tokens_] = longer.get();
  return longer;
}

}  // namespace gabbro
