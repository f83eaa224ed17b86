#include "src/text/models/unigram_model.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "src/base/error.h"
#include "src/text/models/best_path.h"

namespace gabbro::text {
namespace {

constexpr double kUnknownPenalty = 10;

class UnigramModel final : public WordModel {
 public:
  UnigramModel(std::vector<TokenTable::Entry> entries, std::vector<double> scores, int32_t unknown, bool byte_fallback)
      : tokens_(std::move(entries)), scores_(std::move(scores)), unknown_(unknown), byte_fallback_(byte_fallback) {
    std::vector<std::pair<std::string_view, int32_t>> keys;
    keys.reserve(tokens_.entries().size());
    for (const TokenTable::Entry& entry : tokens_.entries()) keys.emplace_back(entry.text, entry.id);
    trie_ = DoubleArray(std::move(keys));
    unknown_score_ = (scores_.empty() ? 0 : *std::min_element(scores_.begin(), scores_.end())) - kUnknownPenalty;
    for (size_t byte = 0; byte < 256; ++byte) byte_tokens_[byte] = tokens_.find(fmt::format("<0x{:02X}>", byte));
  }

  const TokenTable& tokens() const override { return tokens_; }
  std::unique_ptr<ModelMemory> make_memory() const override { return std::make_unique<Memory>(); }
  int32_t unknown() const override { return unknown_; }
  void protect(const std::vector<bool>& ids) override { protected_ = ids; }

  void encode(std::string_view word, bool plain, ModelMemory& memory, std::vector<int32_t>& out) const override {
    const auto get_score = [&](int32_t token, size_t, double& score) {
      score = scores_[static_cast<size_t>(token)];
      return !(plain && static_cast<size_t>(token) < protected_.size() && protected_[static_cast<size_t>(token)]);
    };
    const auto& parts = static_cast<Memory&>(memory).path.find(word, trie_, unknown_, unknown_score_, get_score);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].token != unknown_) {
        out.push_back(parts[i].token);
        continue;
      }
      const size_t begin = parts[i].begin;  // neighbors that are unknown are one
      while (i + 1 < parts.size() && parts[i + 1].token == unknown_) ++i;
      append_unknown(word.substr(begin, parts[i].end - begin), plain, out);
    }
  }

 private:
  struct Memory final : ModelMemory {
    BestPath<double> path;
  };

  void append_unknown(std::string_view text, bool plain, std::vector<int32_t>& out) const {
    const int32_t token = plain ? -1 : tokens_.find(text);
    if (token >= 0) return out.push_back(token);
    const auto known = [&](char byte) { return byte_tokens_[static_cast<uint8_t>(byte)] >= 0; };
    if (byte_fallback_ && std::all_of(text.begin(), text.end(), known)) {
      for (const char byte : text) out.push_back(byte_tokens_[static_cast<uint8_t>(byte)]);
      return;
    }
    if (unknown_ < 0) throw bad_input("model.unk_id: is missing, and the text needs it");
    out.push_back(unknown_);
  }

  TokenTable tokens_;
  std::vector<double> scores_;  // by id
  DoubleArray trie_;
  std::array<int32_t, 256> byte_tokens_{};
  std::vector<bool> protected_;
  double unknown_score_ = 0;
  int32_t unknown_;
  bool byte_fallback_;
};

}  // namespace

std::unique_ptr<WordModel> make_unigram_model(const JsonNode& node) {
  constexpr size_t kMostTokens = size_t{1} << 24;
  constexpr size_t kMostTokenBytes = size_t{1} << 16;
  const JsonNode vocabulary = node.at("vocab");
  if (!vocabulary.is_array()) vocabulary.refuse("array");
  const Json& list = vocabulary.value();
  if (list.size() > kMostTokens) throw bad_input("{}: {} tokens are too many", vocabulary.path(), list.size());
  std::vector<TokenTable::Entry> entries;
  std::vector<double> scores;
  entries.reserve(list.size());
  scores.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& entry = list[i];
    const bool sound = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!sound) throw bad_input("{}[{}]: is not a token and its score", vocabulary.path(), i);
    const auto& text = entry[0].get_ref<const std::string&>();
    if (text.size() > kMostTokenBytes)
      throw bad_input("{}[{}]: a token of {} bytes is too long", vocabulary.path(), i, text.size());
    entries.push_back({text, static_cast<int32_t>(i)});
    scores.push_back(JsonNode(entry[1], fmt::format("{}[{}]", vocabulary.path(), i)).number());
  }
  const auto unknown = node.find("unk_id");
  if (unknown && list.empty()) throw bad_input("{}: the vocabulary is empty", vocabulary.path());
  const int64_t last = static_cast<int64_t>(list.size()) - 1;
  const int32_t unknown_id = unknown ? static_cast<int32_t>(unknown->integer(0, last)) : -1;
  return std::make_unique<UnigramModel>(std::move(entries), std::move(scores), unknown_id,
                                        node.boolean_or("byte_fallback", false));
}

}  // namespace gabbro::text
