#include "src/text/models/word_piece_model.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/text/pipeline/double_array.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

// The parts that both models share.
class WordTokens : public WordModel {
 public:
  WordTokens(std::vector<TokenTable::Entry> entries, std::string unk_token)
      : tokens_(std::move(entries)), unk_token_(std::move(unk_token)), unknown_(tokens_.find(unk_token_)) {}

  const TokenTable& tokens() const override { return tokens_; }
  std::unique_ptr<ModelMemory> make_memory() const override { return std::make_unique<ModelMemory>(); }
  int32_t unknown() const override { return unknown_; }
  void protect(const std::vector<bool>& ids) override { protected_ = ids; }

 protected:
  bool may_use(int32_t id, bool plain) const {
    return !(plain && static_cast<size_t>(id) < protected_.size() && protected_[static_cast<size_t>(id)]);
  }
  int32_t require_unknown() const {
    if (unknown_ < 0)
      throw bad_input("model.unk_token: '{}' is not a token of the model, and the text needs it", unk_token_);
    return unknown_;
  }

 private:
  TokenTable tokens_;
  std::string unk_token_;
  int32_t unknown_;
  std::vector<bool> protected_;
};

class WordPieceModel final : public WordTokens {
 public:
  WordPieceModel(std::vector<TokenTable::Entry> entries, WordPieceOptions options)
      : WordTokens(std::move(entries), options.unk_token), options_(std::move(options)) {
    std::vector<std::pair<std::string_view, int32_t>> keys;
    keys.reserve(tokens().entries().size());
    for (const TokenTable::Entry& entry : tokens().entries()) keys.emplace_back(entry.text, entry.id);
    trie_ = DoubleArray(std::move(keys));
    for (const char byte : options_.continuing_subword_prefix)
      continues_ = continues_ && trie_.step(inside_, static_cast<uint8_t>(byte));
  }

  void encode(std::string_view word, bool plain, ModelMemory&, std::vector<int32_t>& out) const override {
    size_t characters = 0;
    for (size_t at = 0; at < word.size(); at += utf8_length(word[at])) ++characters;
    if (characters > options_.max_input_chars_per_word) return out.push_back(require_unknown());
    const size_t before = out.size();
    for (size_t begin = 0; begin < word.size();) {
      const auto [token, end] = longest(word, begin, plain);
      if (token < 0) {
        out.resize(before);
        return out.push_back(require_unknown());
      }
      out.push_back(token);
      begin = end;
    }
  }

 private:
  // The longest token of the word's rest from `begin`, and where it ends.
  std::pair<int32_t, size_t> longest(std::string_view word, size_t begin, bool plain) const {
    std::pair<int32_t, size_t> best{-1, begin};
    if (begin > 0 && !continues_) return best;
    uint32_t node = begin == 0 ? DoubleArray::kRoot : inside_;
    for (size_t end = begin; end < word.size() && trie_.step(node, static_cast<uint8_t>(word[end])); ++end) {
      const int32_t token = trie_.value(node);
      if (token >= 0 && may_use(token, plain)) best = {token, end + 1};
    }
    return best;
  }

  WordPieceOptions options_;
  DoubleArray trie_;
  uint32_t inside_ = DoubleArray::kRoot;  // where tokens go on that do not begin a word
  bool continues_ = true;
};

class WordLevelModel final : public WordTokens {
 public:
  using WordTokens::WordTokens;
  void encode(std::string_view word, bool plain, ModelMemory&, std::vector<int32_t>& out) const override {
    const int32_t token = tokens().find(word);
    out.push_back(token >= 0 && may_use(token, plain) ? token : require_unknown());
  }
};

}  // namespace

std::unique_ptr<WordModel> make_word_piece_model(std::vector<TokenTable::Entry> entries, WordPieceOptions options) {
  return std::make_unique<WordPieceModel>(std::move(entries), std::move(options));
}

std::unique_ptr<WordModel> make_word_piece_model(const JsonNode& node) {
  constexpr int64_t kMostCharacters = 1 << 20;
  return make_word_piece_model(read_token_ids(node.at("vocab")),
                               {.unk_token = node.at("unk_token").string(),
                                .continuing_subword_prefix = node.at("continuing_subword_prefix").string(),
                                .max_input_chars_per_word = static_cast<size_t>(
                                    node.at("max_input_chars_per_word").integer(0, kMostCharacters))});
}

std::unique_ptr<WordModel> make_word_level_model(const JsonNode& node) {
  return std::make_unique<WordLevelModel>(read_token_ids(node.at("vocab")), node.at("unk_token").string());
}

}  // namespace gabbro::text
