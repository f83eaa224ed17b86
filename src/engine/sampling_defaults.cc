#include "src/engine/sampling_defaults.h"

#include <cmath>
#include <limits>

#include "src/base/error.h"
#include "src/models/config/generation_fields.h"

namespace gabbro {
namespace {

constexpr double kMost = std::numeric_limits<int>::max();  // no bound of the setting

// The keys of llama.cpp; general.sampling.sequence, the order of the steps, has no counterpart here.
constexpr SamplingField kSamplingFields[] = {
    {"general.sampling.temp", "--temperature", &SamplerOptions::temperature, nullptr, 0, 100},
    {"general.sampling.top_k", "--top-k", nullptr, &SamplerOptions::top_k, 0, kMost},
    {"general.sampling.top_p", "--top-p", &SamplerOptions::top_p, nullptr, 0, 1},
    {"general.sampling.min_p", "--min-p", &SamplerOptions::min_p, nullptr, 0, 1},
    {"general.sampling.xtc_probability", "--xtc-probability", &SamplerOptions::xtc_probability, nullptr, 0, 1},
    {"general.sampling.xtc_threshold", "--xtc-threshold", &SamplerOptions::xtc_threshold, nullptr, 0, 1},
    {"general.sampling.penalty_last_n", "--penalty-window", nullptr, &SamplerOptions::penalty_window, -1, kMost},
    {"general.sampling.penalty_repeat", "--repeat-penalty", &SamplerOptions::repeat_penalty, nullptr, 0.01, 100},
    {"general.sampling.mirostat", "--mirostat", nullptr, &SamplerOptions::mirostat, 0, 2},
    {"general.sampling.mirostat_tau", "--mirostat-tau", &SamplerOptions::mirostat_tau, nullptr, 0, 100},
    {"general.sampling.mirostat_eta", "--mirostat-eta", &SamplerOptions::mirostat_eta, nullptr, 0, 1},
};

std::optional<double> number_of(const MetadataValue& value) {
  if (const auto number = value.as<double>()) return number;
  if (const auto integer = value.as<int64_t>()) return static_cast<double>(*integer);
  return std::nullopt;
}

// Takes the value of `key`, a number or what describe() says of another type.
void add_value(const std::string& path, std::string_view key, const SamplingField& field, std::optional<double> number,
               const std::string& described, SamplingDefaults& defaults) {
  // llama.cpp turns off top-k by 0 and below.
  if (number && field.integer == &SamplerOptions::top_k && *number < 0) number = 0;
  const bool whole = field.number != nullptr || (number && *number == std::floor(*number));
  const auto shown = [&](double value) {
    return field.number != nullptr ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  };
  if (number && whole && *number >= field.least && *number <= field.most) {
    defaults.values.push_back({&field, *number});
    return;
  }
  const std::string range = field.most == kMost ? fmt::format("a whole number from {} on", field.least)
                                                : fmt::format("{} to {}", field.least, field.most);
  defaults.warnings.push_back(
      fmt::format("{}: {} is {}, expected {}: not used", path, key, number ? shown(*number) : described, range));
}

SamplingDefaults defaults_of_folder(const Metadata& metadata) {
  llm::GenerationDefaults read = llm::read_generation_defaults(metadata);
  SamplingDefaults defaults{.values = {}, .warnings = std::move(read.warnings)};
  for (const SamplingField& field : kSamplingFields) {
    for (const auto& [said, value] : read.values) {
      if (std::string_view(said->gguf) != field.key) continue;
      // A GGUF file has it in f32.
      const double stored = said->whole ? value : static_cast<double>(static_cast<float>(value));
      add_value(metadata.path(), "generation_config." + std::string(said->name), field, stored, "", defaults);
    }
  }
  return defaults;
}

}  // namespace

std::span<const SamplingField> sampling_fields() { return kSamplingFields; }

void SamplingDefault::apply(SamplerOptions& options) const {
  if (field->number != nullptr) {
    options.*field->number = static_cast<float>(value);
  } else {
    options.*field->integer = static_cast<int>(value);
  }
}

SamplingDefaults read_sampling_defaults(const Checkpoint& checkpoint) {
  const Metadata& file = checkpoint.metadata();
  if (checkpoint.layout() == CheckpointLayout::kHuggingFace) return defaults_of_folder(file);
  SamplingDefaults defaults;
  for (const SamplingField& field : kSamplingFields) {
    if (const MetadataValue* value = file.find(field.key))
      add_value(file.path(), field.key, field, number_of(*value), value->describe(), defaults);
  }
  return defaults;
}

}  // namespace gabbro
