#include "src/text/readers/gguf_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "src/base/error.h"
#include "src/base/json_node.h"
#include "src/text/base64.h"
#include "src/text/pipeline/pretokenizer_table.h"
#include "src/text/readers/sentencepiece_file.h"
#include "src/text/tokenizer.h"

namespace gabbro::text {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

// Texts in which pre-tokenizers and normalizers differ: contractions, digits, runs of spaces and line breaks, scripts,
// marks, signs and emoji.
constexpr const char* kSamples[] = {
    "a",
    "Hello world, it's 3 o'clock; I'LL pay $12,345.678 (or 9%)!",
    "\n\n\n  Two  spaces,\ttabs \t and trailing   \n",
    "def f(x):\n    return x_1 + camelCaseWord**2  # comment...\r\n\r\n",
    "H\xC3\xA9llo w\xC3\xB6rld na\xC3\xAFve \xC3\x85ngstr\xC3\xB6m \xC4\xB0stanbul \xCE\xB1\xCE\xB2\xCE\xB3",
    "e\xCC\x81 decomposed",
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C\xEF\xBC\x8C",
    "\xE3\x81\x93\xE3\x82\x93\xE3\x81\xAB\xE3\x81\xA1\xE3\x81\xAF \xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4",
    "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87 \xD8\xA7\xD9\x84\xD8\xB3\xD9\x84",
    "\xF0\x9F\x98\x80\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB \xE2\x80\x9Cquotes\xE2\x80\x9D\xE2\x80\xA6",
    "\xEF\xAC\x81 \xC2\xBD 1234567 \xD9\xA3\xD9\xA4 ''''''```````\"\"\" http://a.b/c?d=e&f#g",
};

struct Flags {
  bool prefix, suffix;
};

// The fields that do not depend on the kind.
VocabularySpec common(const VocabularySpec& read, Flags added, const std::vector<int32_t>& prefix,
                      const std::vector<int32_t>& suffix) {
  VocabularySpec spec;
  spec.tokens = read.tokens;
  spec.scores = read.scores;
  spec.types = read.types;
  spec.bos = read.bos;
  spec.eos = read.eos;
  spec.unknown = read.unknown;
  spec.padding = read.padding;
  if (spec.bos == kNoToken && !prefix.empty()) spec.bos = prefix.front();
  if (spec.eos == kNoToken && !suffix.empty()) spec.eos = suffix.front();
  // llama.cpp has names for three.
  for (const int32_t end : read.end_of_generation) {
    if (end == spec.eos) continue;
    if (spec.eot == kNoToken) {
      spec.eot = end;
    } else if (spec.eom == kNoToken && end != spec.eot) {
      spec.eom = end;
    }
  }
  spec.add_bos = added.prefix;
  spec.add_eos = added.suffix;
  return spec;
}

bool contains_type(const Json& part, std::string_view type) {
  if (part.is_array()) return std::ranges::any_of(part, [&](const Json& each) { return contains_type(each, type); });
  if (!part.is_object()) return false;
  if (part.contains("type") && part["type"] == type) return true;
  for (const char* list : {"normalizers", "pretokenizers", "processors", "decoders"}) {
    if (part.contains(list) && contains_type(part[list], type)) return true;
  }
  return false;
}

// The first part of a type, in whatever sequence.
const Json* find_type(const Json& part, std::string_view type) {
  if (part.is_array()) {
    for (const Json& each : part) {
      if (const Json* found = find_type(each, type)) return found;
    }
  }
  if (!part.is_object()) return nullptr;
  if (part.contains("type") && part["type"] == type) return &part;
  for (const char* list : {"normalizers", "pretokenizers"}) {
    if (!part.contains(list)) continue;
    if (const Json* found = find_type(part[list], type)) return found;
  }
  return nullptr;
}

const Json& field(const Json& object, const char* name) {
  static const Json kNull;
  return object.contains(name) ? object[name] : kNull;
}

std::vector<std::string> merges_of(const Json& model) {
  std::vector<std::string> merges;
  for (const Json& merge : field(model, "merges")) {
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
  }
  return merges;
}

// Scores for byte pair encoding on characters: the earlier a merge makes a token, the higher.
std::vector<float> scores_of_merges(const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
  std::unordered_map<std::string, float> ranks;
  for (size_t i = 0; i < merges.size(); ++i) {
    std::string joined = merges[i];
    joined.erase(joined.find(' '), 1);
    ranks.emplace(std::move(joined), -static_cast<float>(i));
  }
  std::vector<float> scores;
  for (const std::string& token : tokens) {
    const auto rank = ranks.find(token);
    scores.push_back(rank != ranks.end() ? rank->second : -1e9f);
  }
  return scores;
}

void mark_bytes_and_unknown(VocabularySpec& spec) {
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const std::string& token = spec.tokens[i];
    if (token.size() == 6 && token.starts_with("<0x") && token.ends_with('>'))
      spec.types[i] = static_cast<int32_t>(TokenType::kByte);
  }
  if (spec.unknown != kNoToken)
    spec.types[static_cast<size_t>(spec.unknown)] = static_cast<int32_t>(TokenType::kUnknown);
}

bool prepends_space(const Json& document) {
  const Json& normalizer = field(document, "normalizer");
  if (contains_type(normalizer, "Prepend")) return true;
  const Json* metaspace = find_type(field(document, "pre_tokenizer"), "Metaspace");
  return metaspace != nullptr && metaspace->value("prepend_scheme", std::string("always")) != "never";
}

// The vocabularies that may give the same tokens, the best guess first.
std::vector<VocabularySpec> of_json(const TokenizerFiles& files, const VocabularySpec& base) {
  const Json document = parse_sorted_json(*files.tokenizer_json, files.name + "/tokenizer.json");
  const Json& model = field(document, "model");
  const std::string type = model.value("type", std::string(model.contains("merges") ? "BPE" : ""));
  VocabularySpec spec = base;
  if (type == "BPE" && (contains_type(field(document, "pre_tokenizer"), "ByteLevel") ||
                        contains_type(field(document, "decoder"), "ByteLevel"))) {
    spec.model = "gpt2";
    spec.merges = merges_of(model);
    std::vector<VocabularySpec> all;
    for (const PreTokenizerRule& rule : pretokenizer_rules()) {
      if (!rule.byte_level) continue;
      spec.pre = rule.names.front();
      all.push_back(spec);
    }
    return all;
  }
  mark_bytes_and_unknown(spec);
  if (type == "BPE") {
    spec.model = "llama";
    spec.scores = scores_of_merges(spec.tokens, merges_of(model));
    spec.add_space_prefix = prepends_space(document);
    return {spec};
  }
  if (type == "Unigram") {
    spec.model = "t5";
    spec.scores.assign(spec.tokens.size(), 0);
    size_t id = 0;
    for (const Json& entry : field(model, "vocab")) spec.scores.at(id++) = entry.at(1).get<float>();
    if (const Json* map = find_type(field(document, "normalizer"), "Precompiled"))
      spec.precompiled_charsmap = decode_base64(map->value("precompiled_charsmap", std::string()), files.name);
    spec.add_space_prefix = prepends_space(document);
    spec.remove_extra_whitespaces = contains_type(field(document, "normalizer"), "Replace") ||
                                    contains_type(field(document, "pre_tokenizer"), "WhitespaceSplit");
    return {spec};
  }
  if (type == "WordPiece") {
    spec.model = "bert";
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      std::string& token = spec.tokens[i];
      if (spec.types[i] != static_cast<int32_t>(TokenType::kNormal)) continue;
      token = token.starts_with("##") ? token.substr(2) : std::string(kSpace) + token;
    }
    return {spec};
  }
  return {};
}

std::vector<VocabularySpec> of_sentencepiece(const TokenizerFiles& files, VocabularySpec spec) {
  const SentencePieceFile file = read_sentencepiece_file(*files.sentencepiece_model, files.name + "/tokenizer.model");
  if (file.kind != SentencePieceFile::Kind::kUnigram && file.kind != SentencePieceFile::Kind::kBpe) return {};
  spec.model = file.kind == SentencePieceFile::Kind::kBpe ? "llama" : "t5";
  spec.scores.resize(spec.tokens.size(), -1000);  // of tokens that other files add
  spec.add_space_prefix = file.add_dummy_prefix;
  spec.remove_extra_whitespaces = file.remove_extra_whitespaces;
  spec.precompiled_charsmap = file.charsmap;
  return {spec};
}

void fill_up(VocabularySpec& spec, int32_t size) {
  for (size_t i = 0; i < spec.tokens.size() || static_cast<int32_t>(i) < size; ++i) {
    if (i == spec.tokens.size()) {
      spec.tokens.emplace_back();
      spec.types.push_back(static_cast<int32_t>(TokenType::kUnused));
      if (!spec.scores.empty()) spec.scores.push_back(-1e9f);
    }
    if (spec.tokens[i].empty()) spec.tokens[i] = fmt::format("[PAD{}]", i);
  }
}

}  // namespace

std::optional<GgufVocabulary> gguf_vocabulary(const TokenizerFiles& files, int32_t size) {
  // SentencePiece files have scores, which tokenizer.json may not.
  TokenizerFiles counting = files;
  if (files.sentencepiece_model) counting.tokenizer_json.reset();
  TokenizerSpec theirs = read_tokenizer_files(files);
  const VocabularySpec read = counting.tokenizer_json ? theirs.vocabulary : read_tokenizer_files(counting).vocabulary;
  const std::vector<int32_t> begin = theirs.prefix, end = theirs.suffix;
  const Tokenizer original(std::move(theirs));
  const std::vector<int32_t> with = original.encode("a"), bare = original.encode("a", {.add_special = false});
  const bool prefix = with.size() > bare.size() && with.front() != bare.front();
  const bool suffix = with.size() > bare.size() + (prefix ? 1 : 0);
  const VocabularySpec base = common(read, {prefix, suffix}, begin, end);
  size_t most = 0;
  std::optional<VocabularySpec> best;
  for (VocabularySpec& candidate : counting.tokenizer_json ? of_json(files, base) : of_sentencepiece(files, base)) {
    fill_up(candidate, size);
    size_t equal = 0;
    try {
      const Tokenizer converted(candidate);
      for (const char* sample : kSamples) equal += original.encode(sample) == converted.encode(sample) ? 1 : 0;
    } catch (const Error&) {  // another kind
      continue;
    }
    if (best && equal <= most) continue;
    most = equal;
    best = std::move(candidate);
    if (most == std::size(kSamples)) break;
  }
  if (!best) return std::nullopt;
  best->end_of_generation = original.end_of_generation();
  return GgufVocabulary{std::move(*best), most == std::size(kSamples)};
}

}  // namespace gabbro::text
