// The sampling options of an answer, from the fields of a request: the names of OpenAI, llama.cpp and vLLM at the top
// level, the names of Ollama in "options".
#pragma once

#include "src/server/json/request_json.h"
#include "src/server/models/model_source.h"

namespace gabbro::server {

// Ranges and sizes of requests.
inline constexpr int64_t kMostTokens = 1 << 24;
inline constexpr int64_t kMostChoices = 128;
inline constexpr size_t kMostStops = 16;
inline constexpr size_t kLongestStop = 256;  // characters
inline constexpr int64_t kMostTopLogprobs = 20, kMostCompletionLogprobs = 5;
inline constexpr int64_t kMostDimensions = 1 << 20;

// A seed of 0 is used literally; a negative seed is replaced by a random one.
uint64_t seed_of(int64_t seed);

// The sampler's options of a model without a request: from its files, else temperature 1 and no filter.
SamplerOptions openai_defaults(const LoadedModel& model);
// llama.cpp's /completion: temperature 0.8, top_k 40, top_p 0.95, min_p 0.05; what the model's files say.
SamplerOptions llama_defaults(const LoadedModel& model);
// Ollama's: temperature 0.8, top_k 40, top_p 0.9; PARAMETER of a Modelfile.
GenerateOptions ollama_defaults(const LoadedModel& model);

// Reads the fields of chat and completions except the number of tokens.
GenerateOptions read_openai_sampling(Fields& fields, const LoadedModel& model);
GenerateOptions read_sampling(Fields& fields, const LoadedModel& model, SamplerOptions defaults);
// The options by their names, for answers that show them.
Json sampler_values(const SamplerOptions& sampler);
// Reads "options" of Ollama; null: none. `context` gets num_ctx, or 0 without it.
GenerateOptions read_ollama_options(std::optional<Fields> options, const LoadedModel& model, int64_t& context);

// Reads stop texts, which replace `stops`.
void read_stops(Fields& fields, const char* name, std::vector<std::string>& stops);
// Reads "logprobs" and "top_logprobs" of chat; -1: no scores, as in SamplerOptions::top_logprobs.
int read_top_logprobs(Fields& fields);
// Refuses a least number of tokens above the largest.
void check_min_tokens(const Fields& fields, const GenerateOptions& options);

// Refuses fields for unsupported features: throws ApiError 400 "unsupported_parameter".
void refuse_unsupported(Fields& fields);

}  // namespace gabbro::server
