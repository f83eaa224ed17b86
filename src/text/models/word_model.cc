#include "src/text/models/word_model.h"

#include <utility>

#include "src/base/error.h"
#include "src/text/models/bpe_model.h"
#include "src/text/models/unigram_model.h"
#include "src/text/models/word_piece_model.h"

namespace gabbro::text {
namespace {

constexpr int64_t kMostId = (int64_t{1} << 24) - 1;  // the largest vocabularies have 2^18 tokens
constexpr size_t kMostTokenBytes = size_t{1} << 16;

// The kinds of models, by "type".
struct ModelKind {
  std::string_view type;
  std::unique_ptr<WordModel> (*make)(const JsonNode& node);
};
constexpr ModelKind kModelKinds[] = {
    {"BPE", make_bpe_model},
    {"Unigram", make_unigram_model},
    {"WordPiece", make_word_piece_model},
    {"WordLevel", make_word_level_model},
};

}  // namespace

TokenTable::TokenTable(std::vector<Entry> entries) : entries_(std::move(entries)), table_(entries_.size()) {
  for (const Entry& entry : entries_) table_.add(entry.text);
}

std::vector<TokenTable::Entry> read_token_ids(const JsonNode& node) {
  if (!node.is_object()) node.refuse("object");
  std::vector<TokenTable::Entry> entries;
  entries.reserve(node.value().size());
  for (const auto& [text, id] : node.value().items()) {
    if (text.size() > kMostTokenBytes) throw bad_input("{}: a token of {} bytes is too long", node.path(), text.size());
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kMostId)
      throw bad_input("{}: '{}' is not an id from 0 to {}", node.path(), id.dump(), kMostId);
    entries.push_back({text, id.get<int32_t>()});
  }
  return entries;
}

std::unique_ptr<WordModel> make_model(const JsonNode& node) {
  const auto named = node.find("type");
  // Old files do not name the type; each has a field that no other has.
  const std::string type = named                                   ? named->string()
                           : node.find("merges")                   ? "BPE"
                           : node.find("max_input_chars_per_word") ? "WordPiece"
                           : node.at("vocab").is_array()           ? "Unigram"
                                                                   : "WordLevel";
  for (const ModelKind& kind : kModelKinds) {
    if (kind.type == type) return kind.make(node);
  }
  throw bad_input("{}.type: model '{}' is not supported", node.path(), type);
}

}  // namespace gabbro::text
