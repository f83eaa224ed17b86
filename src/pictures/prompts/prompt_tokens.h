// Prompts as chunks of tokens, each as long as a text encoder's context.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/pictures/prompts/weighted_text.h"
#include "src/text/tokenizer.h"

namespace gabbro::pictures {

// Vectors of a textual inversion, which stand for as many tokens: [vectors][C].
struct Embedding {
  std::string name;
  std::vector<std::vector<float>> vectors;
};
using Embeddings = std::map<std::string, std::shared_ptr<const Embedding>>;  // by name

struct PromptToken {
  int32_t id = 0;
  float weight = 1;
  const std::vector<float>* vector = nullptr;  // in place of the token's row; null: none. The embedding owns it.
};
using PromptChunk = std::vector<PromptToken>;

struct PromptTokens {
  std::vector<PromptChunk> chunks;  // with begin and end tokens and padding; at least one
  // The end of the prompt that was left out; "": none was.
  std::string dropped;
  // Names of embeddings in the text that are not known, and why others are not used.
  std::vector<std::string> notes;
};

struct PromptTokenizer {
  const text::Tokenizer& tokenizer;
  int32_t begin = 0, end = 0, padding = 0;
  size_t context = 77;  // tokens of a chunk
  const Embeddings& embeddings;
};

PromptTokens tokenize_prompt(const std::string& prompt, PromptSyntax syntax, const PromptTokenizer& with);

// Chunks of an empty prompt at the end, until there are `count`.
void pad_chunks(PromptTokens& tokens, size_t count, const PromptTokenizer& with);

}  // namespace gabbro::pictures
