// Filters that make HTML, and pprint. There is no automatic escaping in chat templates, and no Markup type here: a text
// that was escaped is an ordinary text.
#include "src/text/jinja/library.h"
#include "src/text/jinja/operators.h"
#include "src/text/jinja/utf8.h"

namespace gabbro::text::jinja {
namespace {

std::string escape(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '"':
        result += "&#34;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

Value filter_escape(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "escape", args, {});
  return runtime.text(escape(to_text(runtime, value)));
}

Value filter_safe(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "safe", args, {});
  return runtime.text(to_text(runtime, value));
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
  if (value.is_string() || !try_iterate(runtime, value)) return runtime.text(quote(to_text(runtime, value), false));
  std::string result;
  const auto add = [&](const Value& key, const Value& item) {
    if (!result.empty()) result += '&';
    result += fmt::format("{}={}", quote(to_text(runtime, key), true), quote(to_text(runtime, item), true));
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
  return runtime.text(std::move(result));
}

Value filter_xmlattr(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "xmlattr", args, {"autospace"});
  require_defined(runtime, value);
  if (!value.is_dict()) throw runtime.error("'{}' object has no attribute 'items'", value.type_name());
  std::string result;
  for (const auto& [key, item] : value.dict().entries()) {
    if (item.is_none() || item.is_undefined()) continue;
    const std::string name = to_text(runtime, key);
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      throw runtime.error("Invalid character in attribute name: {}", repr_string(name));
    }
    if (!result.empty()) result += ' ';
    result += fmt::format("{}=\"{}\"", escape(name), escape(to_text(runtime, item)));
  }
  return runtime.text(bound.truth(0, true) && !result.empty() ? fmt::format(" {}", result) : result);
}

Value filter_striptags(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "striptags", args, {});
  const std::string text = to_text(runtime, value);
  std::string bare;
  for (size_t at = 0; at < text.size();) {
    const bool comment = text.compare(at, 4, "<!--") == 0;
    const size_t end = text[at] != '<' ? std::string::npos : comment ? text.find("-->", at) : text.find('>', at);
    if (end == std::string::npos) {
      bare += text[at++];
    } else {
      at = end + (comment ? 3 : 1);
    }
  }
  std::string result;
  for (size_t at = 0; at < bare.size();) {  // runs of spaces become one
    const size_t begin = at;
    if (!is_space(next_code_point(bare, &at))) {
      result += bare.substr(begin, at - begin);
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  if (result.ends_with(' ')) result.pop_back();
  for (const auto& [entity, character] :
       {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&#39;", "'"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&amp;", "&"}}) {
    result = replace_text(runtime, result, entity, character, -1);
  }
  return runtime.text(std::move(result));
}

constexpr FilterEntry kFilters[] = {
    {"escape", filter_escape},       {"e", filter_escape},
    {"forceescape", filter_escape},  {"safe", filter_safe},
    {"urlencode", filter_urlencode}, {"xmlattr", filter_xmlattr},
    {"striptags", filter_striptags},
};

}  // namespace

std::span<const FilterEntry> markup_filters() { return kFilters; }

}  // namespace gabbro::text::jinja
