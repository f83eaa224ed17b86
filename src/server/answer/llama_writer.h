// Answers of llama.cpp's /completion and /infill.
#pragma once

#include "src/server/answer/answer.h"

namespace gabbro::server {

struct LlamaForm {
  std::string model, prompt;
  Json settings;                               // "generation_settings"
  bool returns_tokens = false;                 // the answer has the ids of its tokens
  std::vector<std::string> fields{};           // of the last object, with "/" between levels; empty: all
  const text::Tokenizer* scored_by = nullptr;  // of tokens with scores; null: the answer has no scores
};

std::unique_ptr<AnswerWriter> make_llama_writer(LlamaForm form);

}  // namespace gabbro::server
