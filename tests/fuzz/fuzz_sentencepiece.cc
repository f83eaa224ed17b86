// Any SentencePiece model and any text: the first byte is the length of the text, which follows; then the model.
#include "tests/fuzz/tokenizer_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 1) return 0;
  const std::string input(reinterpret_cast<const char*>(bytes + 1), size - 1);
  const size_t length = std::min<size_t>(bytes[0], input.size());
  gabbro::fuzz::check_tokenizer({.name = "folder", .sentencepiece_model = input.substr(length)},
                                input.substr(0, length));
  return 0;
}
