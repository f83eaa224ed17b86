// Python's protocols and operators over values: truth, length, iteration, comparison, arithmetic, lookup, text.
#pragma once

#include "src/jinja/runtime.h"

namespace gabbro::jinja {

bool truth(const Value& value);
int64_t length(Runtime& runtime, const Value& value);  // throws for what has none
std::shared_ptr<Iterator> iterate(Runtime& runtime, const Value& value);
std::shared_ptr<Iterator> try_iterate(Runtime& runtime, const Value& value);  // null for what cannot be iterated
std::vector<Value> collect(Runtime& runtime, const Value& value);             // list(value)
Value reversed(Runtime& runtime, const Value& value);  // reversed(value); None where Python fails

bool equal(Runtime& runtime, const Value& left, const Value& right);
bool contains(Runtime& runtime, const Value& container, const Value& item);
enum class Order { kLess, kLessEqual, kGreater, kGreaterEqual };
bool ordered(Runtime& runtime, Order order, const Value& left, const Value& right);

enum class Arithmetic { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
Value arithmetic(Runtime& runtime, Arithmetic operation, const Value& left, const Value& right);
Value negate(Runtime& runtime, const Value& value);
Value absolute(Runtime& runtime, const Value& value);

// value.name and value[key], as Jinja's sandbox looks them up: one tries the other, and then the result is undefined.
Value get_attribute(Runtime& runtime, const Value& value, const std::string& name);
// getattr(value, name) of Python, made safe as the sandbox does; false: no such attribute.
bool find_attribute(Runtime& runtime, const Value& value, const std::string& name, Value* result);
Value get_item(Runtime& runtime, const Value& value, const Value& key);
// value[start:stop:step]; None stands for a part that is left out.
Value get_slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop, const Value& step);

MarkedText to_text(Runtime& runtime, const Value& value);  // str(value)
std::string repr(Runtime& runtime, const Value& value);
std::string repr_string(std::string_view text);
std::string repr_float(double value);
bool is_callable(const Value& value);

// Markup (markup.cc): the text of escape(value), which leaves Markup unchanged; left + right of two strings; a string,
// or each string of a list or tuple, as Markup without escaping.
MarkedText escape(Runtime& runtime, const Value& value);
std::string escape_text(std::string_view text);
Value concatenate(Runtime& runtime, const Value& left, const Value& right);
Value as_markup(Runtime& runtime, const Value& value);
// Without tags and comments, runs of spaces as one space, then without the entities that escape() writes.
MarkedText strip_tags(Runtime& runtime, const MarkedText& text);

// A value that must be an int, for an argument that Python would pass to __index__.
int64_t to_index(Runtime& runtime, const Value& value);

// Throws with the message of an undefined value.
void require_defined(Runtime& runtime, const Value& value);

// A method of a str, dict, list or tuple bound to `value`; false: no such method.
bool find_method(Runtime& runtime, const Value& value, std::string_view name, Value* method);

// format % arguments, and str.format: where the format is Markup, what is put into it is escaped.
MarkedText format_percent(Runtime& runtime, const Value& format, const Value& arguments);
MarkedText format_braces(Runtime& runtime, const Value& format, const Args& args);

struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string dump_json(Runtime& runtime, const Value& value, const JsonStyle& style);

// int(text, base) and float(text) of Python; nothing where Python raises ValueError.
std::optional<int64_t> parse_int(Runtime& runtime, std::string_view text, int64_t base);
std::optional<double> parse_float(std::string_view text);
// int(value) of a float; throws where 64 bits do not hold it.
int64_t truncate_to_int(Runtime& runtime, double value);

}  // namespace gabbro::jinja
