#include "src/text/encoder.h"

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

bool spans_words(std::string_view text) {
  size_t run = 0;  // an escaped space here would continue the text's first run of them
  while (text.substr(run).starts_with(kEscapedSpace)) run += kEscapedSpace.size();
  return text.find(kEscapedSpace, run) != text.npos;
}

std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary) {
  std::vector<int32_t> tokens(256);
  for (size_t byte = 0; byte < tokens.size(); ++byte) tokens[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte));
  return tokens;
}

}  // namespace gabbro::text
