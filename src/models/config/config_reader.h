// The fields of a checkpoint's configuration, with bounds, by their names in either layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/formats/checkpoint.h"

namespace gabbro::llm {

class ClassConfig;  // config_class.h

// A field's name in GGUF, without the architecture's prefix, and in config.json; null: that layout does not have it.
// Alternatives are separated by "|"; the first that the file has is read. In a config.json whose model_type is a class
// of transformers, a field follows config_class.h: it has the class's default where it is missing, and never there
// where the class does not have it.
struct FieldName {
  const char* gguf;
  const char* hugging_face;
};

// Each throws bad_input that names the model and the field: missing, of another type, or out of bounds.
class ConfigReader {
 public:
  explicit ConfigReader(const Checkpoint& checkpoint);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  bool is_hugging_face() const { return checkpoint_.layout() == CheckpointLayout::kHuggingFace; }
  // The configuration class of transformers; null: not known, or GGUF.
  const ClassConfig* config_class() const { return class_.get(); }

  bool has(FieldName name) const;
  // The class has the field, and it is null; never a part of an object ("rope_parameters.factor").
  bool is_null(FieldName name) const;
  int64_t size(FieldName name, int64_t most) const;  // 1 to `most`
  // `other` where the field is missing or null. A number that is_null() is refused but where `other` is 0 (none), and a
  // flag that is_null() is false.
  int64_t size_or(FieldName name, int64_t other, int64_t least, int64_t most) const;
  int64_t index_or(FieldName name, int64_t other) const;  // may be below 0
  float number_or(FieldName name, float other, float least, float most) const;
  std::string text_or(FieldName name, const char* other) const;
  bool flag_or(FieldName name, bool other) const;
  std::vector<std::string> texts(FieldName name) const;      // empty where it is missing
  std::vector<int64_t> sizes(FieldName name) const;          // the same; of numbers or flags, or one number
  std::vector<MetadataValue> values(FieldName name) const;   // of a list of anything; empty where it is none
  std::vector<int64_t> list_or_empty(FieldName name) const;  // empty also where it is one number
  std::vector<float> numbers(FieldName name, int64_t count, float least, float most) const;
  [[noreturn]] void refuse(FieldName name, const std::string& why) const;

 private:
  const Metadata& metadata() const;
  std::string key(FieldName name) const;  // "" where the layout has no such field
  int64_t integer(FieldName name) const;
  int64_t bounded(FieldName name, int64_t value, int64_t least, int64_t most) const;

  const Checkpoint& checkpoint_;
  std::shared_ptr<const ClassConfig> class_;
  std::string prefix_;  // "llama." in GGUF; "text_config." in the config.json of a multimodal model
};

// general.architecture of GGUF, model_type of config.json or of the language model in it. Throws bad_input where it is
// missing.
std::string architecture_of(const Checkpoint& checkpoint);

}  // namespace gabbro::llm
