#include "src/models/config/config_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/models/config/config_class.h"

namespace gabbro::llm {

namespace {

// The range of a number as an error has it, without a bound that no number in use reaches.
std::string range(float least, float most) {
  constexpr float kUnbounded = 1e30f;
  if (most < kUnbounded) return fmt::format("{} to {}", least, most);
  return fmt::format("{} or more", least);
}

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
  if (checkpoint.config() != nullptr) {
    std::string model_type = text_fields_of(*checkpoint.config(), checkpoint.path()).model_type;
    if (!model_type.empty()) return model_type;
  }
  const bool gguf = checkpoint.layout() == CheckpointLayout::kGguf;
  if (gguf) refuse_other_types(checkpoint);
  return std::string(checkpoint.metadata().require_string(gguf ? "general.architecture" : "model_type"));
}

ConfigReader::ConfigReader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
  if (!is_hugging_face()) {
    prefix_ = architecture_of(checkpoint) + ".";
    return;
  }
  if (checkpoint.config() == nullptr) return;
  const TextFields text = text_fields_of(*checkpoint.config(), checkpoint.path());
  prefix_ = text.prefix;
  if (const ConfigClass* of = find_config_class(text.model_type))
    class_ = std::make_shared<ClassConfig>(*of, *text.fields, prefix_, checkpoint.path());
}

const Metadata& ConfigReader::metadata() const { return class_ ? class_->metadata() : checkpoint_.metadata(); }

std::string ConfigReader::key(FieldName name) const {
  const char* own = is_hugging_face() ? name.hugging_face : name.gguf;
  if (own == nullptr) return "";
  std::string first;
  for (std::string_view rest = own; !rest.empty();) {
    const size_t end = std::min(rest.find('|'), rest.size());
    const std::string_view one = rest.substr(0, end);
    std::string candidate = class_ ? class_->key_of(one) : prefix_ + std::string(one);
    if (metadata().has(candidate)) return candidate;
    if (first.empty()) first = std::move(candidate);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return first;
}

bool ConfigReader::has(FieldName name) const { return metadata().has(key(name)); }

bool ConfigReader::is_null(FieldName name) const { return class_ && !has(name) && class_->is_null(key(name)); }

int64_t ConfigReader::size(FieldName name, int64_t most) const { return bounded(name, integer(name), 1, most); }

int64_t ConfigReader::size_or(FieldName name, int64_t other, int64_t least, int64_t most) const {
  if (is_null(name) && class_->lost_default(key(name))) refuse(name, "is null");
  return has(name) ? bounded(name, integer(name), least, most) : other;
}

int64_t ConfigReader::index_or(FieldName name, int64_t other) const {
  const MetadataValue* const value = metadata().find(key(name));
  if (value == nullptr) return other;
  const std::optional<int64_t> index = value->as<int64_t>();
  if (!index) refuse(name, fmt::format("is {}, expected an integer", value->describe()));
  return *index;
}

float ConfigReader::number_or(FieldName name, float other, float least, float most) const {
  if (other != 0 && is_null(name)) refuse(name, "is null");
  const float value = metadata().f32_or(key(name), other);
  if (!(value >= least && value <= most)) refuse(name, fmt::format("is {}, expected {}", value, range(least, most)));
  return value;
}

std::string ConfigReader::text_or(FieldName name, const char* other) const {
  return std::string(metadata().string_or(key(name), other));
}

bool ConfigReader::flag_or(FieldName name, bool other) const {
  return metadata().bool_or(key(name), other && !is_null(name));
}

std::vector<std::string> ConfigReader::texts(FieldName name) const {
  if (!has(name)) return {};
  const std::vector<std::string_view> values = metadata().strings(key(name));
  return {values.begin(), values.end()};
}

std::vector<int64_t> ConfigReader::sizes(FieldName name) const {
  const MetadataValue* const value = metadata().find(key(name));
  if (value == nullptr) return {};
  if (!value->is_array()) return {integer(name)};
  if (const auto flags = value->as_vector<bool>(); flags && !flags->empty()) return {flags->begin(), flags->end()};
  const std::vector<int32_t> values = metadata().i32s(key(name));
  return {values.begin(), values.end()};
}

std::vector<MetadataValue> ConfigReader::values(FieldName name) const {
  const MetadataValue* const value = metadata().find(key(name));
  return value != nullptr ? value->elements() : std::vector<MetadataValue>();
}

std::vector<int64_t> ConfigReader::list_or_empty(FieldName name) const {
  const MetadataValue* const value = metadata().find(key(name));
  return value != nullptr && value->is_array() ? sizes(name) : std::vector<int64_t>();
}

std::vector<float> ConfigReader::numbers(FieldName name, int64_t count, float least, float most) const {
  std::vector<float> values = metadata().f32s(key(name));
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
  const MetadataValue* const value = metadata().find(key(name));
  if (value == nullptr) return metadata().require_u32(key(name));
  if (!value->is_array()) {
    if (const auto number = value->as<int64_t>()) return *number;
    if (const auto number = value->as<uint64_t>()) refuse(name, fmt::format("is {}, which is too large", *number));
    return metadata().require_u32(key(name));
  }
  const uint32_t layers = metadata().require_u32(key({"block_count", "num_hidden_layers|n_layer"}));
  std::vector<uint32_t> values = metadata().u32_per_layer(key(name), layers);
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
