#include "src/models/config/generation_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>

namespace gabbro::llm {
namespace {

std::optional<double> number_of(const MetadataValue& value, bool whole) {
  std::optional<double> number = value.as<double>();
  if (const auto integer = value.as<int64_t>()) number = static_cast<double>(*integer);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  const bool fits = *number == std::floor(*number) && std::fabs(*number) <= INT32_MAX;
  return whole && !fits ? std::nullopt : number;
}

}  // namespace

GenerationDefaults read_generation_defaults(const Metadata& metadata) {
  GenerationDefaults defaults;
  const MetadataValue* const samples = metadata.find("generation_config.do_sample");
  const bool greedy = samples != nullptr && samples->as<bool>() == false;
  for (const SamplingOption& option : kSamplingOptions) {
    if (option.gguf == nullptr) continue;
    if (greedy && option.number == &SamplerOptions::temperature) {
      defaults.values.push_back({&option, option.name, 0});
      continue;
    }
    for (const char* const name : {option.name, option.alias, option.gguf}) {
      const MetadataValue* const value =
          name != nullptr ? metadata.find("generation_config." + std::string(name)) : nullptr;
      if (value == nullptr) continue;
      if (const auto number = number_of(*value, option.is_integer())) {
        defaults.values.push_back({&option, name, *number});
        break;
      }
      defaults.warnings.push_back(fmt::format("{}: generation_config.json: {} is {}, not {}: not used", metadata.path(),
                                              name, value->describe(),
                                              option.is_integer() ? "an integer" : "a number"));
    }
  }
  return defaults;
}

}  // namespace gabbro::llm
