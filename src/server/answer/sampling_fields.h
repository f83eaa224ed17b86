// How the tokens of an answer are chosen, from the fields of a request: the names of OpenAI, llama.cpp and vLLM at the
// top level, those of Ollama in "options".
#pragma once

#include "src/server/json/request_json.h"
#include "src/server/models/model_source.h"

namespace gabbro::server {

// Ranges and sizes of requests.
inline constexpr int64_t kMostTokens = 1 << 24;
inline constexpr int64_t kMostChoices = 128;
inline constexpr size_t kMostStops = 16;
inline constexpr size_t kLongestStop = 256;  // bytes
inline constexpr int64_t kMostTopLogprobs = 20, kMostCompletionLogprobs = 5;
inline constexpr int64_t kMostDimensions = 1 << 20;

// A seed of 0 is one like any other; below 0 a random one.
uint64_t seed_of(int64_t seed);

// The sampler's options of a model without a request: what its files say, else temperature 1 and no filter.
SamplerOptions openai_defaults(const LoadedModel& model);
// Ollama's: temperature 0.8, top_k 40, top_p 0.9; PARAMETER of a Modelfile.
GenerateOptions ollama_defaults(const LoadedModel& model);

// Fields of chat and completions but for the number of tokens.
GenerateOptions read_openai_sampling(Fields& fields, const LoadedModel& model);
// "options" of Ollama; null: none. `context` gets num_ctx, 0 where it is not given.
GenerateOptions read_ollama_options(std::optional<Fields> options, const LoadedModel& model, int64_t& context);

// "logprobs" and "top_logprobs" of chat; -1: no scores. As SamplerOptions::top_logprobs has it.
int read_top_logprobs(Fields& fields);
// Refuses a least number of tokens above the largest.
void check_min_tokens(const Fields& fields, const GenerateOptions& options);

// Fields that ask for what the server does not do: throws ApiError 400 "unsupported_parameter".
void refuse_unsupported(Fields& fields);

}  // namespace gabbro::server
