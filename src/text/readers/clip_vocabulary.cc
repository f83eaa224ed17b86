#include "src/text/readers/clip_vocabulary.h"

#include "src/base/error.h"
#include "src/base/json_node.h"
#include "src/base/text_file.h"

namespace gabbro::text {
namespace {

constexpr const char* kStartOfText = "<|startoftext|>";
constexpr const char* kEndOfText = "<|endoftext|>";
constexpr const char* kWords =
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

Json merges_of(std::string_view text) {
  Json merges = Json::array();
  for (const std::string_view line : split_lines(text)) {
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
  }
  return merges;
}

Json special_token(const Json& vocabulary, const char* text, const std::string& name) {
  const auto found = vocabulary.find(text);
  if (found == vocabulary.end()) throw bad_input("{}: has no token '{}'", name, text);
  return {{"id", *found}, {"content", text}, {"special", true}, {"normalized", false}};
}

}  // namespace

// The two files as the tokenizer.json that they stand for.
TokenizerSpec read_clip_vocabulary(const ClipVocabularyFiles& files) {
  const std::string name = files.folder + "/vocab.json";
  Json vocabulary = parse_sorted_json(files.vocab_json, name);
  if (!vocabulary.is_object()) throw bad_input("{}: is not an object", name);
  const Json start = special_token(vocabulary, kStartOfText, name), end = special_token(vocabulary, kEndOfText, name);
  const Json document = {
      {"version", "1.0"},
      {"added_tokens", Json::array({start, end})},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "NFC"}},
          {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}},
          {{"type", "Lowercase"}}}}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", kWords}}}, {"behavior", "Removed"}, {"invert", true}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}}}}},
      {"post_processor",
       {{"type", "RobertaProcessing"},
        {"cls", Json::array({kStartOfText, start["id"]})},
        {"sep", Json::array({kEndOfText, end["id"]})},
        {"trim_offsets", false},
        {"add_prefix_space", false}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", kEndOfText},
        {"end_of_word_suffix", "</w>"},
        {"vocab", std::move(vocabulary)},
        {"merges", merges_of(files.merges_txt)}}}};
  TokenizerFiles folder{.name = files.folder};
  folder.tokenizer_json = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  return read_tokenizer_json(folder);
}

}  // namespace gabbro::text
