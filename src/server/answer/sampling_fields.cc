#include "src/server/answer/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "src/engine/sampling_defaults.h"
#include "src/text/tokenizer.h"

namespace gabbro::server {
namespace {

constexpr double kMostBias = 100;

// Ranges of requests that differ from a sampler's: OpenAI's ranges, and -1 of vLLM, which turns top_k off.
struct RequestRange {
  std::string_view name;
  double least, most;
};
constexpr RequestRange kRanges[] = {
    {"temperature", 0, 2}, {"frequency_penalty", -2, 2}, {"presence_penalty", -2, 2}, {"top_k", -1, kUnbounded}};

void read_option(Fields& fields, const char* name, const SamplingOption& option, SamplerOptions& sampler) {
  const auto own = std::ranges::find(kRanges, option.name, &RequestRange::name);
  const auto [least, most] =
      own != std::end(kRanges) ? std::pair(own->least, own->most) : std::pair(option.least, option.most);
  std::optional<double> given;
  if (option.is_integer()) {
    if (const auto value = fields.integer(name, static_cast<int64_t>(least), static_cast<int64_t>(most)))
      given = std::max(static_cast<double>(*value), option.least);
  } else {
    given = fields.number(name, least, most);
  }
  if (given) option.set(sampler, *given);
}

// Names that all dialects share.
void read_common(Fields& fields, SamplerOptions& sampler) {
  for (const SamplingOption& option : kSamplingOptions) {
    read_option(fields, option.name, option, sampler);
    if (option.alias != nullptr) read_option(fields, option.alias, option, sampler);
  }
  if (const auto breakers = fields.texts("dry_sequence_breakers", 64)) sampler.dry_sequence_breakers = *breakers;
  if (const auto seed =
          fields.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()))
    sampler.seed = seed_of(*seed);
}

float bias_of(const Fields& fields, const Json& value) {
  if (value.is_boolean() && !value.get<bool>()) return -std::numeric_limits<float>::infinity();
  if (!value.is_number()) fields.refuse("logit_bias", fmt::format("expected a number, got {}", kind_of(value)));
  const double bias = value.get<double>();
  if (!(std::abs(bias) <= kMostBias))
    fields.refuse("logit_bias", fmt::format("{} is out of range, expected -100 to 100", value.dump()));
  return static_cast<float>(bias);
}

// {"id": bias}, or [[id, bias], ["text", bias], [id, false]] as llama.cpp has it.
void read_logit_bias(Fields& fields, const text::Tokenizer& tokenizer, SamplerOptions& sampler) {
  const Json* const given = fields.find("logit_bias");
  if (given == nullptr) return;
  const auto add = [&](int64_t id, float bias) {
    if (id < 0 || id >= tokenizer.size())
      fields.refuse("logit_bias",
                    fmt::format("token {} is outside of the vocabulary of {} tokens", id, tokenizer.size()));
    sampler.logit_bias.emplace_back(static_cast<int32_t>(id), bias);
  };
  if (given->is_object()) {
    for (const auto& [key, value] : given->items()) {
      int64_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size())
        fields.refuse("logit_bias", fmt::format("'{}' is not a token id", key));
      add(id, bias_of(fields, value));
    }
    return;
  }
  if (!given->is_array()) fields.refuse("logit_bias", fmt::format("expected an object, got {}", kind_of(*given)));
  for (const Json& pair : *given) {
    if (!pair.is_array() || pair.size() != 2) fields.refuse("logit_bias", "expected pairs of a token and a bias");
    const float bias = bias_of(fields, pair[1]);
    if (pair[0].is_string()) {
      const text::EncodeOptions plain{.add_special = false, .parse_special = false};
      for (const int32_t id : tokenizer.encode(pair[0].get_ref<const std::string&>(), plain)) add(id, bias);
    } else if (pair[0].is_number_integer()) {
      add(pair[0].get<int64_t>(), bias);
    } else {
      fields.refuse("logit_bias", "expected a token id or a text");
    }
  }
}

// PARAMETER lines of a Modelfile, without those that do not concern a request.
void apply_parameters(const LoadedModel& model, GenerateOptions& options) {
  if (model.layers == nullptr) return;
  Json parameters = Json::object();
  for (const auto& [name, value] : model.layers->parameters.items()) {
    if (name != "stop") parameters[name] = value;
  }
  Fields fields(parameters);
  read_common(fields, options.sampler);
  const auto stop = model.layers->parameters.find("stop");
  if (stop == model.layers->parameters.end()) return;
  for (const Json& text : stop->is_array() ? *stop : Json::array({*stop})) {
    if (text.is_string() && !text.get_ref<const std::string&>().empty())
      options.stop.push_back(text.get<std::string>());
  }
}

void apply_model_defaults(const LoadedModel& model, SamplerOptions& sampler) {
  for (const SamplingDefault& setting : model.generator->sampling_defaults().values) setting.apply(sampler);
}

}  // namespace

void read_stops(Fields& fields, const char* name, std::vector<std::string>& stops) {
  const auto given = fields.texts(name, kMostStops);
  if (!given) return;
  stops.clear();
  for (const std::string& stop : *given) {
    // Characters, as in the schema of /openapi.json: all bytes but those that continue a character.
    const auto characters = std::ranges::count_if(stop, [](char byte) { return (byte & 0xC0) != 0x80; });
    if (static_cast<size_t>(characters) > kLongestStop)
      fields.refuse(name, fmt::format("a text is longer than {} characters", kLongestStop));
    if (stop.empty()) fields.refuse(name, "a text is empty");
    stops.push_back(stop);
  }
}

uint64_t seed_of(int64_t seed) {
  constexpr uint64_t kZero = uint64_t{1} << 63;  // the sampler takes 0 for a random one
  if (seed < 0) return 0;
  return seed == 0 ? kZero : static_cast<uint64_t>(seed);
}

SamplerOptions openai_defaults(const LoadedModel& model) {
  SamplerOptions sampler{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .penalty_window = -1};
  apply_model_defaults(model, sampler);
  return sampler;
}

SamplerOptions llama_defaults(const LoadedModel& model) {
  SamplerOptions sampler{.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
  apply_model_defaults(model, sampler);
  return sampler;
}

GenerateOptions ollama_defaults(const LoadedModel& model) {
  GenerateOptions options{.sampler = {.temperature = 0.8f, .top_k = 40, .top_p = 0.9f, .min_p = 0}};
  apply_parameters(model, options);
  return options;
}

Json sampler_values(const SamplerOptions& sampler) {
  Json values;
  for (const SamplingOption& option : kSamplingOptions) {
    if (option.is_integer()) {
      values[option.name] = sampler.*option.integer;
    } else {
      values[option.name] = sampler.*option.number;
    }
  }
  return values;
}

GenerateOptions read_openai_sampling(Fields& fields, const LoadedModel& model) {
  return read_sampling(fields, model, openai_defaults(model));
}

GenerateOptions read_sampling(Fields& fields, const LoadedModel& model, SamplerOptions defaults) {
  GenerateOptions options{.sampler = std::move(defaults)};
  apply_parameters(model, options);
  read_common(fields, options.sampler);
  read_stops(fields, "stop", options.stop);
  const text::Tokenizer& tokenizer = model.generator->tokenizer();
  read_logit_bias(fields, tokenizer, options.sampler);
  if (const Json* const ids = fields.array("stop_token_ids", kMostStops)) {
    for (const Json& id : *ids) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= tokenizer.size())
        fields.refuse("stop_token_ids", fmt::format("{} is not a token id", id.dump()));
      options.stop.emplace_back(tokenizer.piece(id.get<int32_t>()));
    }
  }
  options.ignore_end = fields.boolean_or("ignore_eos", false);
  options.min_tokens = static_cast<int>(fields.integer("min_tokens", 0, kMostTokens).value_or(0));
  return options;
}

int read_top_logprobs(Fields& fields) {
  const bool wants = fields.boolean_or("logprobs", false);
  const auto top = fields.integer("top_logprobs", 0, kMostTopLogprobs);
  if (top && !wants) fields.refuse("top_logprobs", "needs \"logprobs\": true");
  return wants ? static_cast<int>(top.value_or(0)) : -1;
}

void check_min_tokens(const Fields& fields, const GenerateOptions& options) {
  if (options.max_tokens >= 0 && options.min_tokens > options.max_tokens)
    fields.refuse("min_tokens", fmt::format("{} is more than the largest number of tokens, {}", options.min_tokens,
                                            options.max_tokens));
}

GenerateOptions read_ollama_options(std::optional<Fields> options, const LoadedModel& model, int64_t& context) {
  GenerateOptions result = ollama_defaults(model);
  context = 0;
  if (!options) return result;
  read_common(*options, result.sampler);
  read_stops(*options, "stop", result.stop);
  if (const auto count = options->integer("num_predict", -2, kMostTokens))
    result.max_tokens = *count < 0 ? -1 : static_cast<int>(*count);
  context = options->integer("num_ctx", 0, kMostTokens).value_or(0);
  return result;
}

void refuse_unsupported(Fields& fields) {
  if (const Json* const modalities = fields.find("modalities");
      modalities != nullptr && *modalities != Json::array({"text"}))
    throw unsupported("modalities", "only [\"text\"] is supported");
  for (const char* const name :
       {"audio", "web_search_options", "guided_whitespace_pattern", "chat_template", "previous_response_id"}) {
    if (fields.has(name)) throw unsupported(name, "is not supported");
  }
  fields.ignore({"function_call", "store", "user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
                 "prediction", "verbosity", "cache_prompt", "id_slot", "skip_special_tokens", "add_generation_prompt",
                 "return_progress", "timings_per_token", "ttl", "moderation", "guided_decoding_backend", "n_probs"});
}

}  // namespace gabbro::server
