// Answers of chat and generate in Ollama's form.
#pragma once

#include "src/server/answer/answer.h"

namespace gabbro::server {

struct OllamaForm {
  bool is_chat = true;
  std::string model;
  std::vector<int32_t> prompt;                 // of generate: its tokens begin the context that the answer returns
  bool splits_thoughts = true;                 // else thoughts are a part of the text
  const text::Tokenizer* scored_by = nullptr;  // of tokens with scores; null: the answer has no scores
};

std::unique_ptr<AnswerWriter> make_ollama_writer(OllamaForm form);

// The answer that loads or unloads a model.
Json ollama_load_answer(const OllamaForm& form, const char* reason);

int64_t nanoseconds(double seconds);

}  // namespace gabbro::server
