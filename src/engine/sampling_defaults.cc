#include "src/engine/sampling_defaults.h"

#include <cmath>
#include <optional>

#include "src/base/error.h"
#include "src/models/config/generation_fields.h"

namespace gabbro {
namespace {

std::optional<double> number_of(const MetadataValue& value) {
  if (const auto number = value.as<double>()) return number;
  if (const auto integer = value.as<int64_t>()) return static_cast<double>(*integer);
  return std::nullopt;
}

// Appends the value of `key`, or a warning if it is outside its range. `described` stands for a value of another type.
void add_value(const std::string& path, std::string_view key, const SamplingOption& option,
               std::optional<double> number, const std::string& described, SamplingDefaults& defaults) {
  // llama.cpp turns off top-k by 0 and below.
  if (number && option.integer == &SamplerOptions::top_k && *number < 0) number = 0;
  const bool whole = !option.is_integer() || (number && *number == std::floor(*number));
  const auto shown = [&](double value) {
    return option.is_integer() ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  };
  if (number && whole && *number >= option.least && *number <= option.most) {
    defaults.values.push_back({&option, *number});
    return;
  }
  const std::string range = option.most == kUnbounded ? fmt::format("a whole number from {} on", option.least)
                                                      : fmt::format("{} to {}", option.least, option.most);
  defaults.warnings.push_back(
      fmt::format("{}: {} is {}, expected {}: not used", path, key, number ? shown(*number) : described, range));
}

SamplingDefaults defaults_of_folder(const Metadata& metadata) {
  llm::GenerationDefaults read = llm::read_generation_defaults(metadata);
  SamplingDefaults defaults{.values = {}, .warnings = std::move(read.warnings)};
  for (const auto& [option, name, value] : read.values) {
    // A GGUF file has it in f32.
    const double stored = option->is_integer() ? value : static_cast<double>(static_cast<float>(value));
    add_value(metadata.path(), "generation_config." + name, *option, stored, "", defaults);
  }
  return defaults;
}

}  // namespace

SamplingDefaults read_sampling_defaults(const Checkpoint& checkpoint) {
  const Metadata& file = checkpoint.metadata();
  if (checkpoint.layout() == CheckpointLayout::kHuggingFace) return defaults_of_folder(file);
  SamplingDefaults defaults;
  for (const SamplingOption& option : kSamplingOptions) {
    if (option.gguf == nullptr) continue;
    const std::string key = "general.sampling." + std::string(option.gguf);
    if (const MetadataValue* value = file.find(key))
      add_value(file.path(), key, option, number_of(*value), value->describe(), defaults);
  }
  return defaults;
}

}  // namespace gabbro
