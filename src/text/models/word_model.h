// Models of tokenizer.json: the tokens of one word.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/json_node.h"
#include "src/text/models/string_table.h"
#include "src/text/vocabulary.h"

namespace gabbro::text {

// Tokens and their ids, which may have gaps. Owns the texts.
class TokenTable {
 public:
  struct Entry {
    std::string text;
    int32_t id;
  };
  explicit TokenTable(std::vector<Entry> entries);
  TokenTable(const TokenTable&) = delete;
  TokenTable& operator=(const TokenTable&) = delete;

  int32_t find(std::string_view text) const {  // -1: not a token
    const int32_t entry = table_.find(text);
    return entry < 0 ? -1 : entries_[static_cast<size_t>(entry)].id;
  }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  StringTable table_;
};

// One thread's working memory of a model.
class ModelMemory {
 public:
  virtual ~ModelMemory() = default;
};

// May be used by several threads at once.
class WordModel {
 public:
  virtual ~WordModel() = default;
  virtual const TokenTable& tokens() const = 0;
  virtual std::unique_ptr<ModelMemory> make_memory() const = 0;

  // The token of text that has no other, or kNoToken.
  virtual int32_t unknown() const = 0;

  // Appends the tokens of a word, which is well-formed UTF-8. With `plain`, none of protect().
  virtual void encode(std::string_view word, bool plain, ModelMemory& memory, std::vector<int32_t>& out) const = 0;

  // A position at or after `from`, which is not 0, where a word can be cut without a change of its tokens;
  // npos: no such position is known.
  virtual size_t next_cut(std::string_view word, size_t from) const {
    (void)word, (void)from;
    return std::string_view::npos;
  }

  // Tokens that plain text must not become, by id. Called once, before the first encode().
  virtual void protect(const std::vector<bool>& ids) = 0;

  // True where encode() can be told to take the bytes of a word for the characters that spell them in GPT-2's alphabet.
  virtual bool take_bytes() { return false; }
};

// The model of a node {"type": ...}. Throws bad_input that names the path.
std::unique_ptr<WordModel> make_model(const JsonNode& node);

// {"token": id, ...}; throws bad_input that names the path.
std::vector<TokenTable::Entry> read_token_ids(const JsonNode& node);

}  // namespace gabbro::text
