#include "src/engine/control_codes.h"

#include <utility>

namespace gabbro {
namespace {

// A control token in the stream that is searched for stop texts: a byte that UTF-8 does not have, then four that no
// text begins with. Vocabularies have at most 2^24 tokens.
constexpr char kControlMark = '\xFF';
constexpr size_t kControlCodeSize = 5;

}  // namespace

std::string control_code(int32_t token) {
  std::string code(1, kControlMark);
  for (int shift = 18; shift >= 0; shift -= 6) code += static_cast<char>(0x80 | (token >> shift & 0x3F));
  return code;
}

std::string without_control_codes(std::string text) {
  for (size_t at = text.find(kControlMark); at != text.npos; at = text.find(kControlMark, at))
    text.erase(at, kControlCodeSize);
  return text;
}

std::vector<std::string> with_control_codes(std::vector<std::string> stops, const text::Tokenizer& tokenizer,
                                            std::vector<size_t>& origins) {
  const size_t count = stops.size();
  for (size_t i = 0; i < count; ++i) origins.push_back(i);
  for (size_t i = 0; i < count; ++i) {
    std::string coded;
    for (const text::Fragment& fragment : tokenizer.split_special(stops[i])) {
      if (fragment.token == text::kNoToken) {
        coded += fragment.text;
      } else {
        coded += tokenizer.is_control(fragment.token) ? control_code(fragment.token) : tokenizer.piece(fragment.token);
      }
    }
    if (coded.find(kControlMark) == coded.npos) continue;
    stops.push_back(std::move(coded));
    origins.push_back(i);
  }
  return stops;
}

}  // namespace gabbro
