// Vocabularies of the tests of this folder: the fixtures of tests/data/text, and one so small that it can be read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "src/base/mapped_file.h"
#include "src/text/vocabulary.h"

namespace gabbro::text {

inline nlohmann::json read_fixture(const std::string& name) {
  return nlohmann::json::parse(read_file(std::string(GABBRO_SOURCE_DIR) + "/tests/data/text/" + name));
}

inline VocabularySpec byte_level_spec(const nlohmann::json& fixture, const std::string& pre) {
  VocabularySpec spec;
  spec.model = "gpt2";
  spec.pre = pre;
  spec.tokens = fixture["tokens"].get<std::vector<std::string>>();
  spec.types = fixture["types"].get<std::vector<int32_t>>();
  spec.merges = fixture["merges"].get<std::vector<std::string>>();
  spec.bos = spec.eos = 0;
  return spec;
}

inline VocabularySpec raw_spec() {
  VocabularySpec spec = byte_level_spec(read_fixture("raw_bpe.json"), "");
  spec.model = "gemma4";
  spec.eos = 1;
  spec.bos = 2;
  return spec;
}

inline VocabularySpec sentencepiece_spec() {
  const auto fixture = read_fixture("sentencepiece.json");
  VocabularySpec spec;
  spec.model = "llama";
  spec.tokens = fixture["tokens"].get<std::vector<std::string>>();
  spec.types = fixture["types"].get<std::vector<int32_t>>();
  spec.scores = fixture["scores"].get<std::vector<float>>();
  return spec;
}

// SentencePiece without byte tokens.
inline VocabularySpec letters_spec() {
  VocabularySpec spec;
  spec.model = "llama";
  spec.tokens = {"<unk>", "<s>", "</s>", "▁", "a", "b", "aa", "▁a", "ab"};
  spec.scores = {0, 0, 0, -1, -1, -1, -2, -3, -4};
  spec.types = {2, 3, 3, 1, 1, 1, 1, 1, 1};
  return spec;
}

}  // namespace gabbro::text
