#include "src/engine/kept_sequences.h"

#include <utility>

namespace gabbro {

std::unique_ptr<Sequence> KeptSequences::take(std::span<const int32_t> text, const std::string& tree) {
  auto best = sequences_.end();
  int64_t longest = 0;
  for (auto kept = sequences_.begin(); kept != sequences_.end(); ++kept) {
    if ((*kept)->tree() != tree) continue;
    const int64_t common = (*kept)->beginning_of(text);
    const bool fits = 2 * common >= std::ssize((*kept)->tokens());
    if (fits && common > longest) {
      longest = common;
      best = kept;
    }
  }
  if (best == sequences_.end()) return nullptr;
  std::unique_ptr<Sequence> sequence = std::move(*best);
  sequences_.erase(best);
  return sequence;
}

void KeptSequences::keep(std::unique_ptr<Sequence> sequence, size_t most) {
  if (sequence == nullptr || sequence->tokens().empty()) return;
  sequences_.push_front(std::move(sequence));
  if (sequences_.size() > most) sequences_.pop_back();
}

bool KeptSequences::drop_oldest() {
  if (sequences_.empty()) return false;
  sequences_.pop_back();
  return true;
}

}  // namespace gabbro
