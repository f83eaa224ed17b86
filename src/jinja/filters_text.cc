// Filters over texts, and tojson.
#include <algorithm>

#include "src/jinja/library.h"
#include "src/jinja/marks.h"
#include "src/jinja/operators.h"
#include "src/jinja/search.h"
#include "src/jinja/utf8.h"
#include "src/jinja/wrap.h"

namespace gabbro::jinja {
namespace {

template <Mapping mapping>
Value mapped_filter(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "filter", args, {});
  return runtime.text_like(value, map_text(to_text(runtime, value), mapping));
}

// Words begin behind spaces, dashes and opening brackets; the rest of a word is in lower case.
std::string title_words(std::string_view text) {
  const std::u32string points = decode(text);
  const auto separates = [](char32_t c) {
    return is_space(c) || std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos;
  };
  std::string result;
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    while (end < points.size() && separates(points[end]) == separates(points[begin])) ++end;
    result += upper(encode(points.substr(begin, 1)));
    result += lower(encode(points.substr(begin + 1, end - begin - 1)));
    begin = end;
  }
  return result;
}

Value filter_title(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "title", args, {});
  return runtime.text(map_text(to_text(runtime, value), title_words));
}

Value filter_string(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "string", args, {});
  return value.is_string() ? value : runtime.text(to_text(runtime, value));
}

Value filter_trim(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "trim", args, {"chars"});
  const std::string characters = bound.given(0) ? bound.string(0, "") : "";
  const MarkedText text = to_text(runtime, value);
  return runtime.text_like(value, text.slice(strip(text.bytes(), kBoth, bound.given(0) ? &characters : nullptr)));
}

Value filter_replace(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "replace", args, {"old", "new", "count"}, 2);
  const int64_t count = bound.given(2) ? bound.integer(2, -1) : -1;
  return runtime.text(replace_text(runtime, to_text(runtime, value), to_text(runtime, bound[0]).bytes(),
                                   to_text(runtime, bound[1]), count));
}

const std::string& require_string(Runtime& runtime, const Value& value) {
  require_defined(runtime, value);
  if (!value.is_string()) throw runtime.error("expected a string, not '{}'", value.type_name());
  return value.string();
}

std::string spaces(Runtime& runtime, int64_t width) {
  const auto count = static_cast<size_t>(std::max<int64_t>(0, width));
  runtime.reserve_text(count);
  return std::string(count, ' ');
}

Value filter_indent(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "indent", args, {"width", "first", "blank"});
  const Value width = bound.get(0, 4);
  const Value prefix = width.is_string() ? width : Value(spaces(runtime, to_index(runtime, width)));
  const MarkedText& indentation = prefix.text();
  const bool blank = bound.truth(2, false);
  require_string(runtime, value);
  MarkedText text = value.text();
  text.append("\n");
  const bool escapes = width.is_markup() && !value.is_markup();  // each line that the indentation is added to
  MarkedText result;
  bool first = true;
  for_each_line(text.bytes(), false, [&](std::string_view line) {
    runtime.step();
    if (!first) result.append("\n");
    if (!first && (blank || !line.empty())) {
      runtime.reserve_text(result.size() > (size_t{1} << 20) ? indentation.size() : 0);
      result.append(indentation);
    }
    const MarkedText marked = text.slice(line);
    result.append(escapes && (blank || !first) ? map_pieces(marked, escape_text) : marked);
    first = false;
    runtime.check_length(result);
  });
  const bool markup = value.is_markup() || (escapes && blank);
  Value indented = markup ? runtime.markup(std::move(result)) : runtime.text(std::move(result));
  if (!bound.truth(1, false)) return indented;
  return concatenate(runtime, value.is_markup() ? as_markup(runtime, prefix) : prefix, indented);
}

Value filter_truncate(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "truncate", args, {"length", "killwords", "end", "leeway"});
  const int64_t limit = bound.integer(0, 255);
  const Value end = bound.get(2, "...");
  const int64_t leeway = bound.given(3) ? bound.integer(3, 5) : 5;
  const auto end_length = static_cast<int64_t>(count_code_points(require_string(runtime, end)));
  if (limit < end_length) throw runtime.error("expected length >= {}, got {}", end_length, limit);
  if (leeway < 0) throw runtime.error("expected leeway >= 0, got {}", leeway);
  const int64_t size = length(runtime, value);
  if (size <= limit || size - limit <= leeway) return value;
  const std::string& text = require_string(runtime, value);
  MarkedText result = value.text().substr(0, byte_offset(text, static_cast<size_t>(limit - end_length)));
  if (!bound.truth(1, false)) result = result.substr(0, result.bytes().rfind(' '));
  return concatenate(runtime, runtime.text_like(value, std::move(result)), end);
}

Value filter_wordcount(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "wordcount", args, {});
  const std::string text = to_text(runtime, value).bytes();
  int64_t count = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const bool word = is_word(next_code_point(text, &at));
    if (word && !in_word) ++count;
    in_word = word;
  }
  return count;
}

Value filter_wordwrap(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "wordwrap", args, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const WrapStyle style{.width = bound.integer(0, 79),
                        .break_long_words = bound.truth(1, true),
                        .break_on_hyphens = bound.truth(3, true)};
  if (style.width <= 0) throw runtime.error("invalid width {} (must be > 0)", style.width);
  const Value between = bound.given(2) ? bound[2] : Value("\n");
  const std::string& separator = require_string(runtime, between);
  std::string result;
  bool first = true;
  for_each_line(require_string(runtime, value), false, [&](std::string_view line) {
    if (!first) result += separator;
    first = false;
    const std::vector<std::string> wrapped = wrap_line(runtime, line, style);
    for (size_t i = 0; i < wrapped.size(); ++i) {
      runtime.step();
      if (i > 0) result += separator;
      result += between.is_markup() ? escape_text(wrapped[i]) : wrapped[i];
      runtime.check_length(std::string_view(result));
    }
  });
  return runtime.text_like(between, mark_as(std::move(result), {&value, &between}));
}

Value filter_center(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "center", args, {"width"});
  return runtime.text_like(value, pad_text(runtime, to_text(runtime, value), bound.integer(0, 80), '^'));
}

Value filter_format(Runtime& runtime, const Value& value, const Args& args) {
  if (!args.named.empty() && !args.positional.empty()) {
    throw runtime.error("can't handle positional and keyword arguments at the same time");
  }
  const Value arguments = args.named.empty() ? runtime.tuple(args.positional) : runtime.dict(make_dict(runtime, args));
  const Value format = value.is_string() ? value : runtime.text(to_text(runtime, value));
  return runtime.text_like(format, format_percent(runtime, format, arguments));
}

Value filter_tojson(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ascii = bound.truth(0, false), .sort_keys = bound.truth(3, false)};
  if (bound.given(1)) {
    style.item_separator = ",";
    if (bound[1].is_string()) {
      style.indent = bound[1].string();
    } else {
      style.indent = spaces(runtime, bound.integer(1, 0));
    }
  }
  if (bound.given(2)) {
    const std::vector<Value> separators = collect(runtime, bound[2]);
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      throw runtime.error("tojson: separators must be two strings");
    }
    style.item_separator = separators[0].string();
    style.key_separator = separators[1].string();
  }
  return runtime.text(mark_as(dump_json(runtime, value, style), {&value}));
}

constexpr FilterEntry kTextFilters[] = {
    {"upper", mapped_filter<upper>}, {"lower", mapped_filter<lower>}, {"capitalize", mapped_filter<capitalize>},
    {"title", filter_title},         {"string", filter_string},       {"trim", filter_trim},
    {"replace", filter_replace},     {"indent", filter_indent},       {"truncate", filter_truncate},
    {"wordcount", filter_wordcount}, {"wordwrap", filter_wordwrap},   {"center", filter_center},
    {"format", filter_format},       {"tojson", filter_tojson},
};

}  // namespace

std::span<const FilterEntry> text_filters() { return kTextFilters; }

MarkedText replace_text(Runtime& runtime, const MarkedText& marked, std::string_view old, const MarkedText& with,
                        int64_t count) {
  const std::string_view text = marked.bytes();
  MarkedText result;
  size_t at = 0;
  while (count != 0) {
    size_t found = 0;
    if (old.empty()) {  // before each code point, and at the end
      if (at > text.size()) break;
      found = at;
    } else {
      found = find_text(runtime, text, old, at);
    }
    if (found == std::string_view::npos) break;
    runtime.step();
    result.append(marked, at, found - at);
    result.append(with);
    runtime.check_length(result);
    at = found + old.size();
    if (old.empty()) {
      if (at == text.size()) return result;
      const size_t begin = at;
      next_code_point(text, &at);
      result.append(marked, begin, at - begin);
    }
    if (count > 0) --count;
  }
  if (at < text.size()) result.append(marked, at, text.size() - at);
  return result;
}

MarkedText pad_text(Runtime& runtime, const MarkedText& text, int64_t width, char alignment, std::string_view fill) {
  const auto size = static_cast<int64_t>(count_code_points(text.bytes()));
  if (width <= size) return text;
  const auto missing = static_cast<size_t>(width - size);
  runtime.reserve_text(missing > runtime.limits().output ? missing : missing * fill.size());
  // str.center puts the odd space on the left where the width is odd, format() always on the right.
  const size_t left = alignment == '<'   ? 0
                      : alignment == '>' ? missing
                      : alignment == '^' ? missing / 2 + (missing & static_cast<size_t>(width) & 1)
                                         : missing / 2;
  MarkedText result;
  for (size_t i = 0; i < left; ++i) result.append(fill);
  result.append(text);
  for (size_t i = left; i < missing; ++i) result.append(fill);
  return result;
}

}  // namespace gabbro::jinja
