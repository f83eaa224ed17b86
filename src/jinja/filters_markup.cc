// Filters that make HTML. There is no automatic escaping: only these give Markup.
#include "src/jinja/library.h"
#include "src/jinja/marks.h"
#include "src/jinja/operators.h"

namespace gabbro::jinja {
namespace {

Value filter_escape(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "escape", args, {});
  return runtime.markup(escape(runtime, value));
}

Value filter_forceescape(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "forceescape", args, {});
  return runtime.markup(map_pieces(to_text(runtime, value), escape_text));
}

Value filter_safe(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "safe", args, {});
  return runtime.markup(to_text(runtime, value));
}

// Percent escapes of UTF-8 for a path, or for a query, where a space is a plus sign.
std::string quote(std::string_view text, bool for_query) {
  const std::string_view safe = for_query ? "_.-~" : "_.-~/";
  std::string result;
  for (const char c : text) {
    const bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (letter || safe.find(c) != std::string_view::npos) {
      result += c;
    } else if (for_query && c == ' ') {
      result += '+';
    } else {
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

Value filter_urlencode(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "urlencode", args, {});
  if (value.is_string() || !try_iterate(runtime, value))
    return runtime.text(mark_as(quote(to_text(runtime, value).bytes(), false), {&value}));
  std::string result;
  const auto add = [&](const Value& key, const Value& item) {
    if (!result.empty()) result += '&';
    result +=
        fmt::format("{}={}", quote(to_text(runtime, key).bytes(), true), quote(to_text(runtime, item).bytes(), true));
    runtime.check_length(std::string_view(result));
  };
  if (value.is_dict()) {
    for (const auto& [key, item] : value.dict().entries()) add(key, item);
  } else {
    for (const Value& pair : collect(runtime, value)) {
      const std::vector<Value> items = collect(runtime, pair);
      if (items.size() != 2) throw runtime.error("urlencode: expected pairs");
      add(items[0], items[1]);
    }
  }
  return runtime.text(mark_as(std::move(result), {&value}));
}

Value filter_xmlattr(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "xmlattr", args, {"autospace"});
  require_defined(runtime, value);
  if (!value.is_dict()) throw runtime.error("'{}' object has no attribute 'items'", value.type_name());
  std::string result;
  for (const auto& [key, item] : value.dict().entries()) {
    if (item.is_none() || item.is_undefined()) continue;
    const std::string name = to_text(runtime, key).bytes();
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      throw runtime.error("Invalid character in attribute name: {}", repr_string(name));
    }
    if (!result.empty()) result += ' ';
    result += fmt::format("{}=\"{}\"", escape(runtime, key).bytes(), escape(runtime, item).bytes());
    runtime.check_length(std::string_view(result));
  }
  return runtime.text(mark_as(bound.truth(0, true) && !result.empty() ? " " + result : result, {&value}));
}

Value filter_striptags(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "striptags", args, {});
  return runtime.text(strip_tags(runtime, to_text(runtime, value)));
}

constexpr FilterEntry kMarkupFilters[] = {
    {"escape", filter_escape},           {"e", filter_escape},
    {"forceescape", filter_forceescape}, {"safe", filter_safe},
    {"urlencode", filter_urlencode},     {"xmlattr", filter_xmlattr},
    {"striptags", filter_striptags},
};

}  // namespace

std::span<const FilterEntry> markup_filters() { return kMarkupFilters; }

}  // namespace gabbro::jinja
