// markupsafe's Markup: the string that `safe` and `escape` give. Chat templates escape nothing by themselves, but a
// text that meets such a string by +, % or one of its methods is escaped and becomes Markup too; ~ gives an ordinary
// string.
#include "src/jinja/library.h"
#include "src/jinja/marks.h"
#include "src/jinja/methods.h"
#include "src/jinja/operators.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

MarkedText unescape(Runtime& runtime, MarkedText text) {
  for (const auto& [entity, character] :
       {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&#39;", "'"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&amp;", "&"}}) {
    text = replace_text(runtime, text, entity, std::string(character), -1);
  }
  return text;
}

// An unclosed tag or comment ends the search.
std::string without_tags(const std::string& text) {
  std::string bare;
  size_t at = 0;
  for (size_t start = text.find('<'); start != std::string::npos; start = text.find('<', at)) {
    const bool comment = text.compare(start, 4, "<!--") == 0;
    const size_t end = comment ? text.find("-->", start + 4) : text.find('>', start);
    if (end == std::string::npos) break;
    bare.append(text, at, start - at);
    at = end + (comment ? 3 : 1);
  }
  return bare.append(text, at);
}

Value striptags_method(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "striptags", args, {});
  return runtime.text(strip_tags(runtime, self.text()));
}

Value unescape_method(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "unescape", args, {});
  return runtime.text(mark_as(unescape(runtime, self.text()).bytes(), {&self}));
}

Value escape_method(Runtime& runtime, const Value&, const Args& args) {
  const Bound bound(runtime, "escape", args, {"s"}, 1);
  return runtime.markup(escape(runtime, bound[0]));
}

constexpr MethodEntry kMarkupMethods[] = {
    {"striptags", striptags_method}, {"unescape", unescape_method}, {"escape", escape_method}};

}  // namespace

std::span<const MethodEntry> markup_methods() { return kMarkupMethods; }

std::string escape_text(std::string_view text) {
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

MarkedText escape(Runtime& runtime, const Value& value) {
  return value.is_markup() ? value.text() : map_pieces(to_text(runtime, value), escape_text);
}

Value concatenate(Runtime& runtime, const Value& left, const Value& right) {
  const bool markup = left.is_markup() || right.is_markup();
  MarkedText joined = markup ? escape(runtime, left) : left.text();
  joined.append(markup ? escape(runtime, right) : right.text());
  return markup ? runtime.markup(std::move(joined)) : runtime.text(std::move(joined));
}

Value as_markup(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value.is_markup() ? value : runtime.markup(value.text());
  if (!value.is_sequence()) return value;
  std::vector<Value> items;
  for (const Value& item : value.items()) items.push_back(as_markup(runtime, item));
  return runtime.sequence(std::move(items), value.kind() == Kind::kTuple);
}

MarkedText strip_tags(Runtime& runtime, const MarkedText& text) {
  const std::string bare = without_tags(text.bytes());
  std::string result;
  for (size_t at = 0; at < bare.size();) {
    const size_t begin = at;
    if (!is_space(next_code_point(bare, &at))) {
      result.append(bare, begin, at - begin);
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  if (result.ends_with(' ')) result.pop_back();
  const Value source(text);
  return mark_as(unescape(runtime, std::move(result)).bytes(), {&source});
}

}  // namespace gabbro::jinja
