// Functions that templates find by name: filters, tests and global functions.
#pragma once

#include <span>
#include <string_view>

#include "src/jinja/runtime.h"

namespace gabbro::jinja {

using FilterFunction = Value (*)(Runtime&, const Value& input, const Args&);
using TestFunction = bool (*)(Runtime&, const Value& input, const Args&);

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};

FilterFunction find_filter(std::string_view name);  // null: no such filter
TestFunction find_test(std::string_view name);
bool find_global(std::string_view name, Value* value);

// The filters, file by file.
std::span<const FilterEntry> text_filters();      // filters_text.cc
std::span<const FilterEntry> markup_filters();    // filters_markup.cc
std::span<const FilterEntry> number_filters();    // filters_number.cc
std::span<const FilterEntry> sequence_filters();  // filters_sequence.cc
std::span<const FilterEntry> order_filters();     // filters_order.cc

// str.replace; a negative count replaces all.
MarkedText replace_text(Runtime& runtime, const MarkedText& text, std::string_view old, const MarkedText& with,
                        int64_t count);
// Adds spaces, or `fill`, up to `width` code points: on the right for alignment '<', else '>' or '^'.
MarkedText pad_text(Runtime& runtime, const MarkedText& text, int64_t width, char alignment,
                    std::string_view fill = " ");

// The value at a path of an item, "a.b.0", for the filters that take `attribute`.
class AttributePath {
 public:
  AttributePath(Runtime& runtime, const Value& attribute);  // None: the item itself
  Value get(Runtime& runtime, const Value& item, const Value* otherwise = nullptr) const;

 private:
  std::vector<Value> parts_;
};

Value fold_case(Runtime& runtime, const Value& value);  // a text in lower case; anything else unchanged
// sorted(items, key=...), stable in both directions.
std::vector<Value> sort_by(Runtime& runtime, std::vector<Value> items, const std::function<Value(const Value&)>& key,
                           bool reverse);

// dict(...) of Python.
Dict make_dict(Runtime& runtime, const Args& args);

}  // namespace gabbro::jinja
