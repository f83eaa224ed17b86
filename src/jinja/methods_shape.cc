// Methods of str that change case, pad, or tell what characters there are.
#include "src/jinja/library.h"
#include "src/jinja/marks.h"
#include "src/jinja/methods.h"
#include "src/jinja/operators.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

template <std::string (*mapping)(std::string_view)>
Value mapped_method(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "method", args, {});
  return runtime.text(map_text(self.text(), mapping));
}

bool is_alphanumeric(char32_t c) { return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c); }

// At least one character, and all of the kind.
template <bool (*is_kind)(char32_t)>
Value all_of_kind(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "method", args, {});
  const std::string& text = self.string();
  for (size_t at = 0; at < text.size();) {
    if (!is_kind(next_code_point(text, &at))) return false;
  }
  return !text.empty();
}

template <bool empty_counts>
Value is_ascii_or_printable(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "method", args, {});
  const std::string& text = self.string();
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, &at);
    if (empty_counts ? c >= 0x80 : !is_printable(c)) return false;
  }
  return true;
}

template <bool wants_lower>
Value is_cased_as(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "method", args, {});
  return runtime.call_test(wants_lower ? "lower" : "upper", self, {});
}

Value is_titled(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "istitle", args, {});
  const std::string& text = self.string();
  bool in_word = false, found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, &at);
    const bool large = is_upper(c) || is_title(c);
    if (large ? in_word : is_lower(c) && !in_word) return false;
    in_word = large || is_lower(c);
    found = found || in_word;
  }
  return found;
}

Value is_identifier(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "isidentifier", args, {});
  const std::string& text = self.string();
  for (size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    const char32_t c = next_code_point(text, &at);
    if (!(c == '_' || is_alpha(c) || (!first && is_decimal(c)))) return false;
  }
  return !text.empty();
}

template <char alignment>
Value padded(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "ljust", args, {"width", "fillchar"}, 1);
  const std::string fill = self.is_markup() ? escape(runtime, bound.get(1, " ")).bytes() : bound.string(1, " ");
  if (count_code_points(fill) != 1) throw runtime.error("The fill character must be exactly one character long");
  return runtime.text(pad_text(runtime, self.text(), bound.integer(0, 0), alignment, fill));
}

Value zfill_method(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "zfill", args, {"width"}, 1);
  const std::string& text = self.string();
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  const int64_t width = bound.integer(0, 0);
  if (width <= length(runtime, self)) return self;
  MarkedText padded = self.text().substr(0, has_sign ? 1 : 0);
  padded.append(pad_text(runtime, self.text().substr(has_sign ? 1 : 0), width - (has_sign ? 1 : 0), '>', "0"));
  return runtime.text(std::move(padded));
}

Value expandtabs_method(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound(runtime, "expandtabs", args, {"tabsize"});
  const int64_t size = bound.integer(0, 8);
  MarkedText result;
  int64_t column = 0;
  const std::string& text = self.string();
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, &at);
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      runtime.reserve_text(static_cast<size_t>(spaces));
      result.append(std::string(static_cast<size_t>(spaces), ' '));
      column += spaces;
    } else {
      result.append(self.text(), begin, at - begin);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return runtime.text(std::move(result));
}

constexpr MethodEntry kShapeMethods[] = {
    {"upper", mapped_method<upper>},
    {"lower", mapped_method<lower>},
    {"capitalize", mapped_method<capitalize>},
    {"title", mapped_method<title>},
    {"swapcase", mapped_method<swapcase>},
    {"casefold", mapped_method<casefold>},
    {"isalpha", all_of_kind<is_alpha>},
    {"isalnum", all_of_kind<is_alphanumeric>},
    {"isdigit", all_of_kind<is_digit>},
    {"isdecimal", all_of_kind<is_decimal>},
    {"isnumeric", all_of_kind<is_numeric>},
    {"isspace", all_of_kind<is_space>},
    {"isascii", is_ascii_or_printable<true>},
    {"isprintable", is_ascii_or_printable<false>},
    {"islower", is_cased_as<true>},
    {"isupper", is_cased_as<false>},
    {"istitle", is_titled},
    {"isidentifier", is_identifier},
    {"ljust", padded<'<'>},
    {"rjust", padded<'>'>},
    {"center", padded<'^'>},
    {"zfill", zfill_method},
    {"expandtabs", expandtabs_method},
};

}  // namespace

std::span<const MethodEntry> text_shape_methods() { return kShapeMethods; }

}  // namespace gabbro::jinja
