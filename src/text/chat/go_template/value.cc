#include "src/text/chat/go_template/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "src/base/error.h"

namespace gabbro::text::go {
namespace {

// strconv's shortest form, %v of a float64: an exponent below -4 and from 21 on.
std::string float_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  const double size = std::abs(value);
  std::array<char, 64> buffer{};
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e21);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  return {buffer.data(), end.ptr};
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\b') {
      out += "\\b";
    } else if (c == '\f') {
      out += "\\f";
    } else if (c < 0x20 || c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", c);
    } else if (text.substr(at, 3) == "\xe2\x80\xa8" || text.substr(at, 3) == "\xe2\x80\xa9") {
      out += text[at + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      at += 2;
    } else {
      out += static_cast<char>(c);
    }
  }
  out += '"';
}

// Returns whether a string of the value is input.
bool append_json(std::string& out, const Value& value) {
  bool input = false;
  if (const auto* text = value.as<MarkedText>()) {
    append_quoted(out, text->bytes());
    return text->has_input();
  }
  if (const List* list = value.list()) {
    if (list->empty() && value.is_json_list) {
      out += "null";
      return false;
    }
    out += '[';
    for (size_t i = 0; i < list->size(); ++i) {
      if (i > 0) out += ',';
      input = append_json(out, (*list)[i]) || input;
    }
    out += ']';
  } else if (const Object* object = value.object()) {
    out += '{';
    bool first = true;
    for (const Object::Field& field : object->fields) {
      if (field.json_name.empty()) continue;
      if (!first) out += ',';
      first = false;
      append_quoted(out, field.json_name);
      out += ':';
      input = append_json(out, *field.value) || input || !object->is_struct;
    }
    out += '}';
  } else if (value.is_nil()) {
    out += "null";
  } else if (const bool* flag = value.as<bool>()) {
    out += *flag ? "true" : "false";
  } else {
    out += printed(value).bytes();
  }
  return input;
}

MarkedText printed_list(const List& list) {
  MarkedText out("[");
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out.append(" ");
    out.append(list[i].is_nil() ? MarkedText("<nil>") : printed(list[i]));
  }
  out.append("]");
  return out;
}

MarkedText printed_map(const Object& map) {
  std::vector<const Object::Field*> fields;
  for (const Object::Field& field : map.fields) fields.push_back(&field);
  std::ranges::sort(fields, {}, [](const Object::Field* field) { return field->name; });
  MarkedText out("map[");
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out.append(" ");
    out.append(MarkedText::input(fields[i]->name));
    out.append(":");
    out.append(fields[i]->value->is_nil() ? MarkedText("<nil>") : printed(*fields[i]->value));
  }
  out.append("]");
  return out;
}

}  // namespace

void Object::add(const std::string& name, Value value) { add(name, name, std::move(value)); }

void Object::add(const std::string& name, const std::string& json_name, Value value) {
  fields.push_back({name, json_name, std::make_unique<Value>(std::move(value))});
}

const Value* Object::find(std::string_view name) const {
  for (const Field& field : fields) {
    if (field.name == name) return field.value.get();
  }
  return nullptr;
}

const char* type_name(const Value& value) {
  constexpr const char* kNames[] = {"nil", "bool", "int", "float64", "string", "slice"};
  if (const Object* object = value.object()) return object->is_struct ? "struct" : "map";
  return kNames[value.held.index()];
}

bool is_true(const Value& value) {
  if (const bool* flag = value.as<bool>()) return *flag;
  if (const auto* number = value.as<int64_t>()) return *number != 0;
  if (const auto* number = value.as<double>()) return *number != 0;
  if (const auto* text = value.as<MarkedText>()) return !text->empty();
  if (const List* list = value.list()) return !list->empty();
  if (const Object* object = value.object()) return object->is_struct || !object->fields.empty();
  return false;
}

MarkedText printed(const Value& value) {
  if (value.is_nil()) return std::string("<no value>");
  if (const auto* text = value.as<MarkedText>()) return *text;
  if (const bool* flag = value.as<bool>()) return std::string(*flag ? "true" : "false");
  if (const auto* number = value.as<int64_t>()) return fmt::format("{}", *number);
  if (const auto* number = value.as<double>()) return float_text(*number);
  if (const List* list = value.list()) return value.is_json_list ? marshaled(value) : printed_list(*list);
  const Object& object = *value.object();
  if (object.is_json) return marshaled(value);
  if (object.is_struct) throw bad_input("template: a struct is printed, which is not supported");
  return printed_map(object);
}

MarkedText marshaled(const Value& value) {
  std::string out;
  const bool input = append_json(out, value);
  return input ? MarkedText::input(std::move(out)) : MarkedText(std::move(out));
}

}  // namespace gabbro::text::go
