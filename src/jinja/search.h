// Finding one text in another in linear time; std::string::find takes the product of the sizes for texts like "aaaa".
#pragma once

#include <string>
#include <string_view>

#include "src/jinja/runtime.h"

namespace gabbro::jinja {

// The first occurrence of `wanted` from byte `from` on, or npos. Accounts for what it reads.
size_t find_text(Runtime& runtime, std::string_view text, std::string_view wanted, size_t from = 0);

// The occurrences of `wanted` that do not overlap, the last one first.
class BackwardSearch {
 public:
  BackwardSearch(Runtime& runtime, std::string_view text, std::string_view wanted);
  size_t next();  // npos where there is no other

 private:
  Runtime& runtime_;
  std::string text_, wanted_;  // both backwards
  size_t at_ = 0;
};

}  // namespace gabbro::jinja
