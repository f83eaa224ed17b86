// The models of SentencePiece files: tokens of a normalized text, as `sentencepiece` gives them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "src/text/pipeline/double_array.h"
#include "src/text/readers/sentencepiece_file.h"

namespace gabbro::text {

// A piece of the text and its token; -1: unknown.
struct SentencePart {
  std::string_view text;
  int32_t token;
};

// Finds the longest user-defined symbol at the beginning of a text.
class SymbolMatcher {
 public:
  // Symbols with a true skip(token) are left out when plain text is matched.
  SymbolMatcher(const SentencePieceFile& file, const std::vector<bool>& structural);
  // Its length in bytes, or 0.
  size_t match(std::string_view text, bool plain) const;

 private:
  DoubleArray trie_;
  std::vector<bool> structural_;
  bool empty_ = true;
};

class SentenceModel {
 public:
  virtual ~SentenceModel() = default;
  // Appends the parts of a text; where `plain`, none is a structural symbol.
  virtual void encode(std::string_view text, bool plain, std::vector<SentencePart>& out) const = 0;
};

// The file and the matcher outlive the model. `structural`, by token: symbols that input must not become.
std::unique_ptr<const SentenceModel> make_sentence_model(const SentencePieceFile& file, const SymbolMatcher& matcher,
                                                         const std::vector<bool>& structural);

}  // namespace gabbro::text
