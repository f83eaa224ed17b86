// Pieces that the routes in OpenAI's form share.
#pragma once

#include "src/server/answer/openai_writer.h"
#include "src/server/answer/sampling_fields.h"
#include "src/server/router.h"

namespace gabbro::server {

struct OpenAiRequest {
  std::string model;
  bool streams = false;
  bool includes_usage = false;
  int64_t choices = 1;
  int priority = 0;        // as GenerationRequest has it
  std::string cache_salt;  // requests of different ones share no cached prompts
  std::optional<KeepAlive> keep_alive{};
};

// Fields that need no model.
OpenAiRequest read_openai_request(Fields& fields);

// The tokenizer that names tokens in an answer with scores; null: it has none.
inline const text::Tokenizer* scored_by(const LoadedModel& model, const GenerateOptions& options) {
  return options.sampler.top_logprobs >= 0 ? &model.generator->tokenizer() : nullptr;
}

// One request for each choice, each with its own seed.
void add_choices(AnswerRequest& answer, const std::vector<int32_t>& prompt, const GenerateOptions& options,
                 const OpenAiRequest& asked);

// "5m", "1h30m", seconds; negative: for ever. Throws ApiError that names `name`.
std::optional<KeepAlive> read_keep_alive(Fields& fields, const char* name);

// Tells builds and models apart: the same text can be expected of the same one.
std::string fingerprint_of(const Service& service, const LoadedModel& model);

}  // namespace gabbro::server
