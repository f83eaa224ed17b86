#include "src/base/json_node.h"

#include <cmath>

#include "src/base/error.h"
#include "src/base/text_file.h"

namespace gabbro {
namespace {

constexpr int kMostDepth = 100;

// Values are freed and visited by recursion, so nesting is bounded before anything is parsed.
void check_depth(std::string_view text, const std::string& name) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMostDepth) throw bad_input("{}: is nested deeper than {}", name, kMostDepth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

}  // namespace

Json parse_sorted_json(std::string_view text, const std::string& name) {
  text = without_byte_order_mark(text, name);
  check_depth(text, name);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    require_utf8(text, name);
    throw Error(ErrorCode::kBadInput, fmt::format("{}: no JSON at byte {}", name, error.byte),
                error.byte > text.size() ? "its download may be unfinished: fetch the file again" : "");
  } catch (const Json::out_of_range&) {
    throw bad_input("{}: a number is out of range", name);
  }
}

void JsonNode::refuse(std::string_view wanted) const {
  throw bad_input("{}: is of type {}, not {}", path_, value_->type_name(), wanted);
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!value_->is_object()) refuse("object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return {};
  return JsonNode(*found, path_ + "." + std::string(key));
}

JsonNode JsonNode::at(std::string_view key) const {
  if (auto found = find(key)) return *found;
  throw bad_input("{}.{}: is missing", path_, key);
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!value_->is_array()) refuse("array");
  std::vector<JsonNode> out;
  out.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) out.emplace_back((*value_)[i], fmt::format("{}[{}]", path_, i));
  return out;
}

const std::string& JsonNode::string() const {
  if (!value_->is_string()) refuse("string");
  return value_->get_ref<const std::string&>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) refuse("boolean");
  return value_->get<bool>();
}

int64_t JsonNode::integer(int64_t least, int64_t most) const {
  if (!value_->is_number_integer()) refuse("integer");
  const bool fits = !value_->is_number_unsigned() || value_->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  const int64_t number = fits ? value_->get<int64_t>() : INT64_MAX;
  if (!fits || number < least || number > most)
    throw bad_input("{}: {} is not in [{}, {}]", path_, value_->dump(), least, most);
  return number;
}

double JsonNode::number() const {
  if (!value_->is_number()) refuse("number");
  const double number = value_->get<double>();
  if (!std::isfinite(number)) throw bad_input("{}: is not a finite number", path_);
  return number;
}

std::string JsonNode::string_or(std::string_view key, std::string_view other) const {
  const auto found = find(key);
  return found ? found->string() : std::string(other);
}

bool JsonNode::boolean_or(std::string_view key, bool other) const {
  const auto found = find(key);
  return found ? found->boolean() : other;
}

}  // namespace gabbro
