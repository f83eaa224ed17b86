// "..." % values, and "...".format(values).
#include <cmath>

#include "src/jinja/format_spec.h"
#include "src/jinja/marks.h"
#include "src/jinja/operators.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

// A value as the format has it; a text that needed no padding keeps its marks.
MarkedText formatted(Runtime& runtime, const Value& value, const FormatSpec& spec) {
  std::string bytes = format_value(runtime, value, spec);
  if (value.is_string() && bytes == value.string()) return value.text();
  return mark_as(std::move(bytes), {&value});
}

// All of `made` is input where the format is.
MarkedText with_format_marks(const Value& format, MarkedText made) {
  return format.text().has_input() ? mark_as(made.bytes(), {&format}) : made;
}

// One rendering of a percent format.
class Percent {
 public:
  Percent(Runtime& runtime, const Value& format, const Value& arguments)
      : runtime_(runtime), format_(format.string()), escapes_(format.is_markup()), arguments_(arguments) {}

  MarkedText run() {
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out_.append(std::string_view(format_).substr(at_, percent - at_));
      at_ = percent;
      if (at_ < format_.size()) conversion();
      runtime_.step();
      runtime_.check_length(out_);
    }
    const bool tuple = arguments_.kind() == Kind::kTuple;
    if (tuple ? next_ < arguments_.items().size() : next_ == 0 && !is_mapping()) {
      throw runtime_.error("not all arguments converted during string formatting");
    }
    return std::move(out_);
  }

 private:
  char peek() const { return at_ < format_.size() ? format_[at_] : '\0'; }

  // Arguments with __getitem__ may stay unused.
  bool is_mapping() const {
    return arguments_.is_dict() || arguments_.kind() == Kind::kList || arguments_.is_undefined() ||
           arguments_.type_name() == "range";
  }

  const Value& argument() {
    if (arguments_.kind() != Kind::kTuple) {
      if (next_++ > 0) throw runtime_.error("not enough arguments for format string");
      return arguments_;
    }
    if (next_ >= arguments_.items().size()) throw runtime_.error("not enough arguments for format string");
    return arguments_.items()[next_++];
  }

  const Value& named() {
    const size_t end = format_.find(')', at_);
    if (end == std::string::npos) throw runtime_.error("incomplete format key");
    require_defined(runtime_, arguments_);
    if (!arguments_.is_dict()) throw runtime_.error("format requires a mapping");
    const std::string key = format_.substr(at_ + 1, end - at_ - 1);
    const Value* value = arguments_.dict().find(key);
    if (!value) throw runtime_.error("KeyError: {}", repr_string(key));
    at_ = end + 1;
    return *value;
  }

  int64_t number() {
    if (peek() == '*') {
      if (escapes_) throw runtime_.error("* wants int");
      ++at_;
      const int64_t given = to_index(runtime_, argument());
      if (given > INT32_MAX || given < -INT32_MAX) throw runtime_.error("width too big");
      return given;
    }
    int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > INT32_MAX) throw runtime_.error("width too big");
    }
    return value;
  }

  void conversion() {
    ++at_;
    const Value* value = peek() == '(' ? &named() : nullptr;
    FormatSpec spec{.alignment = '>'};
    bool zero = false;
    for (; at_ < format_.size() && std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at_) {
      if (peek() == '-') spec.alignment = '<';
      if (peek() == '+' || (peek() == ' ' && spec.sign != '+')) spec.sign = peek();
      if (peek() == '#') spec.alternate = true;
      if (peek() == '0') zero = true;
    }
    spec.width = number();
    if (spec.width < 0) {
      spec.alignment = '<';
      spec.width = -spec.width;
    }
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(0, number());
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    if (at_ >= format_.size()) throw runtime_.error("incomplete format");
    const char type = format_[at_++];
    if (type == '%') {
      out_.append("%");
      return;
    }
    if (zero && spec.alignment != '<' && type != 's' && type != 'r' && type != 'c') {
      spec.fill = "0";
      spec.alignment = '=';
    }
    convert(value ? *value : argument(), type, spec);
  }

  void convert(const Value& value, char type, FormatSpec spec) {
    spec.type = type;
    switch (type) {
      case 's':
      case 'r':
      case 'a':
        spec.type = 's';
        lay_out(Value(text_of(value, type)), spec);
        return;
      case 'c':
        if (escapes_) throw runtime_.error("%c requires int or char");
        if (value.is_string()) {
          if (length(runtime_, value) != 1) throw runtime_.error("%c requires an int or a unicode character");
          spec.type = 's';
          lay_out(value, spec);
        } else {
          lay_out(Value(to_index(runtime_, value)), spec);
        }
        return;
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        integer(value, type, spec);
        return;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        lay_out(Value(real(value)), spec);
        return;
      default:
        throw runtime_.error("unsupported format character '{}'", type);
    }
  }

  void lay_out(const Value& value, const FormatSpec& spec) { out_.append(formatted(runtime_, value, spec)); }

  MarkedText text_of(const Value& value, char type) {
    if (type == 's') return escapes_ ? escape(runtime_, value) : to_text(runtime_, value);
    return mark_as(escapes_ ? escape_text(repr(runtime_, value)) : repr(runtime_, value), {&value});
  }

  // Markup's wrapper of arguments converts texts to numbers too, and has no __index__.
  double real(const Value& value) {
    require_defined(runtime_, value);
    if (value.is_number()) return value.number();
    const auto parsed = escapes_ && value.is_string() ? parse_float(value.string()) : std::nullopt;
    if (!parsed) throw runtime_.error("must be real number, not {}", value.type_name());
    return *parsed;
  }

  int64_t whole_number(const Value& value, char type, bool decimal) {
    require_defined(runtime_, value);
    if (decimal || !escapes_) {
      if (value.is_integer()) return value.integer();
      if (decimal && value.is_number()) return truncate_to_int(runtime_, value.number());
      const auto parsed = escapes_ && value.is_string() ? parse_int(runtime_, value.string(), 10) : std::nullopt;
      if (parsed) return *parsed;
    }
    throw runtime_.error("%{} format: a real number is required, not {}", type, value.type_name());
  }

  void integer(const Value& value, char type, FormatSpec spec) {
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    const int64_t whole = whole_number(value, type, decimal);
    spec.type = decimal ? 'd' : type;
    if (spec.precision >= 0) {  // the least number of digits
      FormatSpec digits{
          .fill = "0", .alignment = '=', .sign = spec.sign, .alternate = spec.alternate, .type = spec.type};
      digits.width = spec.precision + (whole < 0 || spec.sign != '-' ? 1 : 0) + (spec.alternate && !decimal ? 2 : 0);
      const std::string text = format_value(runtime_, Value(whole), digits);
      lay_out(Value(text), FormatSpec{.alignment = spec.alignment == '<' ? '<' : '>', .width = spec.width});
      return;
    }
    lay_out(Value(whole), spec);
  }

  Runtime& runtime_;
  const std::string& format_;
  bool escapes_;
  const Value& arguments_;
  size_t at_ = 0;
  size_t next_ = 0;
  MarkedText out_;
};

// One rendering of a format with braces.
class Braces {
 public:
  Braces(Runtime& runtime, bool escapes, const Args& args) : runtime_(runtime), escapes_(escapes), args_(args) {}

  MarkedText run(std::string_view format, int depth) {
    if (depth > 2) throw runtime_.error("Max string recursion exceeded");
    MarkedText out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      const bool doubled = at + 1 < format.size() && format[at + 1] == c;
      if (c != '{' && c != '}') {
        out.append(format.substr(at, 1));
        ++at;
      } else if (doubled) {
        out.append(format.substr(at, 1));
        at += 2;
      } else if (c == '}') {
        throw runtime_.error("Single '}}' encountered in format string");
      } else {
        const size_t end = closing(format, at);
        runtime_.step();
        const Value value = field(format.substr(at + 1, end - at - 1), depth);
        out.append(escapes_ ? escape(runtime_, value) : value.text());
        runtime_.check_length(out);
        at = end + 1;
      }
    }
    return out;
  }

 private:
  size_t closing(std::string_view format, size_t open) const {
    int depth = 0;
    for (size_t i = open; i < format.size(); ++i) {
      if (format[i] == '{') ++depth;
      if (format[i] == '}' && --depth == 0) return i;
    }
    throw runtime_.error("expected '}}' before end of string");
  }

  Value field(std::string_view text, int depth) {
    size_t name_end = 0;
    for (bool in_brackets = false; name_end < text.size(); ++name_end) {
      if (text[name_end] == '[') in_brackets = true;
      if (text[name_end] == ']') in_brackets = false;
      if (!in_brackets && (text[name_end] == ':' || text[name_end] == '!')) break;
    }
    Value value = lookup(text.substr(0, name_end));
    std::string_view rest = text.substr(name_end);
    if (rest.starts_with('!')) {
      const char conversion = rest.size() > 1 ? rest[1] : '\0';
      if (conversion != 'r' && conversion != 's' && conversion != 'a')
        throw runtime_.error("Unknown conversion specifier");
      value = conversion == 's' ? Value(to_text(runtime_, value)) : Value(mark_as(repr(runtime_, value), {&value}));
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') throw runtime_.error("expected ':' after conversion specifier");
    }
    const std::string spec = rest.empty() ? "" : run(rest.substr(1), depth + 1).bytes();
    if (spec.empty()) return value.is_string() ? value : Value(to_text(runtime_, value));
    if (escapes_ && value.is_markup()) throw runtime_.error("Unsupported format specification for Markup.");
    if (!value.is_string() && !value.is_number()) {
      throw runtime_.error("unsupported format string passed to {}.__format__", value.type_name());
    }
    return formatted(runtime_, value, parse_format_spec(runtime_, spec));
  }

  // "name.attribute[item]"
  Value lookup(std::string_view path) {
    const size_t first = std::min(path.find_first_of(".["), path.size());
    Value value = argument(std::string(path.substr(0, first)));
    for (size_t at = first; at < path.size();) {
      const bool item = path[at] == '[';
      const size_t end = item ? path.find(']', at) : std::min(path.find_first_of(".[", at + 1), path.size());
      if (end == std::string_view::npos) throw runtime_.error("Missing ']' in format string");
      const std::string name(path.substr(at + 1, end - at - 1));
      if (name.empty()) throw runtime_.error("Empty attribute in format string");
      if (item) {
        value = get_item(runtime_, value, is_number(name) ? Value(*parse_int(runtime_, name, 10)) : Value(name));
      } else {
        value = get_attribute(runtime_, value, name);
      }
      at = item ? end + 1 : end;
    }
    return value;
  }

  static bool is_number(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  }

  Value argument(const std::string& name) {
    if (name.empty() || is_number(name)) {
      if (name.empty() ? manual_ : next_ > 0) {
        throw runtime_.error("cannot switch between manual field specification and automatic field numbering");
      }
      manual_ = !name.empty();
      const size_t index = name.empty() ? next_++ : static_cast<size_t>(*parse_int(runtime_, name, 10));
      if (index >= args_.positional.size()) {
        throw runtime_.error("Replacement index {} out of range for positional args tuple", index);
      }
      return args_.positional[index];
    }
    for (const auto& [known, value] : args_.named) {
      if (known == name) return value;
    }
    throw runtime_.error("KeyError: {}", repr_string(name));
  }

  Runtime& runtime_;
  bool escapes_;
  const Args& args_;
  size_t next_ = 0;
  bool manual_ = false;
};

}  // namespace

MarkedText format_percent(Runtime& runtime, const Value& format, const Value& arguments) {
  return with_format_marks(format, Percent(runtime, format, arguments).run());
}

MarkedText format_braces(Runtime& runtime, const Value& format, const Args& args) {
  return with_format_marks(format, Braces(runtime, format.is_markup(), args).run(format.string(), 1));
}

}  // namespace gabbro::jinja
