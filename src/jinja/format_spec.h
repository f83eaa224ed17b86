// How a number or a text is laid out: the part that "%-8.3f" and "{:<8.3f}" share.
#pragma once

#include <string>

#include "src/jinja/runtime.h"

namespace gabbro::jinja {

struct FormatSpec {
  std::string fill = " ";
  char alignment = 0;  // < > ^ =, or 0 for the default of the type
  char sign = '-';     // - + or a space
  bool alternate = false;
  char grouping = 0;  // , or _
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

// format(value, spec) of Python for texts, booleans, integers and floats.
std::string format_value(Runtime& runtime, const Value& value, const FormatSpec& spec);
FormatSpec parse_format_spec(Runtime& runtime, const std::string& text);

}  // namespace gabbro::jinja
