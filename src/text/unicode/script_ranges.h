// Scripts of code points as `tokenizers` knows them.
#pragma once

#include <cstdint>
#include <span>

namespace gabbro::text {

struct ScriptRange {
  uint32_t first, last;
  int16_t script;  // a number without further meaning
};

// Ascending; code points outside are of no script.
std::span<const ScriptRange> script_ranges();

}  // namespace gabbro::text
