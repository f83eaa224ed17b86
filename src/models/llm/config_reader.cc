#include "src/models/llm/config_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"

namespace gabbro::llm {

namespace {

// The range of a number as an error has it, without a bound that no number in use reaches.
std::string range(float least, float most) {
  constexpr float kUnbounded = 1e30f;
  if (most < kUnbounded) return fmt::format("{} to {}", least, most);
  return fmt::format("{} or more", least);
}

}  // namespace

constexpr const char *kTextConfig = "text_config.", *kTextModelType = "text_config.model_type";

namespace {

// GGUF files that hold something else (llama.cpp's general.type).
void refuse_other_types(const Checkpoint& checkpoint) {
  struct Type {
    std::string_view name;
    const char *what, *hint;
  };
  constexpr Type kTypes[] = {
      {"adapter", "a LoRA adapter", "name the model that it was made for, and the adapter by --lora"},
      {"imatrix", "an importance matrix", "gabbro convert takes it by --imatrix"},
      {"mmproj", "the encoder of pictures or sound of a model", "name the file of the language model"},
  };
  const std::string_view type = checkpoint.metadata().string_or("general.type", "");
  for (const Type& known : kTypes) {
    if (type == known.name)
      throw Error(ErrorCode::kBadInput, fmt::format("{}: is {}, not a model", checkpoint.path(), known.what),
                  known.hint);
  }
}

}  // namespace

std::string architecture_of(const Checkpoint& checkpoint) {
  const bool gguf = checkpoint.layout() == CheckpointLayout::kGguf;
  if (gguf) refuse_other_types(checkpoint);
  const bool nested = !gguf && checkpoint.metadata().has(kTextModelType);
  return std::string(checkpoint.metadata().require_string(gguf     ? "general.architecture"
                                                          : nested ? kTextModelType
                                                                   : "model_type"));
}

ConfigReader::ConfigReader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
  if (!is_hugging_face()) {
    prefix_ = architecture_of(checkpoint) + ".";
  } else if (checkpoint.metadata().has(kTextModelType)) {
    prefix_ = kTextConfig;
  }
}

std::string ConfigReader::key(FieldName name) const {
  const char* own = is_hugging_face() ? name.hugging_face : name.gguf;
  if (own == nullptr) return "";
  std::string first;
  for (std::string_view rest = own; !rest.empty();) {
    const size_t end = std::min(rest.find('|'), rest.size());
    std::string candidate = prefix_ + std::string(rest.substr(0, end));
    if (checkpoint_.metadata().has(candidate)) return candidate;
    if (first.empty()) first = std::move(candidate);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return first;
}

bool ConfigReader::has(FieldName name) const { return checkpoint_.metadata().has(key(name)); }

int64_t ConfigReader::size(FieldName name, int64_t most) const { return bounded(name, integer(name), 1, most); }

int64_t ConfigReader::size_or(FieldName name, int64_t other, int64_t least, int64_t most) const {
  return has(name) ? bounded(name, integer(name), least, most) : other;
}

float ConfigReader::number_or(FieldName name, float other, float least, float most) const {
  const float value = checkpoint_.metadata().f32_or(key(name), other);
  if (!(value >= least && value <= most)) refuse(name, fmt::format("is {}, expected {}", value, range(least, most)));
  return value;
}

std::string ConfigReader::text_or(FieldName name, const char* other) const {
  return std::string(checkpoint_.metadata().string_or(key(name), other));
}

bool ConfigReader::flag_or(FieldName name, bool other) const {
  return checkpoint_.metadata().bool_or(key(name), other);
}

std::vector<std::string> ConfigReader::texts(FieldName name) const {
  if (!has(name)) return {};
  const std::vector<std::string_view> values = checkpoint_.metadata().strings(key(name));
  return {values.begin(), values.end()};
}

std::vector<int64_t> ConfigReader::sizes(FieldName name) const {
  const MetadataValue* const value = checkpoint_.metadata().find(key(name));
  if (value == nullptr) return {};
  if (!value->is_array()) return {integer(name)};
  if (const auto flags = value->as_vector<bool>(); flags && !flags->empty()) return {flags->begin(), flags->end()};
  const std::vector<int32_t> values = checkpoint_.metadata().i32s(key(name));
  return {values.begin(), values.end()};
}

std::vector<int64_t> ConfigReader::list_or_empty(FieldName name) const {
  const MetadataValue* const value = checkpoint_.metadata().find(key(name));
  return value != nullptr && value->is_array() ? sizes(name) : std::vector<int64_t>();
}

std::vector<float> ConfigReader::numbers(FieldName name, int64_t count, float least, float most) const {
  std::vector<float> values = checkpoint_.metadata().f32s(key(name));
  if (std::ssize(values) != count) refuse(name, fmt::format("has {} numbers, expected {}", values.size(), count));
  for (const float value : values) {
    if (!(value >= least && value <= most)) refuse(name, fmt::format("has {}, expected {}", value, range(least, most)));
  }
  return values;
}

void ConfigReader::refuse(FieldName name, const std::string& why) const {
  throw bad_input("{}: field '{}' {}", checkpoint_.path(), key(name), why);
}

// A number, or an array of one equal number for each layer, as some converters write it. Layers of another kind have 0.
int64_t ConfigReader::integer(FieldName name) const {
  const Metadata& metadata = checkpoint_.metadata();
  const MetadataValue* value = metadata.find(key(name));
  if (value == nullptr) return metadata.require_u32(key(name));
  if (!value->is_array()) {
    if (const auto number = value->as<int64_t>()) return *number;
    if (const auto number = value->as<uint64_t>()) refuse(name, fmt::format("is {}, which is too large", *number));
    return metadata.require_u32(key(name));
  }
  const uint32_t layers = metadata.require_u32(key({"block_count", "num_hidden_layers|n_layer"}));
  std::vector<uint32_t> values = metadata.u32_per_layer(key(name), layers);
  std::erase(values, 0u);
  for (const uint32_t other : values) {
    if (other != values.front())
      refuse(name, fmt::format("differs between layers ({} and {}), which is not supported", values.front(), other));
  }
  if (values.empty()) refuse(name, "has no number above 0");
  return values.front();
}

int64_t ConfigReader::bounded(FieldName name, int64_t value, int64_t least, int64_t most) const {
  if (value < least || value > most) refuse(name, fmt::format("is {}, expected {} to {}", value, least, most));
  return value;
}

}  // namespace gabbro::llm
