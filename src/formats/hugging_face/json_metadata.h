// Fields of JSON documents.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/formats/metadata.h"

namespace gabbro {

// Nested objects have the keys of their fields joined by a dot; null is not a field.
class JsonMetadata : public Metadata {
 public:
  // Fields that are there already stay unchanged. The document has to outlive this.
  void add(const nlohmann::ordered_json& document, const std::string& prefix);
  // Ends adding; `path` is for messages.
  void finish(const std::string& path);

 private:
  std::map<std::string, const nlohmann::ordered_json*> values_;
  std::vector<const std::pair<const std::string, const nlohmann::ordered_json*>*> order_;
};

}  // namespace gabbro
