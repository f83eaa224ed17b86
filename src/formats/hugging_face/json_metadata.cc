#include "src/formats/hugging_face/json_metadata.h"

#include <nlohmann/json.hpp>

namespace gabbro {

void JsonMetadata::add(const nlohmann::ordered_json& document, const std::string& prefix) {
  for (const auto& [key, value] : document.items()) {
    const std::string name = prefix + key;
    const bool is_number = value.is_object() && value.size() == 1 && value.contains("__float__");  // see parse_json
    if (value.is_object() && !is_number) {
      add(value, name + ".");
    } else if (!value.is_null() && !values_.contains(name)) {
      order_.push_back(&*values_.emplace(name, &value).first);
    }
  }
}

void JsonMetadata::finish(const std::string& path) {
  std::vector<MetadataField> fields;
  for (const auto* entry : order_) fields.push_back({entry->first, MetadataValue(*entry->second)});
  set_path(path);
  set_fields(std::move(fields), path);
}

}  // namespace gabbro
