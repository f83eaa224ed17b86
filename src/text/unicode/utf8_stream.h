// Tokens end within characters; what is shown must not. Holds back the beginning of a character until the rest arrives.
#pragma once

#include <string>
#include <string_view>

namespace gabbro::text {

class Utf8Stream {
 public:
  // The text that has become whole. Broken parts become U+FFFD as in Python's errors="replace" (one for each maximal
  // part).
  std::string push(std::string_view bytes);

  // The rest that is held back, as U+FFFD, at the end of the text.
  std::string flush();

 private:
  std::string held_;  // the beginning of a character: at most three bytes
};

}  // namespace gabbro::text
