#include "src/models/config/generation_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace gabbro::llm {
namespace {

std::optional<double> number_of(const MetadataValue& value, bool whole) {
  std::optional<double> number = value.as<double>();
  if (const auto integer = value.as<int64_t>()) number = static_cast<double>(*integer);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  const bool fits = *number == std::floor(*number) && std::fabs(*number) <= INT32_MAX;
  return whole && !fits ? std::nullopt : number;
}

// Fields that change what transformers generates and that are not followed here, with the number that turns each off.
constexpr std::pair<const char*, double> kNotFollowed[] = {{"suppress_tokens", 0},
                                                           {"begin_suppress_tokens", 0},
                                                           {"bad_words_ids", 0},
                                                           {"force_words_ids", 0},
                                                           {"sequence_bias", 0},
                                                           {"stop_strings", 0},
                                                           {"min_length", 0},
                                                           {"min_new_tokens", 0},
                                                           {"no_repeat_ngram_size", 0},
                                                           {"encoder_no_repeat_ngram_size", 0},
                                                           {"epsilon_cutoff", 0},
                                                           {"eta_cutoff", 0},
                                                           {"penalty_alpha", 0},
                                                           {"encoder_repetition_penalty", 1},
                                                           {"guidance_scale", 1},
                                                           {"exponential_decay_length_penalty", 0},
                                                           {"num_beams", 1}};

// Empty: all fields are followed.
std::string fields_not_followed(const Metadata& metadata) {
  std::string names;
  for (const auto& [name, off] : kNotFollowed) {
    const MetadataValue* const value = metadata.find(std::string("generation_config.") + name);
    if (value == nullptr || (value->is_array() ? value->size() == 0 : number_of(*value, false) == off)) continue;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

}  // namespace

GenerationDefaults read_generation_defaults(const Metadata& metadata) {
  GenerationDefaults defaults;
  const MetadataValue* const samples = metadata.find("generation_config.do_sample");
  const bool greedy = samples != nullptr && samples->as<bool>() == false;
  for (const SamplingOption& option : kSamplingOptions) {
    if (option.gguf == nullptr && std::string_view(option.name) != "typical_p") continue;  // transformers has it
    if (greedy && option.number == &SamplerOptions::temperature) {
      defaults.values.push_back({&option, option.name, 0});
      continue;
    }
    std::set<std::string_view> seen;
    for (const char* const name : {option.name, option.alias, option.gguf}) {
      if (name == nullptr || !seen.insert(name).second) continue;
      const MetadataValue* const value = metadata.find("generation_config." + std::string(name));
      if (value == nullptr) continue;
      if (const auto number = number_of(*value, option.is_integer())) {
        defaults.values.push_back({&option, name, *number});
        break;
      }
      defaults.warnings.push_back(fmt::format("{}: generation_config.json: {} is {}, not {}: not used", metadata.path(),
                                              name, value->describe(),
                                              option.is_integer() ? "a whole number below 2^31" : "a number"));
    }
  }
  if (const std::string names = fields_not_followed(metadata); !names.empty()) {
    defaults.warnings.push_back(
        fmt::format("{}: generation_config.json: fields that are not followed: {}", metadata.path(), names));
  }
  return defaults;
}

}  // namespace gabbro::llm
