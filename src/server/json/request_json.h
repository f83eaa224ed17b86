// The JSON of a request: parsed within bounds, and read field by field. All functions throw ApiError 400 that names the
// field.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/server/api_error.h"

namespace gabbro::server {

struct JsonLimits {
  size_t depth = 64;
  size_t members = 10'000;      // of one object
  size_t elements = 1'000'000;  // values in all
};

// Parses an object. If members have the same name, the last one counts. Refuses invalid UTF-8, lone surrogates and NUL
// characters in texts. Refuses deep and large documents before they take memory.
Json parse_request(std::string_view body, const JsonLimits& limits = {});

// Reads the fields of an object. A field that is null counts as missing.
class Fields {
 public:
  explicit Fields(const Json& object, std::string path = {});

  const Json* find(const std::string& name);
  bool has(const std::string& name) { return find(name) != nullptr; }
  std::optional<std::string> text(const std::string& name);
  std::string required_text(const std::string& name);
  std::optional<bool> boolean(const std::string& name);
  bool boolean_or(const std::string& name, bool other) { return boolean(name).value_or(other); }
  // A whole number; 3.0 is one.
  std::optional<int64_t> integer(const std::string& name, int64_t least, int64_t most);
  std::optional<double> number(const std::string& name, double least, double most);
  const Json* array(const std::string& name, size_t most);
  std::optional<Fields> object(const std::string& name);
  // A text or a list of texts.
  std::optional<std::vector<std::string>> texts(const std::string& name, size_t most);
  // Fields that are accepted and change nothing.
  void ignore(std::initializer_list<const char*> names);

  // The names of fields that no function above has read.
  std::vector<std::string> unknown() const;
  std::string path_of(const std::string& name) const { return path_ + name; }
  [[noreturn]] void refuse(const std::string& name, const std::string& message) const;

 private:
  const Json* object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

// "a string", "a number", ... for messages.
const char* kind_of(const Json& value);

}  // namespace gabbro::server
