#include "src/text/models/bpe_model.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "src/base/error.h"
#include "src/text/models/byte_alphabet.h"
#include "src/text/models/merger.h"
#include "src/text/pipeline/word_cache.h"
#include "src/text/pipeline/word_cutter.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

constexpr int32_t kMissing = -1;

struct BpeOptions {
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix, end_of_word_suffix;
  bool fuse_unk, byte_fallback, ignore_merges;
};

struct BpeMerge {
  int32_t left, right, result;
};

class BpeModel final : public WordModel {
 public:
  BpeModel(std::vector<TokenTable::Entry> entries, const JsonNode& node, BpeOptions options)
      : tokens_(std::move(entries)), options_(std::move(options)) {
    read_merges(node.at("merges"));
    if (options_.unk_token) unknown_ = tokens_.find(*options_.unk_token);
    for (size_t byte = 0; byte < 256; ++byte) byte_tokens_[byte] = tokens_.find(fmt::format("<0x{:02X}>", byte));
    for (size_t c = 0; c < ascii_.size(); ++c) {
      const char text = static_cast<char>(c);
      ascii_[c] = tokens_.find({&text, 1});
    }
    table_ = build_table({});
    learn_cuts();
  }

  const TokenTable& tokens() const override { return tokens_; }
  std::unique_ptr<ModelMemory> make_memory() const override { return std::make_unique<Memory>(); }
  int32_t unknown() const override { return unknown_; }

  void protect(const std::vector<bool>& ids) override {
    protected_ = ids;
    for (const BpeMerge& merge : merges_) {
      if (!is_protected(merge.result)) continue;
      plain_table_ = build_table(ids);
      break;
    }
  }

  bool take_bytes() override {
    if (!options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty()) return false;
    for (size_t byte = 0; byte < 256; ++byte) {
      byte_symbols_[byte] = tokens_.find(byte_spelling(static_cast<uint8_t>(byte)));
      if (byte_symbols_[byte] == kMissing) return false;
    }
    if (options_.ignore_merges) index_bytes();
    as_bytes_ = true;
    return true;
  }

  size_t next_cut(std::string_view word, size_t from) const override {
    return cuts_ && !as_bytes_ ? cutter_.next_cut(word, from) : word.npos;
  }

  void encode(std::string_view word, bool plain, ModelMemory& memory, std::vector<int32_t>& out) const override {
    if (!cuts_ || as_bytes_ || word.size() <= WordCache::kMostBytes) return encode_word(word, plain, memory, out);
    auto& cache = static_cast<Memory&>(memory).cache;
    cutter_.for_each_word(word, [&](std::string_view part) {
      const auto encode_part = [&](std::vector<int32_t>& tokens) { encode_word(part, plain, memory, tokens); };
      if (plain) return encode_part(out);
      cache.append(part, out, encode_part);
    });
  }

 private:
  struct Memory final : ModelMemory {
    Merger merger;
    WordCache cache;  // of the parts of long words
  };

  void encode_word(std::string_view word, bool plain, ModelMemory& memory, std::vector<int32_t>& out) const {
    if (options_.ignore_merges) {
      const int32_t whole = as_bytes_ ? find_bytes(word) : tokens_.find(word);
      if (whole != kMissing && !(plain && is_protected(whole))) return out.push_back(whole);
    }
    auto& merger = static_cast<Memory&>(memory).merger;
    merger.symbols.clear();
    if (as_bytes_) {
      for (const char byte : word) merger.symbols.push_back(byte_symbols_[static_cast<uint8_t>(byte)]);
    } else {
      append_symbols(word, plain, merger.symbols);
    }
    merger.merge(plain && plain_table_ ? *plain_table_ : *table_);
    out.insert(out.end(), merger.symbols.begin(), merger.symbols.end());
  }

  bool is_protected(int32_t id) const {
    return static_cast<size_t>(id) < protected_.size() && protected_[static_cast<size_t>(id)];
  }

  void read_merges(const JsonNode& node) {
    if (!node.is_array()) node.refuse("array");
    const Json& list = node.value();
    merges_.reserve(list.size());
    std::string joined;
    for (size_t i = 0; i < list.size(); ++i) {
      std::string_view left, right;
      const Json& entry = list[i];
      if (entry.is_string()) {
        const std::string_view text = entry.get_ref<const std::string&>();
        if (text.starts_with("#version")) continue;
        const size_t space = text.find(' ');
        if (space == text.npos || text.find(' ', space + 1) != text.npos)
          throw bad_input("{}[{}]: not two strings with a space between", node.path(), i);
        left = text.substr(0, space), right = text.substr(space + 1);
      } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
        left = entry[0].get_ref<const std::string&>(), right = entry[1].get_ref<const std::string&>();
      } else {
        throw bad_input("{}[{}]: not two strings", node.path(), i);
      }
      const size_t prefix = options_.continuing_subword_prefix.size();
      if (right.size() < prefix)
        throw bad_input("{}[{}]: the second string is shorter than the prefix", node.path(), i);
      joined.assign(left).append(right.substr(prefix));
      const BpeMerge merge{tokens_.find(left), tokens_.find(right), tokens_.find(joined)};
      if (merge.left == kMissing || merge.right == kMissing || merge.result == kMissing)
        throw bad_input("{}[{}]: '{}' and '{}' are not tokens, or what they make is not", node.path(), i, left, right);
      merges_.push_back(merge);
    }
  }

  std::unique_ptr<const MergeTable> build_table(const std::vector<bool>& without) const {
    auto table = std::make_unique<MergeTable>(merges_.size());
    for (size_t i = 0; i < merges_.size(); ++i) {
      const BpeMerge& merge = merges_[i];
      const auto result = static_cast<size_t>(merge.result);
      if (result < without.size() && without[result]) continue;
      table->set(merge.left, merge.right, {static_cast<uint32_t>(i), merge.result});
    }
    return table;
  }

  // Texts that are not cut into words before are cut here, where escaped spaces begin words: no merge makes a token
  // that has one inside, and the space itself is known, so that no unknown token goes across.
  void learn_cuts() {
    cuts_ = !options_.ignore_merges && options_.continuing_subword_prefix.empty() &&
            options_.end_of_word_suffix.empty() && tokens_.find(kEscapedSpace) != kMissing;
    std::vector<bool> made;
    for (const BpeMerge& merge : merges_) {
      made.resize(std::max(made.size(), static_cast<size_t>(merge.result) + 1));
      made[static_cast<size_t>(merge.result)] = true;
    }
    for (const TokenTable::Entry& entry : tokens_.entries()) {
      if (cuts_ && static_cast<size_t>(entry.id) < made.size() && made[static_cast<size_t>(entry.id)])
        cutter_.learn(entry.text);
    }
  }

  // The bytes of every token that is spelled in the alphabet.
  void index_bytes() {
    const auto& entries = tokens_.entries();
    std::vector<TokenTable::Entry> decoded;
    decoded.reserve(entries.size());
    for (const TokenTable::Entry& entry : entries) {
      std::string bytes;
      if (append_spelled_bytes(entry.text, bytes)) decoded.push_back({std::move(bytes), entry.id});
    }
    bytes_ = std::make_unique<const TokenTable>(std::move(decoded));
  }
  int32_t find_bytes(std::string_view word) const { return bytes_->find(word); }

  int32_t find_character(std::string_view character, bool is_first, bool is_last, std::string& buffer) const {
    const bool prefix = !is_first && !options_.continuing_subword_prefix.empty();
    const bool suffix = is_last && !options_.end_of_word_suffix.empty();
    if (!prefix && !suffix) {
      const auto byte = static_cast<uint8_t>(character[0]);
      return byte < ascii_.size() ? ascii_[byte] : tokens_.find(character);
    }
    buffer.clear();
    if (prefix) buffer += options_.continuing_subword_prefix;
    buffer += character;
    if (suffix) buffer += options_.end_of_word_suffix;
    return tokens_.find(buffer);
  }

  // As `tokenizers`: an unknown character waits until the next known one, and bytes that stand for another do not end
  // the wait.
  void append_symbols(std::string_view word, bool plain, std::vector<int32_t>& symbols) const {
    std::string buffer;
    bool waiting = false;
    for (size_t at = 0; at < word.size();) {
      const std::string_view character = word.substr(at, utf8_length(word[at]));
      const bool is_first = at == 0;
      at += character.size();
      buffer = character;
      const int32_t symbol = find_character(character, is_first, at >= word.size(), buffer);
      if (symbol != kMissing && !(plain && is_protected(symbol))) {
        if (std::exchange(waiting, false)) symbols.push_back(unknown_);
        symbols.push_back(symbol);
        continue;
      }
      if (options_.byte_fallback && append_bytes(buffer, symbols)) continue;
      if (!options_.unk_token) continue;
      if (unknown_ == kMissing)
        throw bad_input("model.unk_token: '{}' is not a token of the model, and the text needs it",
                        *options_.unk_token);
      if (waiting && !options_.fuse_unk) symbols.push_back(unknown_);
      waiting = true;
    }
    if (waiting) symbols.push_back(unknown_);
  }

  bool append_bytes(std::string_view text, std::vector<int32_t>& symbols) const {
    for (const char byte : text) {
      if (byte_tokens_[static_cast<uint8_t>(byte)] == kMissing) return false;
    }
    for (const char byte : text) symbols.push_back(byte_tokens_[static_cast<uint8_t>(byte)]);
    return true;
  }

  TokenTable tokens_;
  BpeOptions options_;
  std::vector<BpeMerge> merges_;
  std::unique_ptr<const MergeTable> table_, plain_table_;
  std::unique_ptr<const TokenTable> bytes_;
  std::array<int32_t, 256> byte_symbols_{}, byte_tokens_{};
  std::array<int32_t, 128> ascii_{};
  std::vector<bool> protected_;
  int32_t unknown_ = kMissing;
  WordCutter cutter_;
  bool as_bytes_ = false, cuts_ = false;
};

}  // namespace

std::unique_ptr<WordModel> make_bpe_model(const JsonNode& node) {
  const auto dropout = node.find("dropout");
  if (dropout && dropout->number() != 0)
    throw bad_input("{}: dropout is for training; a tokenizer with it is not supported", dropout->path());
  BpeOptions options{.unk_token = {},
                     .continuing_subword_prefix = node.string_or("continuing_subword_prefix", ""),
                     .end_of_word_suffix = node.string_or("end_of_word_suffix", ""),
                     .fuse_unk = node.boolean_or("fuse_unk", false),
                     .byte_fallback = node.boolean_or("byte_fallback", false),
                     .ignore_merges = node.boolean_or("ignore_merges", false)};
  if (const auto unknown = node.find("unk_token")) options.unk_token = unknown->string();
  return std::make_unique<BpeModel>(read_token_ids(node.at("vocab")), node, std::move(options));
}

}  // namespace gabbro::text
