#include "src/text/pipeline/encoder.h"

#include <fmt/format.h>

namespace gabbro::text {

void append_replaced(std::string_view text, std::string_view from, std::string_view to, std::string& out) {
  size_t at = 0;
  for (size_t next = text.find(from); next != text.npos; next = text.find(from, at)) {
    out.append(text, at, next - at).append(to);
    at = next + from.size();
  }
  out.append(text, at);
}

std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary) {
  std::vector<int32_t> tokens(256);
  for (size_t byte = 0; byte < tokens.size(); ++byte) tokens[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte));
  return tokens;
}

}  // namespace gabbro::text
