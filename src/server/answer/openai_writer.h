// Answers of chat and completions in OpenAI's form.
#pragma once

#include "src/server/answer/answer.h"

namespace gabbro::server {

struct OpenAiForm {
  bool is_chat = true;
  std::string id, model;
  int64_t created = 0;
  std::string fingerprint;
  bool includes_usage = false;                      // of a stream: a last chunk with the usage
  std::vector<std::string> echos;                   // by choice: texts before the answers; empty: none
  const text::Tokenizer* scored_by = nullptr;       // of tokens with scores; null: the answer has no scores
  std::vector<std::vector<int32_t>> echo_tokens{};  // by choice: of the echos, where the answer has scores
  bool has_function_call = false;                   // the old form of a call, "function_call"
};

std::unique_ptr<AnswerWriter> make_openai_writer(OpenAiForm form, size_t choices);

Json usage_of(const AnswerTotals& totals);
Json timings_of(const AnswerTotals& totals);  // of prompt and answer, as llama.cpp names them

// An event of a stream: "data: ...\n\n".
std::string sse_event(std::string_view data);

}  // namespace gabbro::server
