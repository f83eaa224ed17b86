#include "src/text/chat/go_template/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "src/base/error.h"

namespace gabbro::text::go {
namespace {

constexpr std::string_view kFunctionNames[] = {"and",   "or",   "not",     "len",    "index",       "slice",
                                               "eq",    "ne",   "lt",      "le",     "gt",          "ge",
                                               "print", "json", "println", "printf", "currentDate", "yesterdayDate"};

using Arguments = std::span<const Value>;

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw bad_input("template: {}: {}", name, why);
}

void require_count(const std::string& name, Arguments arguments, size_t least, size_t most) {
  if (arguments.size() < least || arguments.size() > most)
    refuse(name, fmt::format("{} arguments are the wrong number", arguments.size()));
}

Value length(Arguments arguments) {
  require_count("len", arguments, 1, 1);
  const Value& value = arguments[0];
  if (const auto* text = value.as<MarkedText>()) return static_cast<int64_t>(text->size());
  if (const List* list = value.list()) return static_cast<int64_t>(list->size());
  if (const Object* object = value.object(); object != nullptr && !object->is_struct)
    return static_cast<int64_t>(object->fields.size());
  refuse("len", fmt::format("{} has no length", type_name(value)));
}

size_t place_of(const std::string& name, const Value& value, size_t most) {
  const auto* number = value.as<int64_t>();
  if (number == nullptr) refuse(name, fmt::format("an index is {}, not int", type_name(value)));
  if (*number < 0 || static_cast<uint64_t>(*number) > most)
    refuse(name, fmt::format("index {} is out of range", *number));
  return static_cast<size_t>(*number);
}

Value index(Arguments arguments) {
  if (arguments.empty()) refuse("index", "an argument is missing");
  Value value = arguments[0];
  for (const Value& key : arguments.subspan(1)) {
    if (const List* list = value.list()) {
      const size_t place = place_of("index", key, list->size());
      if (place == list->size()) refuse("index", fmt::format("index {} is out of range", place));
      value = Value((*list)[place]);
    } else if (const auto* text = value.as<MarkedText>()) {
      const size_t place = place_of("index", key, text->size());
      if (place == text->size()) refuse("index", fmt::format("index {} is out of range", place));
      value = static_cast<int64_t>(static_cast<unsigned char>(text->bytes()[place]));
    } else if (const Object* object = value.object(); object != nullptr && !object->is_struct) {
      const auto* name = key.as<MarkedText>();
      if (name == nullptr) refuse("index", fmt::format("a key is {}, not string", type_name(key)));
      const Value* found = object->find(name->bytes());
      value = found != nullptr ? Value(*found) : Value();
    } else {
      refuse("index", fmt::format("{} has no elements", type_name(value)));
    }
  }
  return value;
}

Value slice(Arguments arguments) {
  require_count("slice", arguments, 1, 4);
  const List* list = arguments[0].list();
  const auto* text = arguments[0].as<MarkedText>();
  if (list == nullptr && text == nullptr) refuse("slice", fmt::format("{} has no slices", type_name(arguments[0])));
  const size_t size = list != nullptr ? list->size() : text->size();
  size_t places[3] = {0, size, size};
  for (size_t i = 1; i < arguments.size(); ++i) places[i - 1] = place_of("slice", arguments[i], size);
  if (places[0] > places[1] || places[1] > places[2]) refuse("slice", "the indices do not rise");
  if (text != nullptr) return text->substr(places[0], places[1] - places[0]);
  Value part(std::make_shared<const List>(list->begin() + static_cast<std::ptrdiff_t>(places[0]),
                                          list->begin() + static_cast<std::ptrdiff_t>(places[1])));
  part.is_json_list = arguments[0].is_json_list;
  return part;
}

// -1, 0, 1; nothing for values that differ and have no order.
std::optional<int> compare(const std::string& name, const Value& a, const Value& b) {
  const auto of = [](const auto& x, const auto& y) { return x < y ? -1 : x == y ? 0 : 1; };
  if (a.is_nil() || b.is_nil()) {
    if (name != "eq" && name != "ne") refuse(name, "nil has no order");
    return a.is_nil() && b.is_nil() ? std::optional(0) : std::nullopt;
  }
  if (a.held.index() != b.held.index())
    refuse(name, fmt::format("{} and {} cannot be compared", type_name(a), type_name(b)));
  if (const auto* text = a.as<MarkedText>()) return of(text->bytes(), b.as<MarkedText>()->bytes());
  if (const auto* number = a.as<int64_t>()) return of(*number, *b.as<int64_t>());
  if (const auto* number = a.as<double>()) return of(*number, *b.as<double>());
  if (const bool* flag = a.as<bool>(); flag != nullptr && (name == "eq" || name == "ne"))
    return *flag == *b.as<bool>() ? std::optional(0) : std::nullopt;
  refuse(name, fmt::format("{} cannot be compared", type_name(a)));
}

Value comparison(const std::string& name, Arguments arguments) {
  require_count(name, arguments, 2, name == "eq" ? 1000 : 2);
  if (name == "eq") {
    return std::ranges::any_of(arguments.subspan(1),
                               [&](const Value& b) { return compare(name, arguments[0], b) == 0; });
  }
  const std::optional<int> order = compare(name, arguments[0], arguments[1]);
  if (name == "ne") return order != 0;
  if (name == "lt") return order < 0;
  if (name == "le") return order <= 0;
  return name == "gt" ? order > 0 : order >= 0;
}

// fmt.Sprint puts spaces between two operands if neither is a string, fmt.Sprintln between all.
Value joined(Arguments arguments, bool line) {
  MarkedText out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto is_text = [&](size_t at) { return arguments[at].as<MarkedText>() != nullptr; };
    if (i > 0 && (line || (!is_text(i) && !is_text(i - 1)))) out.append(" ");
    out.append(arguments[i].is_nil() ? MarkedText("<nil>") : printed(arguments[i]));
  }
  if (line) out.append("\n");
  return out;
}

// %s, %v, %d, %t and %%, without flags.
Value formatted(Arguments arguments) {
  const auto* format = arguments.empty() ? nullptr : arguments[0].as<MarkedText>();
  if (format == nullptr) refuse("printf", "the format is not a string");
  MarkedText out;
  size_t next = 1;
  for (size_t at = 0; at < format->size(); ++at) {
    if (format->bytes()[at] != '%') {
      out.append(*format, at, 1);
      continue;
    }
    const char verb = ++at < format->size() ? format->bytes()[at] : '\0';
    if (verb == '%') {
      out.append("%");
      continue;
    }
    if (std::string_view("svdt").find(verb) == std::string_view::npos || next >= arguments.size())
      refuse("printf", fmt::format("the format {} is not supported", quote(format->bytes())));
    const Value& value = arguments[next++];
    const bool fits = verb == 'v' || (verb == 's' && value.as<MarkedText>() != nullptr) ||
                      (verb == 'd' && value.as<int64_t>() != nullptr) || (verb == 't' && value.as<bool>() != nullptr);
    if (!fits) refuse("printf", fmt::format("%{} of {} is not supported", verb, type_name(value)));
    out.append(value.is_nil() ? MarkedText("<nil>") : printed(value));
  }
  if (next < arguments.size()) refuse("printf", "it has more arguments than its format");
  return out;
}

Value date(std::time_t time) {
  std::tm local{};
  localtime_r(&time, &local);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &local);
  return MarkedText(std::string(text.data()));
}

}  // namespace

bool is_function(std::string_view name) { return std::ranges::find(kFunctionNames, name) != std::end(kFunctionNames); }

Value call(const std::string& name, Arguments arguments, std::time_t now) {
  constexpr std::time_t kDay = 86400;
  if (name == "not") {
    require_count(name, arguments, 1, 1);
    return !is_true(arguments[0]);
  }
  if (name == "len") return length(arguments);
  if (name == "index") return index(arguments);
  if (name == "slice") return slice(arguments);
  if (name == "print" || name == "println") return joined(arguments, name == "println");
  if (name == "printf") return formatted(arguments);
  if (name == "currentDate") return date(now);
  if (name == "yesterdayDate") return date(now - kDay);
  if (name == "json") {
    require_count(name, arguments, 1, 1);
    return marshaled(arguments[0]);
  }
  return comparison(name, arguments);
}

}  // namespace gabbro::text::go
