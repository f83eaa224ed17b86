#include "src/base/text_file.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro {
namespace {

Error other_encoding(std::string_view name, std::string_view encoding) {
  return Error(ErrorCode::kBadInput, fmt::format("{}: is text in {}, not in UTF-8", name, encoding),
               fmt::format("iconv -f {} -t UTF-8 converts it", encoding));
}

}  // namespace

std::string_view without_byte_order_mark(std::string_view text, std::string_view name) {
  constexpr std::string_view kUtf8 = "\xEF\xBB\xBF", kLittle16 = "\xFF\xFE", kBig16 = "\xFE\xFF";
  constexpr std::string_view kLittle32{"\xFF\xFE\0\0", 4}, kBig32{"\0\0\xFE\xFF", 4};
  if (text.starts_with(kLittle32) || text.starts_with(kBig32)) throw other_encoding(name, "UTF-32");
  if (text.starts_with(kLittle16) || text.starts_with(kBig16)) throw other_encoding(name, "UTF-16");
  if (text.starts_with(kUtf8)) text.remove_prefix(kUtf8.size());
  return text;
}

// RFC 4627, section 3: the zeros among the first four bytes tell the encoding.
void require_utf8(std::string_view text, std::string_view name) {
  if (text.size() < 4) return;
  const bool zero[] = {text[0] == 0, text[1] == 0, text[2] == 0, text[3] == 0};
  const auto zeros = std::ranges::count(zero, true);
  if (zeros == 3 && (!zero[0] || !zero[3])) throw other_encoding(name, zero[0] ? "UTF-32BE" : "UTF-32LE");
  if (zeros == 2 && zero[0] == zero[2] && zero[1] == zero[3])
    throw other_encoding(name, zero[0] ? "UTF-16BE" : "UTF-16LE");
}

std::string with_unix_lines(std::string text) {
  size_t out = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') text[out++] = text[i];
  }
  text.resize(out);
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string read_text_file(const std::string& path, size_t limit) {
  std::string text = read_file(path, limit);
  text.erase(0, text.size() - without_byte_order_mark(text, path).size());
  return text;
}

}  // namespace gabbro
