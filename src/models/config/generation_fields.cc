#include "src/models/config/generation_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

namespace gabbro::llm {
namespace {

// Names of transformers, and those that llama.cpp's converter reads there.
constexpr GenerationField kFields[] = {
    {"temperature", "general.sampling.temp"},
    {"top_k", "general.sampling.top_k", true},
    {"top_p", "general.sampling.top_p"},
    {"min_p", "general.sampling.min_p"},
    {"repetition_penalty", "general.sampling.penalty_repeat"},
    {"penalty_repeat", "general.sampling.penalty_repeat"},
    {"penalty_last_n", "general.sampling.penalty_last_n", true},
    {"xtc_probability", "general.sampling.xtc_probability"},
    {"xtc_threshold", "general.sampling.xtc_threshold"},
    {"mirostat", "general.sampling.mirostat", true},
    {"mirostat_tau", "general.sampling.mirostat_tau"},
    {"mirostat_eta", "general.sampling.mirostat_eta"},
};

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
  for (const GenerationField& field : kFields) {
    const bool taken = std::ranges::any_of(
        defaults.values, [&](const auto& value) { return std::string_view(value.first->gguf) == field.gguf; });
    if (taken) continue;
    if (greedy && &field == &kFields[0]) {
      defaults.values.emplace_back(&field, 0.0);
      continue;
    }
    const MetadataValue* const value = metadata.find("generation_config." + std::string(field.name));
    if (value == nullptr) continue;
    if (const auto number = number_of(*value, field.whole)) {
      defaults.values.emplace_back(&field, *number);
    } else {
      defaults.warnings.push_back(fmt::format("{}: generation_config.json: {} is {}, not {}: not used", metadata.path(),
                                              field.name, value->describe(), field.whole ? "an integer" : "a number"));
    }
  }
  return defaults;
}

}  // namespace gabbro::llm
