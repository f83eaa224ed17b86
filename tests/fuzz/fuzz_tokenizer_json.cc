// Any tokenizer.json and any text: the file up to the last zero byte, then the text.
#include "tests/fuzz/tokenizer_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  constexpr size_t kLongestText = 256;
  const std::string input(reinterpret_cast<const char*>(bytes), size);
  const size_t zero = input.rfind('\0');
  const std::string file = input.substr(0, zero);
  const std::string text = zero == input.npos ? "It's 12 ﬁne days" : input.substr(zero + 1, kLongestText);
  gabbro::fuzz::check_tokenizer({.name = "folder", .tokenizer_json = file}, text);
  return 0;
}
