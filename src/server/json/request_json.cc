#include "src/server/json/request_json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace gabbro::server {
namespace {

// Builds a document, and refuses it as soon as it passes a limit.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  Json take() { return std::move(document_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool string(string_t& text) override {
    if (text.find('\0') != text.npos) throw ApiError(400, "a text of the request has a NUL character");
    return put(std::move(text));
  }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (name.find('\0') != name.npos) throw ApiError(400, "a name of the request has a NUL character");
    Json& object = *open_.back();
    member_ = &object[name];  // of two with one name the last one counts
    // The number of names that came, also those that came twice.
    if (++members_.back() > limits_.members)
      throw ApiError(400, fmt::format("an object of the request has more than {} members", limits_.members));
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw ApiError(400, fmt::format("the body is not JSON: error at byte {}", position));
  }

 private:
  // The place of the next value. Nothing is added before it around an open value, so that open_ stays valid.
  Json& place() {
    if (open_.empty()) return document_;
    if (open_.back()->is_array()) return open_.back()->emplace_back();
    return *member_;
  }
  bool put(Json value) {
    if (++elements_ > limits_.elements)
      throw ApiError(400, fmt::format("the request has more than {} values", limits_.elements));
    place() = std::move(value);
    return true;
  }
  bool open(Json container) {
    if (open_.size() >= limits_.depth)
      throw ApiError(400, fmt::format("the request nests deeper than {} levels", limits_.depth));
    if (++elements_ > limits_.elements)
      throw ApiError(400, fmt::format("the request has more than {} values", limits_.elements));
    Json& at = place();
    at = std::move(container);
    open_.push_back(&at);
    members_.push_back(0);
    return true;
  }
  bool close() {
    open_.pop_back();
    members_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  Json document_;
  std::vector<Json*> open_;  // objects and arrays that are not whole, the outermost first
  std::vector<size_t> members_;
  Json* member_ = nullptr;  // of the last open object
  size_t elements_ = 0;
};

}  // namespace

Json parse_request(std::string_view body, const JsonLimits& limits) {
  Builder builder(limits);
  Json::sax_parse(body, &builder);
  Json document = builder.take();
  if (!document.is_object()) throw ApiError(400, "the body is not a JSON object");
  return document;
}

const char* kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

Fields::Fields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {
  if (!object.is_object()) {
    const std::string name = path_.empty() ? "body" : path_;
    throw invalid_field(name, fmt::format("expected an object, got {}", kind_of(object)));
  }
  if (!path_.empty()) path_ += ".";
}

void Fields::refuse(const std::string& name, const std::string& message) const {
  throw invalid_field(path_of(name), message);
}

const Json* Fields::find(const std::string& name) {
  known_.insert(name);
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> Fields::text(const std::string& name) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(name, fmt::format("expected a string, got {}", kind_of(*value)));
  return value->get<std::string>();
}

std::string Fields::required_text(const std::string& name) {
  auto value = text(name);
  if (!value)
    throw ApiError(400, fmt::format("{}: is required", path_of(name)), "missing_required_parameter", path_of(name));
  return std::move(*value);
}

std::optional<bool> Fields::boolean(const std::string& name) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(name, fmt::format("expected true or false, got {}", kind_of(*value)));
  return value->get<bool>();
}

std::optional<int64_t> Fields::integer(const std::string& name, int64_t least, int64_t most) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse(name, fmt::format("expected a whole number, got {}", kind_of(*value)));
  int64_t result = 0;
  bool fits = true;
  if (value->is_number_unsigned()) {
    const auto number = value->get<uint64_t>();
    fits = number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    result = static_cast<int64_t>(number);
  } else if (value->is_number_integer()) {
    result = value->get<int64_t>();
  } else {
    const double number = value->get<double>();
    if (number != std::floor(number)) refuse(name, "expected a whole number");
    fits = std::abs(number) < 9e15;
    result = fits ? static_cast<int64_t>(number) : 0;
  }
  if (!fits || result < least || result > most)
    refuse(name, fmt::format("{} is out of range, expected {} to {}", value->dump(), least, most));
  return result;
}

std::optional<double> Fields::number(const std::string& name, double least, double most) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse(name, fmt::format("expected a number, got {}", kind_of(*value)));
  const double result = value->get<double>();
  if (!(result >= least && result <= most))
    refuse(name, fmt::format("{} is out of range, expected {} to {}", value->dump(), least, most));
  return result;
}

const Json* Fields::array(const std::string& name, size_t most) {
  const Json* const value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) refuse(name, fmt::format("expected an array, got {}", kind_of(*value)));
  if (value->size() > most) refuse(name, fmt::format("has {} elements, more than {}", value->size(), most));
  return value;
}

std::optional<Fields> Fields::object(const std::string& name) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  return Fields(*value, path_of(name));
}

std::optional<std::vector<std::string>> Fields::texts(const std::string& name, size_t most) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::vector{value->get<std::string>()};
  if (!value->is_array())
    refuse(name, fmt::format("expected a string or an array of strings, got {}", kind_of(*value)));
  if (value->size() > most) refuse(name, fmt::format("has {} elements, more than {}", value->size(), most));
  std::vector<std::string> texts;
  for (const Json& element : *value) {
    if (!element.is_string())
      refuse(fmt::format("{}[{}]", name, texts.size()), fmt::format("expected a string, got {}", kind_of(element)));
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

void Fields::ignore(std::initializer_list<const char*> names) {
  for (const char* const name : names) known_.insert(name);
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_->items()) {
    if (!known_.contains(name)) names.push_back(path_ + name);
  }
  return names;
}

}  // namespace gabbro::server
