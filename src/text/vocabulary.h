// The vocabulary of a tokenizer: what the file says (VocabularySpec), and the checked form that answers questions.
// Knows nothing about how text is split; see tokenizer.h for that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/models/string_table.h"

namespace gabbro::text {

constexpr int32_t kNoToken = -1;

// The keys tokenizer.ggml.* of a GGUF file, each field named as its key; other files fill in the same fields. Empty
// vectors, -1 and nullopt mean "not there".
struct VocabularySpec {
  std::string model;         // "gpt2", "gemma4" (byte pair encoding), "llama" (SentencePiece BPE),
                             // "t5" (SentencePiece unigram) or "bert" (WordPiece)
  std::string pre;           // name of the pre-tokenizer, for "gpt2"
  std::string name;          // general.name; llama.cpp derives a rule of Phi-3 from it
  std::string architecture;  // general.architecture; likewise

  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;  // as in TokenType
  std::vector<std::string> merges;

  int32_t bos = kNoToken;
  int32_t eos = kNoToken;
  int32_t eot = kNoToken;
  int32_t eom = kNoToken;
  int32_t unknown = kNoToken;
  int32_t padding = kNoToken;
  int32_t fim_pad = kNoToken;
  int32_t fim_rep = kNoToken;
  int32_t fim_sep = kNoToken;

  std::vector<std::string> notes;          // for warnings()
  bool types_are_exact = false;            // the texts of tokens do not make them control tokens
  std::vector<int32_t> end_of_generation;  // tokens that end a generation, besides those that their texts tell

  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
  std::optional<bool> remove_extra_whitespaces;
  std::string precompiled_charsmap;  // of the normalizer, for "t5"; see charsmap.h
};

enum class TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Bits of Vocabulary::attributes. A token can have several: the file gives one type, and its text may add "control".
enum TokenAttribute : uint8_t {
  kNormalToken = 1,
  kUnknownToken = 2,
  kControlToken = 4,
  kUserDefinedToken = 8,
  kUnusedToken = 16,
  kByteToken = 32,
  kStripLeft = 64,   // white space before it in the text is dropped
  kStripRight = 128  // ... and after it
};

class Vocabulary {
 public:
  // Throws bad_input that names the field for sizes that disagree, unknown token types, scores that are not numbers. A
  // special token outside the vocabulary is a warning and counts as not there, as in llama.cpp. The first of several
  // equal tokens is the one that text maps to. Ignores spec.merges.
  explicit Vocabulary(VocabularySpec spec);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  int32_t size() const { return static_cast<int32_t>(spec_.tokens.size()); }
  bool contains(int32_t id) const { return id >= 0 && id < size(); }
  std::string_view text(int32_t id) const { return table_.key(id); }       // as the file spells it
  int32_t find(std::string_view text) const { return table_.find(text); }  // kNoToken: no such token
  // As find(), but no control or unknown token: tokens that plain text can become.
  int32_t find_plain(std::string_view text) const {
    const int32_t id = find(text);
    return id != kNoToken && has(id, kControlToken | kUnknownToken) ? kNoToken : id;
  }
  bool unique() const { return table_.unique(); }  // no token is empty or occurs twice
  float score(int32_t id) const { return spec_.scores.empty() ? 0.0F : spec_.scores[static_cast<size_t>(id)]; }
  bool has(int32_t id, int attributes) const { return (attributes_[static_cast<size_t>(id)] & attributes) != 0; }

  const VocabularySpec& spec() const { return spec_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  const std::vector<int32_t>& end_of_generation() const { return end_of_generation_; }  // ascending

 private:
  void check() const;
  void drop_outside_ids();
  void set_defaults();

  VocabularySpec spec_;
  std::vector<std::string> warnings_;
  StringTable table_;
  std::vector<uint8_t> attributes_;
  std::vector<int32_t> end_of_generation_;
};

}  // namespace gabbro::text
