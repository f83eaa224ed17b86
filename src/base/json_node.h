// A value of a JSON document with its path, so that every complaint names the place.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro {

using Json = nlohmann::json;  // sorted keys: objects of hundreds of thousands of entries are looked up quickly

// Parses a file; `name` is for messages. Throws bad_input: not JSON, or nested deeper than 100.
Json parse_sorted_json(std::string_view text, const std::string& name);

// A view; the document outlives it. All accessors throw bad_input that names the path for values of another type.
class JsonNode {
 public:
  JsonNode(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const Json& value() const { return *value_; }
  const std::string& path() const { return path_; }
  bool is_null() const { return value_->is_null(); }
  bool is_object() const { return value_->is_object(); }
  bool is_string() const { return value_->is_string(); }
  bool is_array() const { return value_->is_array(); }

  // A field of an object; throws where it is missing.
  JsonNode at(std::string_view key) const;
  // Nothing where it is missing or null.
  std::optional<JsonNode> find(std::string_view key) const;
  // The elements of an array.
  std::vector<JsonNode> elements() const;

  const std::string& string() const;
  bool boolean() const;
  int64_t integer(int64_t least, int64_t most) const;
  double number() const;  // finite

  std::string string_or(std::string_view key, std::string_view other) const;
  bool boolean_or(std::string_view key, bool other) const;

  [[noreturn]] void refuse(std::string_view wanted) const;  // "PATH: is a number, not WANTED"

 private:
  const Json* value_;
  std::string path_;
};

}  // namespace gabbro
