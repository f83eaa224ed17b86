#include "src/text/unicode/utf8_stream.h"

#include "src/text/unicode/utf8.h"

namespace gabbro::text {

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  size_t at = 0;
  while (at < held_.size()) {
    const Character character = read_utf8(held_, at);
    if (!character.complete) break;
    if (character.length > 0) {
      out.append(held_, at, character.length);
    } else {
      out += kReplacement;
    }
    at += character.length + character.broken;
  }
  held_.erase(0, at);
  return out;
}

std::string Utf8Stream::flush() {
  std::string out(held_.empty() ? std::string_view{} : kReplacement);
  held_.clear();
  return out;
}

}  // namespace gabbro::text
