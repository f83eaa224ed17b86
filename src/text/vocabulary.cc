#include "src/text/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/error.h"
#include "src/text/special/special_tokens.h"

namespace gabbro::text {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;  // the largest vocabularies have 2^18
constexpr size_t kMaxTokenBytes = size_t{1} << 16;

uint8_t attribute_of(int32_t type) {
  switch (static_cast<TokenType>(type)) {
    case TokenType::kNormal:
      return kNormalToken;
    case TokenType::kUnknown:
      return kUnknownToken;
    case TokenType::kControl:
      return kControlToken;
    case TokenType::kUserDefined:
      return kUserDefinedToken;
    case TokenType::kUnused:
      return kUnusedToken;
    case TokenType::kByte:
      return kByteToken;
  }
  return 0;  // "undefined", and numbers that a later version of the format may add: no text, like an unused token
}

}  // namespace

Vocabulary::Vocabulary(VocabularySpec spec) : spec_(std::move(spec)), table_(spec_.tokens.size()) {
  check();
  warnings_ = std::move(spec_.notes);
  drop_outside_ids();
  set_defaults();
  for (const std::string& token : spec_.tokens) table_.add(token);
  attributes_.assign(spec_.tokens.size(), kNormalToken);
  for (size_t i = 0; i < spec_.types.size(); ++i) attributes_[i] = attribute_of(spec_.types[i]);
  std::vector<uint8_t> derived = attributes_;
  end_of_generation_ = derive_special_tokens(table_, spec_, derived);
  if (!spec_.types_are_exact) attributes_ = std::move(derived);
  for (const int32_t id : spec_.end_of_generation) {
    if (contains(id)) end_of_generation_.push_back(id);
  }
  std::sort(end_of_generation_.begin(), end_of_generation_.end());
  end_of_generation_.erase(std::unique(end_of_generation_.begin(), end_of_generation_.end()), end_of_generation_.end());
}

void Vocabulary::check() const {
  const size_t count = spec_.tokens.size();
  if (count == 0) throw bad_input("tokenizer.ggml.tokens: the vocabulary is empty");
  if (count > kMaxTokens)
    throw bad_input("tokenizer.ggml.tokens: {} tokens are too many (limit {})", count, kMaxTokens);
  for (size_t i = 0; i < count; ++i) {
    if (spec_.tokens[i].size() > kMaxTokenBytes) {
      throw bad_input("tokenizer.ggml.tokens[{}]: {} bytes are too many (limit {})", i, spec_.tokens[i].size(),
                      kMaxTokenBytes);
    }
  }
  const auto check_size = [&](const char* field, size_t size) {
    if (size != 0 && size != count) throw bad_input("tokenizer.ggml.{}: {} entries for {} tokens", field, size, count);
  };
  check_size("scores", spec_.scores.size());
  check_size("token_type", spec_.types.size());
  for (size_t i = 0; i < spec_.scores.size(); ++i) {
    if (std::isnan(spec_.scores[i])) throw bad_input("tokenizer.ggml.scores[{}]: not a number", i);
  }
}

void Vocabulary::drop_outside_ids() {
  const auto check_id = [&](const char* field, int32_t& id) {
    if (id == kNoToken || contains(id)) return;
    warnings_.push_back(
        fmt::format("tokenizer.ggml.{}: token {} is outside the vocabulary of {} tokens: not used", field, id, size()));
    id = kNoToken;
  };
  check_id("bos_token_id", spec_.bos);
  check_id("eos_token_id", spec_.eos);
  check_id("eot_token_id", spec_.eot);
  check_id("eom_token_id", spec_.eom);
  check_id("unknown_token_id", spec_.unknown);
  check_id("padding_token_id", spec_.padding);
  check_id("fim_pad_token_id", spec_.fim_pad);
  check_id("fim_rep_token_id", spec_.fim_rep);
  check_id("fim_sep_token_id", spec_.fim_sep);
}

// SentencePiece models of old files do not say which tokens begin and end a text: they stand first.
void Vocabulary::set_defaults() {
  if (spec_.model != "llama") return;
  const auto fill = [&](int32_t& id, int32_t value) {
    if (id == kNoToken && contains(value)) id = value;
  };
  fill(spec_.unknown, 0);
  fill(spec_.bos, 1);
  fill(spec_.eos, 2);
}

}  // namespace gabbro::text
