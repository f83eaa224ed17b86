// Token ids of many texts, for comparison with other tokenizers: [--no-special] MODEL FILE, where FILE holds the texts
// as tokenizer_text.py frames them. A line of ids for each text. See compare_tokenizers.py.
#include <cstdint>
#include <cstring>
#include <iostream>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/engine/model_text.h"

int main(int count, char** arguments) {
  try {
    const bool special = count < 2 || std::strcmp(arguments[1], "--no-special") != 0;
    if (count != (special ? 3 : 4)) throw gabbro::bad_input("usage: tokenize_framed [--no-special] MODEL FILE");
    const auto file = gabbro::Checkpoint::open(arguments[count - 2]);
    const gabbro::text::Tokenizer tokenizer = gabbro::read_tokenizer(file);
    const std::string texts = gabbro::read_file(arguments[count - 1]);
    for (size_t at = 0; at + 4 <= texts.size();) {
      uint32_t length = 0;
      std::memcpy(&length, texts.data() + at, 4);
      const auto text = std::string_view(texts).substr(at + 4, length);
      for (const int32_t id : tokenizer.encode(text, {.add_special = false, .parse_special = special}))
        std::cout << id << ' ';
      std::cout << '\n';
      at += 4 + text.size();
    }
  } catch (const gabbro::Error& error) {
    std::cerr << "tokenize_framed: error: " << error.what() << "\n";
    return 2;
  }
  return 0;
}
