// Marks of input (marked_text.h) on texts that are not made by copying pieces.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "src/jinja/value.h"

namespace gabbro::jinja {

// The source of the input that a value holds in its strings, keys and items; kMixedInput for several, and for objects,
// which may hold any.
std::optional<int32_t> input_source(const Value& value);

// `bytes`, all of them marked as input where one of the values holds some.
MarkedText mark_as(std::string bytes, std::initializer_list<const Value*> values);

using Mapping = std::string (*)(std::string_view);
// A mapping of each piece by itself, such as escaping.
MarkedText map_pieces(const MarkedText& text, Mapping mapping);
// A mapping that looks at neighbors, such as title case: by pieces where that makes no difference, else the whole
// result is marked where something of `text` is.
MarkedText map_text(const MarkedText& text, Mapping mapping);

}  // namespace gabbro::jinja
