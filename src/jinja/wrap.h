// Python's textwrap for one paragraph.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/jinja/runtime.h"

namespace gabbro::jinja {

struct WrapStyle {
  int64_t width = 79;  // of a line, in code points; positive
  bool break_long_words = true;
  bool break_on_hyphens = true;
};

std::vector<std::string> wrap_line(Runtime& runtime, std::string_view line, const WrapStyle& style);

}  // namespace gabbro::jinja
