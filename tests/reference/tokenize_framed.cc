// Token ids of many texts, for comparison with other tokenizers: [--no-special] [--decode] MODEL FILE, where FILE holds
// the texts as tokenizer_text.py frames them. A line of ids for each text; with --decode, after tabs and in hex, the
// text of the ids, the same with control tokens, and the text as it arrives token by token. With --time, only the
// seconds that encoding all texts takes. See compare_tokenizers.py and compare_tokenizer_folders.py.
#include <cstdint>
#include <cstring>
#include <ctime>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/engine/model_text.h"

namespace {

using gabbro::text::Tokenizer;

std::string in_hex(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) out += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return out;
}

Tokenizer open_tokenizer(const std::string& path) {
  if (gabbro::is_tokenizer_path(path)) return gabbro::read_tokenizer(gabbro::read_tokenizer_files(path));
  return gabbro::read_tokenizer(gabbro::Checkpoint::open(path));
}

std::vector<std::string_view> split_frames(std::string_view texts) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at + 4 <= texts.size();) {
    uint32_t length = 0;
    std::memcpy(&length, texts.data() + at, 4);
    out.push_back(texts.substr(at + 4, length));
    at += 4 + out.back().size();
  }
  return out;
}

std::string decoded(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  gabbro::text::TokenStream stream(tokenizer);
  std::string streamed;
  for (const int32_t id : ids) streamed += stream.push(id);
  streamed += stream.flush();
  return '\t' + in_hex(tokenizer.decode(ids, {.remove_special = false})) + '\t' +
         in_hex(tokenizer.decode(ids, {.remove_special = false, .show_control = true})) + '\t' + in_hex(streamed);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    std::vector<std::string> paths;
    std::set<std::string> flags;
    for (int i = 1; i < count; ++i) {
      const std::string argument = arguments[i];
      if (argument.starts_with("--")) {
        flags.insert(argument);
      } else {
        paths.push_back(argument);
      }
    }
    if (paths.size() != 2)
      throw gabbro::bad_input(
          "usage: tokenize_framed [--no-special] [--decode] [--with-ends] [--one-thread] [--time] MODEL FILE");
    const Tokenizer tokenizer = open_tokenizer(paths[0]);
    const std::string texts = gabbro::read_file(paths[1]);
    const gabbro::text::EncodeOptions options{.add_special = flags.contains("--with-ends"),
                                              .parse_special = !flags.contains("--no-special"),
                                              .threads = flags.contains("--one-thread") ? size_t{1} : size_t{0}};
    const std::clock_t start = std::clock();
    size_t tokens = 0;
    for (const std::string_view text : split_frames(texts)) {
      const std::vector<int32_t> ids = tokenizer.encode(text, options);
      tokens += ids.size();
      if (flags.contains("--time")) continue;
      for (const int32_t id : ids) std::cout << id << ' ';
      if (flags.contains("--decode")) std::cout << decoded(tokenizer, ids);
      std::cout << '\n';
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (flags.contains("--time")) std::cout << seconds << " s, " << tokens << " tokens\n";
  } catch (const gabbro::Error& error) {
    std::cerr << "tokenize_framed: error: " << error.what() << "\n";
    return 2;
  }
  return 0;
}
