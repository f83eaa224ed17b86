// Methods of str that find, split, join and replace.
#include <algorithm>

#include "src/jinja/library.h"
#include "src/jinja/methods.h"
#include "src/jinja/operators.h"
#include "src/jinja/search.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

void no_keywords(Runtime& runtime, const Args& args) {
  if (!args.named.empty()) throw runtime.error("the method takes no keyword arguments");
}

template <int sides>
Value strip_method(Runtime& runtime, const Value& self, const Args& args) {
  no_keywords(runtime, args);
  const Bound bound(runtime, "strip", args, {"chars"});
  const std::string characters = bound.given(0) ? bound.string(0, "") : "";
  return runtime.text(self.text().slice(strip(self.string(), sides, bound.given(0) ? &characters : nullptr)));
}

// Parts of `source` as a list.
Value texts(Runtime& runtime, const MarkedText& source, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(runtime.text(source.slice(part)));
  return runtime.list(std::move(items));
}

std::vector<std::string_view> split_spaces(Runtime& runtime, std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  text = strip(text, kLeft);
  while (!text.empty()) {
    runtime.step();
    if (limit-- == 0) {
      parts.push_back(strip(text, kRight));
      break;
    }
    size_t end = 0;
    for (size_t at = 0; at < text.size() && !is_space(next_code_point(text, &at));) end = at;
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), kLeft);
  }
  return parts;
}

std::vector<std::string_view> split_spaces_backwards(Runtime& runtime, std::string_view text, int64_t limit) {
  std::vector<std::string_view> words = split_spaces(runtime, text, -1);
  if (limit < 0 || static_cast<int64_t>(words.size()) <= limit) return words;
  const size_t first = words.size() - static_cast<size_t>(limit) - 1;  // it and all before it stay together
  const std::string_view start = strip(text, kLeft);
  const std::string_view together(start.data(),
                                  static_cast<size_t>(words[first].data() + words[first].size() - start.data()));
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
  words[0] = together;
  return words;
}

std::vector<std::string_view> split_at(Runtime& runtime, std::string_view text, std::string_view separator,
                                       int64_t limit) {
  std::vector<std::string_view> parts;
  while (limit-- != 0) {
    const size_t found = find_text(runtime, text, separator);
    if (found == std::string_view::npos) break;
    parts.push_back(text.substr(0, found));
    text.remove_prefix(found + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_at_backwards(Runtime& runtime, std::string_view text, std::string_view separator,
                                                 int64_t limit) {
  BackwardSearch search(runtime, text, separator);
  std::vector<std::string_view> parts;
  while (limit-- != 0) {
    const size_t found = search.next();
    if (found == std::string_view::npos) break;
    parts.push_back(text.substr(found + separator.size()));
    text = text.substr(0, found);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool backwards>
Value split_method(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "split", args, {"sep", "maxsplit"});
  const int64_t limit = bound.integer(1, -1);
  const std::string& text = self.string();
  if (!bound.given(0))
    return texts(runtime, self.text(),
                 backwards ? split_spaces_backwards(runtime, text, limit) : split_spaces(runtime, text, limit));
  const std::string separator = bound.string(0, "");
  if (separator.empty()) throw runtime.error("empty separator");
  return texts(
      runtime, self.text(),
      backwards ? split_at_backwards(runtime, text, separator, limit) : split_at(runtime, text, separator, limit));
}

Value splitlines_method(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "splitlines", args, {"keepends"});
  std::vector<Value> lines;
  for_each_line(self.string(), bound.truth(0, false), [&](std::string_view line) {
    runtime.step();
    lines.push_back(runtime.text(self.text().slice(line)));
  });
  return runtime.list(std::move(lines));
}

template <bool backwards>
Value partition_method(Runtime& runtime, const Value& self, const Args& args) {
  no_keywords(runtime, args);
  const Bound bound(runtime, "partition", args, {"sep"}, 1);
  const std::string separator = bound.string(0, "");
  if (separator.empty()) throw runtime.error("empty separator");
  const std::string& text = self.string();
  const size_t found =
      backwards ? BackwardSearch(runtime, text, separator).next() : find_text(runtime, text, separator);
  if (found == std::string::npos) {
    return backwards ? runtime.tuple({"", "", self}) : runtime.tuple({self, "", ""});
  }
  return runtime.tuple({self.text().substr(0, found), bound[0], self.text().substr(found + separator.size())});
}

Value join_method(Runtime& runtime, const Value& self, const Args& args) {
  no_keywords(runtime, args);
  const Bound bound(runtime, "join", args, {"iterable"}, 1);
  const auto items = iterate(runtime, bound[0]);
  MarkedText result;
  size_t index = 0;
  for (Value item; items->next(runtime, &item); ++index) {
    if (!item.is_string() && !self.is_markup()) {
      throw runtime.error("sequence item {}: expected str instance, {} found", index, item.type_name());
    }
    if (index > 0) result.append(self.text());
    result.append(self.is_markup() ? escape(runtime, item) : item.text());
    if (result.size() > runtime.limits().output) break;
  }
  return runtime.text(std::move(result));
}

Value replace_method(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "replace", args, {"old", "new", "count"}, 2);
  if (!self.is_markup()) bound.string(1, "");  // for its checks
  const MarkedText with = self.is_markup() ? escape(runtime, bound[1]) : bound[1].text();
  return runtime.text(replace_text(runtime, self.text(), bound.string(0, ""), with, bound.integer(2, -1)));
}

// The part of a text between two optional positions, which are clamped as in a slice, and where it begins.
struct Part {
  std::string_view text;
  int64_t start = 0;
  bool valid = true;  // false: the start is after the end
};

Part part_of(Runtime& runtime, const Value& self, const Bound& bound) {
  const std::string_view text = self.string();
  if (!bound.given(1) && !bound.given(2)) return {text};
  const int64_t size = length(runtime, self);
  const auto position = [&](size_t index, int64_t otherwise) {
    const int64_t value = bound.given(index) ? bound.integer(index, 0) : otherwise;
    return std::max<int64_t>(0, value < 0 ? value + size : value);
  };
  const int64_t start = position(1, 0);
  const int64_t end = std::min(position(2, size), size);
  if (start > end) return {{}, start, false};
  const size_t begin = byte_offset(text, static_cast<size_t>(start));
  return {text.substr(begin, byte_offset(text.substr(begin), static_cast<size_t>(end - start))), start};
}

template <bool backwards, bool must_exist>
Value find_in_text(Runtime& runtime, const Value& self, const Args& args) {
  no_keywords(runtime, args);
  const Bound bound(runtime, "find", args, {"sub", "start", "end"}, 1);
  const std::string wanted = bound.string(0, "");
  const Part part = part_of(runtime, self, bound);
  const size_t found = !part.valid ? std::string::npos
                       : backwards ? BackwardSearch(runtime, part.text, wanted).next()
                                   : find_text(runtime, part.text, wanted);
  if (found == std::string::npos) {
    if (must_exist) throw runtime.error("substring not found");
    return -1;
  }
  return part.start + static_cast<int64_t>(count_code_points(part.text.substr(0, found)));
}

Value count_method(Runtime& runtime, const Value& self, const Args& args) {
  no_keywords(runtime, args);
  const Bound bound(runtime, "count", args, {"sub", "start", "end"}, 1);
  const std::string wanted = bound.string(0, "");
  const Part part = part_of(runtime, self, bound);
  if (!part.valid) return 0;
  if (wanted.empty()) return static_cast<int64_t>(count_code_points(part.text)) + 1;
  int64_t count = 0;
  for (size_t at = find_text(runtime, part.text, wanted); at != std::string_view::npos;
       at = find_text(runtime, part.text, wanted, at + wanted.size())) {
    ++count;
  }
  return count;
}

template <bool at_end>
Value starts_method(Runtime& runtime, const Value& self, const Args& args) {
  no_keywords(runtime, args);
  const Bound bound(runtime, at_end ? "endswith" : "startswith", args, {"prefix", "start", "end"}, 1);
  const Part part = part_of(runtime, self, bound);
  const auto matches = [&](const Value& affix) {
    require_defined(runtime, affix);
    if (!affix.is_string()) {
      throw runtime.error("startswith first arg must be str or a tuple of str, not {}", affix.type_name());
    }
    return part.valid && (at_end ? part.text.ends_with(affix.string()) : part.text.starts_with(affix.string()));
  };
  if (bound[0].kind() != Kind::kTuple) return matches(bound[0]);
  return std::any_of(bound[0].items().begin(), bound[0].items().end(), matches);
}

template <bool suffix>
Value remove_affix(Runtime& runtime, const Value& self, const Args& args) {
  no_keywords(runtime, args);
  const Bound bound(runtime, "removeprefix", args, {"prefix"}, 1);
  const std::string affix = bound.string(0, "");
  const std::string& text = self.string();
  if (suffix) return text.ends_with(affix) ? Value(self.text().substr(0, text.size() - affix.size())) : self;
  return text.starts_with(affix) ? Value(self.text().substr(affix.size())) : self;
}

Value format_method(Runtime& runtime, const Value& self, const Args& args) {
  return runtime.text(format_braces(runtime, self, args));
}

Value format_map_method(Runtime& runtime, const Value& self, const Args& args) {
  no_keywords(runtime, args);
  const Bound bound(runtime, "format_map", args, {"mapping"}, 1);
  if (!bound[0].is_dict()) throw runtime.error("format_map() takes a dict");
  Args named;
  for (const auto& [key, value] : bound[0].dict().entries()) {
    if (key.is_string()) named.named.emplace_back(key.string(), value);
  }
  return runtime.text(format_braces(runtime, self, named));
}

constexpr MethodEntry kTextMethods[] = {
    {"strip", strip_method<kBoth>},
    {"lstrip", strip_method<kLeft>},
    {"rstrip", strip_method<kRight>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", splitlines_method},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"join", join_method},
    {"replace", replace_method},
    {"find", find_in_text<false, false>},
    {"rfind", find_in_text<true, false>},
    {"index", find_in_text<false, true>},
    {"rindex", find_in_text<true, true>},
    {"count", count_method},
    {"startswith", starts_method<false>},
    {"endswith", starts_method<true>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"format", format_method},
    {"format_map", format_map_method},
};

}  // namespace

std::span<const MethodEntry> text_methods() { return kTextMethods; }

}  // namespace gabbro::jinja
