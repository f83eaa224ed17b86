// The list of pre-tokenizers: for each name in use the regular expressions of the model's own tokenizer and its flags.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gabbro::text {

// Groups of three counted from the right end of a run of digits, which no regular expression does in linear time.
enum class DigitGroups {
  kNone,
  kNumbers,       // runs of \p{N}: AFMoE
  kDecimals,      // runs of \d: (?=(\d{3})+(?!\d)), SuperBPE
  kWholeDecimals  // likewise where the run ends at a word boundary: \d{1,3}(?=(?:\d{3})*\b), Tiny Aya
};

// Isolates what the pattern matches, or groups of digits, in each piece that the steps before it have left.
struct PreTokenizerStep {
  PreTokenizerStep(std::string regex) : pattern(std::move(regex)) {}  // NOLINT(google-explicit-constructor)
  PreTokenizerStep(const char* regex) : pattern(regex) {}             // NOLINT(google-explicit-constructor)
  PreTokenizerStep(DigitGroups groups) : digits(groups) {}            // NOLINT(google-explicit-constructor)
  std::string pattern;
  DigitGroups digits = DigitGroups::kNone;
};

struct PreTokenizerRule {
  std::vector<std::string_view> names;
  std::vector<PreTokenizerStep> steps;
  bool ignore_merges = false;  // a word that is a token is that token, whether or not merges lead there
  bool add_bos = false;        // unless the file says otherwise
  bool byte_level = true;  // tokens are spelled in GPT-2's alphabet of bytes; otherwise in UTF-8 with <0xXX> for bytes
  bool escape_spaces = false;  // a space is spelled U+2581
  bool join_newlines = false;  // a run of newlines that is a token is that token
};

// Every name of tokenizer.ggml.pre stands in one of these.
const std::vector<PreTokenizerRule>& pretokenizer_rules();

}  // namespace gabbro::text
