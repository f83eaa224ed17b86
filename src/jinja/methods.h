// The methods of str, list, tuple, dict and numbers.
#pragma once

#include <span>
#include <string_view>

#include "src/jinja/runtime.h"

namespace gabbro::jinja {

using MethodFunction = Value (*)(Runtime&, const Value& self, const Args&);

struct MethodEntry {
  std::string_view name;
  MethodFunction function;
};

std::span<const MethodEntry> text_methods();        // methods_text.cc: finding, splitting, replacing
std::span<const MethodEntry> text_shape_methods();  // methods_shape.cc: case, kinds of characters, padding
std::span<const MethodEntry> markup_methods();      // markup.cc: what Markup has and other texts lack

}  // namespace gabbro::jinja
